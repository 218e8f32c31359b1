"""The routes of state and savepoints."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import DRY_RUN, FOLDER, PAGES, TEXT, WHOLE, Endpoint, Query, ref

_AT: Final = Query("at", "the path of a savepoint elsewhere", TEXT)

STATE: Final = (
    Endpoint(
        "GET",
        "/api/v1/jobs/{name}/state",
        "the operations of a job, with rows and bytes",
        ref("State"),
        refusals=(404, 409),
    ),
    Endpoint(
        "GET",
        "/api/v1/jobs/{name}/state/{operation}",
        "rows of an operation, by its number",
        ref("StateRows"),
        (Query("limit", "rows of each table", WHOLE),),
        refusals=(404, 409),
    ),
    Endpoint(
        "POST",
        "/api/v1/jobs/{name}/savepoints",
        "write a savepoint; the job runs on",
        ref("Outcome"),
        (FOLDER, DRY_RUN),
        refusals=(404, 409),
    ),
    Endpoint(
        "GET",
        "/api/v1/savepoints",
        "all savepoints",
        ref("Savepoints"),
        (FOLDER, *PAGES),
        refusals=(400,),
    ),
    Endpoint(
        "GET",
        "/api/v1/savepoints/{name}",
        "what is in a savepoint",
        ref("SavepointWithContent"),
        (_AT,),
        refusals=(404,),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/savepoints/{name}",
        "delete a savepoint",
        ref("Savepoint"),
        (_AT, DRY_RUN),
        refusals=(404,),
    ),
)
