"""The routes of Flink's SQL Gateway, which answers errors in Flink's form."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    ANY,
    TEXT,
    WHOLE,
    Endpoint,
    Query,
    Schema,
    by_name,
    listed,
    one_of,
    record,
    ref,
)

_JSON: Final = "application/json"
_ERRORS: Final = ref("GatewayErrors")
_SESSION: Final = "/{version}/sessions/{session}"
_OPERATION: Final = f"{_SESSION}/operations/{{handle}}"
_STATEMENT: Final = record({"statement": TEXT})
_CLOSED: Final = record({"status": one_of("CLOSED")})
_STATUS: Final = record({"status": one_of("RUNNING", "FINISHED", "CANCELED", "ERROR")})


def _endpoint(
    method: str,
    path: str,
    doc: str,
    answer: Schema,
    body: Schema | None = None,
    query: tuple[Query, ...] = (),
    refusals: tuple[int, ...] = (404,),
) -> Endpoint:
    bodies = None if body is None else {_JSON: body}
    return Endpoint(method, path, doc, answer, query, bodies, refusals=refusals, errors=_ERRORS)


_OPTIONS: Final = {"executionTimeout": WHOLE, "executionConfig": by_name(TEXT)}
_ROW_FORMAT: Final = Query("rowFormat", "the form of values", one_of("JSON", "PLAIN_TEXT"))

GATEWAY: Final = (
    _endpoint(
        "GET",
        "/{version}/info",
        "what this is; the version of the path is v1, v2 or v3",
        record({"productName": TEXT, "version": TEXT}),
        refusals=(),
    ),
    _endpoint(
        "GET",
        "/{version}/api_versions",
        "versions that clients may use",
        record({"versions": listed(TEXT)}),
        refusals=(),
    ),
    _endpoint(
        "POST",
        "/{version}/sessions",
        "open a session, with its settings",
        record({"sessionHandle": TEXT}),
        record({}, {"sessionName": TEXT, "properties": by_name(TEXT)}),
        refusals=(400, 500),
    ),
    _endpoint("GET", _SESSION, "its settings", record({"properties": by_name(TEXT)})),
    _endpoint("DELETE", _SESSION, "close it, with its queries", _CLOSED),
    _endpoint("POST", f"{_SESSION}/heartbeat", "keep it", record({})),
    _endpoint(
        "POST",
        f"{_SESSION}/configure-session",
        "SET, USE, CREATE and the like, waited for",
        record({}),
        _STATEMENT,
        refusals=(400, 404, 500),
    ),
    _endpoint(
        "GET",
        f"{_SESSION}/complete-statement",
        "words that may stand at a position; with a body",
        record({"candidates": listed(TEXT)}),
        record({"statement": TEXT, "position": WHOLE}),
        refusals=(400, 404),
    ),
    _endpoint(
        "POST",
        f"{_SESSION}/statements",
        "begin a statement",
        record({"operationHandle": TEXT}),
        record({"statement": TEXT}, _OPTIONS),
        refusals=(400, 404, 500),
    ),
    _endpoint(
        "POST",
        f"{_SESSION}/materialized-tables/{{name}}/refresh",
        "refused: there are none",
        ANY,
        refusals=(404, 500),
    ),
    _endpoint("GET", f"{_OPERATION}/status", "how far a statement is", _STATUS),
    _endpoint(
        "GET",
        f"{_OPERATION}/result/{{token}}",
        "a page of its rows, or the last one again",
        ref("GatewayResult"),
        query=(_ROW_FORMAT,),
        refusals=(400, 404, 500),
    ),
    _endpoint("POST", f"{_OPERATION}/cancel", "end it", _STATUS),
    _endpoint("DELETE", f"{_OPERATION}/close", "end it, and forget its rows", _CLOSED),
)
