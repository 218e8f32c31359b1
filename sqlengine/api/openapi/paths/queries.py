"""The routes of queries and sessions."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    ARROW,
    BINARY,
    EVENTS,
    FLAG,
    JSON,
    NUMBER,
    PAGES,
    PLAIN,
    TEXT,
    WHOLE,
    Endpoint,
    Query,
    record,
    ref,
)

_SESSION: Final = Query("session", "whose temporary objects and settings are seen", TEXT)
_WAIT: Final = Query("wait", "seconds to wait for the first row, 1 at most", NUMBER)

QUERIES: Final = (
    Endpoint(
        "POST",
        "/api/v1/queries",
        "run a statement; the answer has the first page of its rows",
        ref("Page"),
        (
            _SESSION,
            Query("follow", "go on with rows that come later", FLAG),
            Query("timeout", "end it after so many seconds", NUMBER),
            Query("write", "INSERT runs or becomes a job, CREATE and DROP count for all", FLAG),
            Query("job", "with `write`: INSERT becomes the job of this name", TEXT),
            _WAIT,
        ),
        {PLAIN: TEXT, JSON: record({"sql": TEXT}), ARROW: BINARY},
        refusals=(400, 404, 408, 409, 422, 429),
        also=(ARROW, EVENTS),
    ),
    Endpoint(
        "GET", "/api/v1/queries", "the queries that run", ref("Queries"), PAGES, refusals=(400,)
    ),
    Endpoint(
        "GET",
        "/api/v1/queries/{query}",
        "the next page, or the last one again",
        ref("Page"),
        (Query("page", "its number: 'next' of the page before", WHOLE), _WAIT),
        refusals=(400, 404, 408),
        also=(ARROW, EVENTS),
    ),
    Endpoint("DELETE", "/api/v1/queries/{query}", "end a query", ref("Ended"), refusals=(404,)),
    Endpoint("POST", "/api/v1/sessions", "open a session", ref("Session")),
    Endpoint(
        "DELETE", "/api/v1/sessions/{session}", "close a session", ref("Session"), refusals=(404,)
    ),
    Endpoint(
        "GET",
        "/api/v1/catalog",
        "tables with their columns, functions, jobs",
        ref("Catalog"),
        (_SESSION,),
        refusals=(404,),
    ),
)
