"""The routes of jobs."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    DRY_RUN,
    FLAG,
    FOLDER,
    JSON,
    PAGES,
    PLAIN,
    SAVEPOINT,
    SQL,
    TEXT,
    WHOLE,
    Endpoint,
    Query,
    by_name,
    listed,
    one_of,
    record,
    ref,
)
from sqlengine.jobs.targets import TARGETS

_FILE: Final = Query("file", "the file that the text is from, for messages", TEXT)
_TARGET: Final = Query("target", "where the jobs run, whatever their texts say", one_of(*TARGETS))

JOBS: Final = (
    Endpoint(
        "GET",
        "/api/v1/jobs",
        "all jobs, and files that were not taken; `next` is the `after` of the next page",
        ref("Jobs"),
        PAGES,
        refusals=(400,),
    ),
    Endpoint(
        "POST",
        "/api/v1/jobs",
        "add or replace jobs in one change; 207 where some of many are refused",
        {"anyOf": [ref("Outcome"), ref("Outcomes")]},
        (
            Query("name", "the job's name, for SQL as text", TEXT),
            _FILE,
            DRY_RUN,
            SAVEPOINT,
            _TARGET,
        ),
        {
            PLAIN: TEXT,
            JSON: record(
                {},
                {
                    "name": TEXT,
                    "sql": TEXT,
                    "modules": by_name(TEXT),
                    "jobs": by_name(TEXT),
                    "files": by_name(TEXT),
                },
                '{"name", "sql"} or {"jobs": {name: sql}}; "modules": sources of Python modules',
            ),
        },
        (200, 201, 207),
        (400, 409, 422),
    ),
    Endpoint(
        "PUT",
        "/api/v1/jobs/{name}",
        "add or replace a job: the body is its SQL",
        ref("Outcome"),
        (_FILE, DRY_RUN, SAVEPOINT, _TARGET),
        SQL,
        (200, 201),
        (400, 409, 422),
    ),
    Endpoint("DELETE", "/api/v1/jobs/{name}", "remove a job", ref("Outcome"), refusals=(404, 409)),
    Endpoint(
        "GET",
        "/api/v1/jobs/{name}",
        "a job with its text",
        ref("JobWithText"),
        (Query("settled", "what it had read by then is written", FLAG),),
        refusals=(404,),
    ),
    Endpoint(
        "GET",
        "/api/v1/jobs/{name}/history",
        "all versions, also of a removed job",
        ref("History"),
        PAGES,
        refusals=(400, 404),
    ),
    Endpoint(
        "GET",
        "/api/v1/jobs/{name}/explain",
        "the plan, as text or for programs",
        {"anyOf": [ref("Plan"), {**TEXT, "contentMediaType": PLAIN}]},
        (Query("format", "'json' for programs", one_of("json", "text")),),
        refusals=(404,),
    ),
    Endpoint(
        "POST",
        "/api/v1/jobs/{name}/start",
        "start a job, where it was unless told otherwise",
        ref("Outcome"),
        (
            SAVEPOINT,
            Query("from", "begin as a new job: 'configured', 'earliest', 'latest' or a time", TEXT),
        ),
        refusals=(404, 409),
    ),
    Endpoint(
        "POST",
        "/api/v1/jobs/{name}/stop",
        "stop a job",
        ref("Outcome"),
        (
            Query("savepoint", "after a savepoint", FLAG),
            Query("drain", "after all its windows have fired, with a savepoint", FLAG),
            FOLDER,
        ),
        refusals=(404, 409),
    ),
    Endpoint(
        "POST",
        "/api/v1/jobs/{name}/isolate",
        "move a job into a graph of its own",
        ref("Outcome"),
        refusals=(404, 409),
    ),
    Endpoint(
        "POST",
        "/api/v1/jobs/{name}/merge",
        "move a job back to the others, now or when it can be",
        ref("Outcome"),
        refusals=(404, 409),
    ),
    Endpoint(
        "POST",
        "/api/v1/jobs/{name}/move",
        "move a job with its state into the server's process, or to Spark",
        ref("Outcome"),
        (Query("to", "where it runs from now on", one_of(*TARGETS)),),
        refusals=(400, 404, 409),
    ),
    Endpoint(
        "POST",
        "/api/v1/jobs/{name}/reload-lookups",
        "read the tables again in which a job looks rows up, where these are held as a whole",
        record({"tables": listed(TEXT)}),
        refusals=(404,),
    ),
    Endpoint(
        "POST",
        "/api/v1/jobs/{name}/rollback",
        "submit an old version again",
        ref("Outcome"),
        (Query("version", "its number", WHOLE),),
        refusals=(400, 404, 409),
    ),
    Endpoint(
        "GET",
        "/api/v1/jobs/{name}/diff",
        "what the shadow of a rule would have written, beside its live version",
        ref("Difference"),
        refusals=(404,),
    ),
    Endpoint(
        "POST",
        "/api/v1/jobs/{name}/promote",
        "let the shadow of a rule become live, with its state",
        ref("Outcome"),
        refusals=(404, 409),
    ),
    Endpoint(
        "POST",
        "/api/v1/statements",
        "SHOW JOBS, STOP JOB, ALTER TABLE and ALTER VIEW, with SET before them",
        ref("Results"),
        body=SQL,
        refusals=(400, 404, 409, 422),
    ),
)
