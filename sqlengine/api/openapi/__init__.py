"""The description of the server's routes (OpenAPI 3.1): `/api/v1/openapi.json` and docs/rest.md."""
