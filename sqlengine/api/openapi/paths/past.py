"""The routes of what has become of jobs and their rows: costs, the audit log, dead letters."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    DRY_RUN,
    JSON,
    LIMIT,
    PAGES,
    TEXT,
    WHOLE,
    Endpoint,
    Query,
    listed,
    record,
    ref,
)

_LETTERS: Final = (
    Query("after", "letters behind this number, oldest first; else the last ones", WHOLE),
    LIMIT,
    Query("table", "only of this table", TEXT),
    Query("since", "only since then, in ms since 1970", WHOLE),
)

PAST: Final = (
    Endpoint(
        "GET",
        "/api/v1/live",
        "the jobs that ran at a moment of the past, with the versions and texts that they had",
        ref("Live"),
        (Query("at", "the moment: ms since 1970, or ISO 8601 (UTC); else now", TEXT), *PAGES),
        refusals=(400,),
    ),
    Endpoint(
        "GET",
        "/api/v1/audit",
        "lines of the audit log, oldest first; `next` is the `after` of the next ones",
        ref("AuditLines"),
        (
            Query("job", "only of this job, topic or file", TEXT),
            Query("since", "only from then on: ms since 1970, or ISO 8601 (UTC)", TEXT),
            Query("until", "only till then", TEXT),
            Query("after", "only behind this number", WHOLE),
            Query("limit", "at most so many, else 1000", WHOLE),
        ),
        refusals=(400,),
    ),
    Endpoint(
        "GET",
        "/api/v1/costs",
        "what running jobs cost, the costliest first, with the slowest condition of each",
        ref("Costs"),
        PAGES,
        refusals=(400,),
    ),
    Endpoint(
        "GET",
        "/api/v1/jobs/{name}/cost",
        "what a running job costs, with each condition of its filters, measured now",
        ref("Cost"),
        refusals=(404, 409),
    ),
    Endpoint(
        "GET", "/api/v1/dead-letters", "rows that could not be processed", ref("Letters"), _LETTERS
    ),
    Endpoint(
        "GET",
        "/api/v1/jobs/{name}/dead-letters",
        "those of a job and of its tables",
        ref("Letters"),
        _LETTERS,
        refusals=(404,),
    ),
    Endpoint(
        "POST",
        "/api/v1/jobs/{name}/dead-letters/replay",
        "process letters again, once each",
        ref("Replayed"),
        (LIMIT, DRY_RUN),
        {JSON: record({}, {"ids": listed(WHOLE)}, "none: all")},
        refusals=(400, 404, 409),
    ),
)
