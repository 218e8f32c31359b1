"""Answers of a server, held against its description (OpenAPI)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from flask import Flask, Response, request
from jsonschema import Draft202012Validator

from sqlengine import service
from sqlengine.api import app
from sqlengine.api.openapi.document import document

# Longer bodies are not checked: thousands of rows have the form of the first ones.
MAX_BODY = 16 << 10
_CONVERTER = re.compile(r"<(?:\w+:)?(\w+)>")


def path_of(rule: object) -> str:
    """A route's rule as a path of the description."""
    return _CONVERTER.sub(r"{\1}", str(rule))


def faults(
    method: str, path: str, status: int, kind: str, body: bytes, *, strict: bool = False
) -> Iterator[str]:
    """What is wrong with an answer. `strict`: it has no field that is not described."""
    about: Any = document()
    operation = about["paths"].get(path, {}).get(method.lower())
    if operation is None:
        yield f"{method} {path} is not described"
        return
    answers = operation["responses"]
    described = answers.get(str(status)) or (answers["default"] if status >= 400 else None)
    if described is None:
        yield f"{method} {path}: status {status} is not described"
        return
    if status == 304:  # sent without the body that the framework still holds here
        return
    content: Mapping[str, Any] = described["content"]
    if kind not in content:
        if status not in (503,):
            yield f"{method} {path}: {status} has {kind}, described is {', '.join(content)}"
        return
    if not kind.endswith("json") or len(body) > MAX_BODY:
        return
    schema = {**content[kind]["schema"], "components": about["components"]}
    if strict:
        schema = _closed(schema)
    for error in Draft202012Validator(schema).iter_errors(json.loads(body)):
        yield f"{method} {path}: {status}: {error.json_path}: {error.message[:300]}"


def _closed(schema: Any) -> Any:
    """The schema without room for other fields."""
    if isinstance(schema, list):
        return [_closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed["additionalProperties"] = False
    return closed


@contextmanager
def checked_answers() -> Iterator[None]:
    """Checks each answer of servers that begin within."""
    found: list[str] = []
    create = app.create_app

    def create_checked(*arguments: Any) -> Flask:
        made = create(*arguments)

        @made.after_request
        def check(response: Response) -> Response:
            if request.method == "HEAD":  # a GET without its body
                return response
            if request.url_rule is not None and not response.is_streamed:
                kind = response.mimetype or ""
                body = response.get_data()
                path = path_of(request.url_rule)
                found.extend(faults(request.method, path, response.status_code, kind, body))
            return response

        return made

    with patch.object(service, "create_app", create_checked):
        yield
    assert not found, "sqlengine/api/openapi says otherwise:\n" + "\n".join(sorted(set(found)))
