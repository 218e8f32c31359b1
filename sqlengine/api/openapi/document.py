"""The description as a document, and as the reference of docs/rest.md.

python -m sqlengine.api.openapi.document docs/rest.md     writes the page's reference anew"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from flask import Blueprint, Response, jsonify

from sqlengine.api.openapi.forms import TEXT, Endpoint, Query, Schema, one_of, ref
from sqlengine.api.openapi.paths import GROUPS
from sqlengine.api.openapi.schemas import SCHEMAS
from sqlengine.system.data_folder import VERSION

PATH: Final = "/api/v1/openapi.json"
BEGIN: Final = "<!-- written by: python -m sqlengine.api.openapi.document docs/rest.md -->"
_JSON: Final = "application/json"
# Parts of paths that are no names.
_PARTS: Final[Mapping[str, Schema]] = {
    "operation": {"type": "integer", "minimum": 0},
    "token": {"type": "integer", "minimum": 0},
    "version": one_of("v1", "v2", "v3"),
}
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_CONVERTER: Final = re.compile(r"<(?:\w+:)?(\w+)>")
_KEY_REFUSED: Final = (409, 422)


def openapi_blueprint() -> Blueprint:
    """Returns the route of the description."""
    blueprint = Blueprint("openapi", __name__)

    @blueprint.get(PATH)
    def openapi() -> Response:
        """Describes all routes (OpenAPI 3.1)."""
        return jsonify(document())

    return blueprint


@cache
def document() -> Schema:
    """Returns the OpenAPI document."""
    paths: dict[str, dict[str, object]] = {}
    for group, endpoints in GROUPS.items():
        for endpoint in endpoints:
            methods = paths.setdefault(endpoint.path, {})
            methods[endpoint.method.lower()] = _operation(endpoint, group)
    return {
        "openapi": "3.1.0",
        "info": {"title": "sqlengine", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def route_of(rule: str) -> str:
    """Returns the path of a route as the document has it.

    >>> route_of("/api/v1/jobs/<name>/state/<int:operation>")
    '/api/v1/jobs/{name}/state/{operation}'
    """
    return _CONVERTER.sub(r"{\1}", rule)


def _operation(endpoint: Endpoint, group: str) -> Schema:
    operation: Schema = {
        "summary": endpoint.doc,
        "tags": [group],
        "parameters": [
            *_in_path(endpoint.path),
            *(_given(query, "query") for query in endpoint.query),
            *(_given(header, "header") for header in _headers(endpoint)),
        ],
        "responses": _responses(endpoint),
    }
    if endpoint.body is not None:
        content = {kind: {"schema": schema} for kind, schema in endpoint.body.items()}
        operation["requestBody"] = {"content": content}
    return operation


def _in_path(path: str) -> Iterator[Schema]:
    for name in _PARAMETER.findall(path):
        yield {"name": name, "in": "path", "required": True, "schema": _PARTS.get(name, TEXT)}


def _given(query: Query, where: str) -> Schema:
    return {"name": query.name, "in": where, "description": query.doc, "schema": query.schema}


def _headers(endpoint: Endpoint) -> Iterator[Query]:
    yield from endpoint.headers
    if endpoint.cached:
        yield Query("If-None-Match", "the ETag of the answer that is known: then 304", TEXT)
    if endpoint.keyed:
        yield Query("Idempotency-Key", "sent again with it, a request has its first answer", TEXT)


def _responses(endpoint: Endpoint) -> Schema:
    if isinstance(endpoint.answer, str):
        content: Schema = {endpoint.answer: {}}
    else:
        content = {_JSON: {"schema": endpoint.answer}}
    also: Schema = {kind: {} for kind in endpoint.also}
    content |= also
    about: Schema = {"description": "done", "content": content}
    if endpoint.tagged or endpoint.cached:
        about["headers"] = {"ETag": {"schema": TEXT}}
    done: dict[str, Schema] = {str(status): about for status in endpoint.statuses}
    if endpoint.cached:
        done["304"] = {"description": "as it is known"}
    problem: Schema = {"application/problem+json": {"schema": ref("Problem")}, **also}
    if endpoint.errors is not None:
        problem |= {_JSON: {"schema": endpoint.errors}}
    statuses = {*endpoint.refusals, *(_KEY_REFUSED if endpoint.keyed else ())}
    refused = {str(s): {"description": "refused", "content": problem} for s in sorted(statuses)}
    return {**done, **refused, "default": {"description": "refused", "content": problem}}


def reference() -> str:
    """Returns the reference: a table of endpoints for each group."""
    parts = [BEGIN]
    for group, endpoints in GROUPS.items():
        parts += ["", f"### {group}", "", *_table(endpoints)]
    return "\n".join(parts) + "\n"


def _table(endpoints: Sequence[Endpoint]) -> Iterator[str]:
    yield "| request | parameters | what it does | refused with |"
    yield "|---|---|---|---|"
    for endpoint in endpoints:
        parameters = ", ".join(f"`{q.name}`: {q.doc}" for q in endpoint.query)
        request = f"`{endpoint.method} {endpoint.path}`"
        refusals = ", ".join(map(str, endpoint.refusals))
        yield f"| {request} | {parameters} | {endpoint.doc} | {refusals} |"


def with_reference(page: str) -> str:
    """Returns a page with the reference in the place of what stands behind its mark."""
    return page.partition(BEGIN)[0] + reference()


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(with_reference(file.read_text(encoding="utf-8")), encoding="utf-8")
