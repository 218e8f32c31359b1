"""The server's routes: what each takes and answers. `tests/service/test_openapi.py` holds this list
against the routes that there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlengine.api.openapi.forms import (
    ANY,
    BINARY,
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    Endpoint,
    Query,
    Schema,
    by_name,
    listed,
    one_of,
    or_null,
    record,
    ref,
)
from sqlengine.api.openapi.gateway_paths import GATEWAY
from sqlengine.jobs.targets import TARGETS

_PLAIN: Final = "text/plain"
_ARROW: Final = "application/vnd.apache.arrow.stream"
_JSON: Final = "application/json"
_SQL: Final[Mapping[str, Schema]] = {_PLAIN: TEXT}
_FILE: Final = Query("file", "the file that the text is from, for messages", TEXT)
_DRY_RUN: Final = Query("dry-run", "say what would happen, and do nothing", FLAG)
_SAVEPOINT: Final = Query("savepoint", "the path of the savepoint to start from", TEXT)
_TARGET: Final = Query("target", "where the jobs run, whatever their texts say", one_of(*TARGETS))
_FOLDER: Final = Query("folder", "where savepoints are, else DATA/savepoints", TEXT)
_AT: Final = Query("at", "the path of a savepoint elsewhere", TEXT)
_SHARD: Final = Query("shard", "the shard's number, else 0", WHOLE)
_SESSION: Final = Query("session", "whose temporary objects and settings are seen", TEXT)
_WAIT: Final = Query("wait", "seconds to wait for the first row, 1 at most", NUMBER)
_LETTERS: Final = (
    Query("after", "letters behind this number, oldest first; else the last ones", WHOLE),
    Query("limit", "at most so many", WHOLE),
    Query("table", "only of this table", TEXT),
    Query("since", "only since then, in ms since 1970", WHOLE),
)
_TOPIC_LIMITS: Final[dict[str, Schema]] = {
    "retention_ms": or_null(WHOLE),
    "retention_bytes": or_null(WHOLE),
    "delete_retention_ms": or_null(WHOLE),
    "max_bytes": or_null(WHOLE),
    "compression": TEXT,
}

JOBS: Final = (
    Endpoint(
        "GET",
        "/api/v1/jobs",
        "all jobs, and files that were not taken; `next` is the `after` of the next page",
        ref("Jobs"),
        (
            Query("after", "only jobs behind this one, by name", TEXT),
            Query("limit", "at most so many", WHOLE),
        ),
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
            _DRY_RUN,
            _SAVEPOINT,
            _TARGET,
        ),
        {
            _PLAIN: TEXT,
            _JSON: record(
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
        (_FILE, _DRY_RUN, _SAVEPOINT, _TARGET),
        _SQL,
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
        refusals=(404,),
    ),
    Endpoint(
        "GET",
        "/api/v1/jobs/{name}/explain",
        "the plan, as text or for programs",
        {"anyOf": [ref("Plan"), {**TEXT, "contentMediaType": _PLAIN}]},
        (Query("format", "'json' for programs", one_of("json", "text")),),
        refusals=(404,),
    ),
    Endpoint(
        "GET",
        "/api/v1/live",
        "the jobs that ran at a moment of the past, with the versions and texts that they had",
        ref("Live"),
        (Query("at", "the moment: ms since 1970, or ISO 8601 (UTC); else now", TEXT),),
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
        (Query("limit", "at most so many", WHOLE),),
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
        "POST",
        "/api/v1/jobs/{name}/start",
        "start a job, where it was unless told otherwise",
        ref("Outcome"),
        (
            _SAVEPOINT,
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
            _FOLDER,
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
        (Query("limit", "at most so many", WHOLE),),
        {_JSON: record({}, {"ids": listed(WHOLE)}, "none: all")},
        refusals=(400, 404, 409),
    ),
    Endpoint(
        "POST",
        "/api/v1/statements",
        "SHOW JOBS, STOP JOB, ALTER TABLE and ALTER VIEW, with SET before them",
        ref("Results"),
        body=_SQL,
        refusals=(400, 404, 409, 422),
    ),
)
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
        (_FOLDER,),
        refusals=(404, 409),
    ),
    Endpoint("GET", "/api/v1/savepoints", "all savepoints", ref("Savepoints"), (_FOLDER,)),
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
        (_AT,),
        refusals=(404,),
    ),
)
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
            _WAIT,
        ),
        {_PLAIN: TEXT, _JSON: record({"sql": TEXT})},
        refusals=(400, 404, 408, 422, 429),
        also=(_ARROW,),
    ),
    Endpoint("GET", "/api/v1/queries", "the queries that run", ref("Queries")),
    Endpoint(
        "GET",
        "/api/v1/queries/{query}",
        "the next page, or the last one again",
        ref("Page"),
        (Query("page", "its number: 'next' of the page before", WHOLE), _WAIT),
        refusals=(400, 404, 408),
        also=(_ARROW,),
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
TOPICS: Final = (
    Endpoint("GET", "/api/v1/topics", "all topics", ref("Topics")),
    Endpoint(
        "POST",
        "/api/v1/topics",
        "create a topic",
        ref("Topic"),
        body={
            _JSON: record(
                {"name": TEXT},
                {"shards": WHOLE, "compacted": FLAG, "if_not_exists": FLAG, **_TOPIC_LIMITS},
            )
        },
        refusals=(400, 409),
    ),
    Endpoint(
        "GET",
        "/api/v1/topics/{name}",
        "a topic with its shards and the groups that read it",
        ref("TopicWithPlaces"),
        refusals=(404,),
    ),
    Endpoint(
        "PATCH",
        "/api/v1/topics/{name}",
        "change limits; null removes one",
        ref("Topic"),
        body={_JSON: record({}, _TOPIC_LIMITS)},
        refusals=(400, 404),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/topics/{name}",
        "delete a topic that no job uses",
        ref("Deleted"),
        refusals=(400, 404, 409),
    ),
    Endpoint(
        "POST",
        "/api/v1/topics/{name}/records",
        "append each line of the body as a record",
        ref("Appended"),
        (_SHARD, Query("key", "the key of all of them", TEXT)),
        {_PLAIN: TEXT, _JSON: ANY},
        refusals=(400, 404, 429, 507),
    ),
    Endpoint(
        "GET",
        "/api/v1/topics/{name}/records",
        "read records of a shard",
        ref("Records"),
        (
            _SHARD,
            Query("offset", "a number, 'earliest', 'latest' or a time", TEXT),
            Query("limit", "at most so many", WHOLE),
            Query("wait", "seconds to wait for the first, 1 at most", NUMBER),
            Query("key", "only those with this key", TEXT),
        ),
        refusals=(400, 404),
    ),
    Endpoint(
        "POST",
        "/api/v1/topics/{name}/compact",
        "compact a topic now",
        ref("Compacted"),
        refusals=(400, 404),
    ),
    Endpoint(
        "POST",
        "/api/v1/topics/{name}/move",
        "put a shard into another folder",
        ref("Moved"),
        body={_JSON: record({"folder": TEXT}, {"shard": WHOLE, "with_data": FLAG})},
        refusals=(400, 404),
    ),
    Endpoint("GET", "/api/v1/groups", "groups of consumers, with their lag", ref("Groups")),
    Endpoint(
        "POST",
        "/api/v1/groups/{group}/reset",
        "set the offsets at which a group goes on",
        ref("Reset"),
        body={_JSON: record({"topic": TEXT, "to": TEXT}, {"shard": WHOLE})},
        refusals=(400, 404, 409),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/groups/{group}",
        "forget a group's offsets",
        ref("Deleted"),
        refusals=(400, 409),
    ),
)
SERVER: Final = (
    Endpoint("GET", "/healthz", "is the server sound?", ref("Health"), refusals=()),
    Endpoint("GET", "/readyz", "does it take changes?", ref("Health"), refusals=()),
    Endpoint("GET", "/metrics", "figures for Prometheus", _PLAIN),
    Endpoint("GET", "/api/v1/instances", "the processes that run jobs in parts", ref("Instances")),
    Endpoint("GET", "/api/v1/spark", "Spark, and the graphs that run there", ref("Spark")),
    Endpoint("GET", "/api/v1/openapi.json", "this description", by_name(ANY)),
    Endpoint(
        "POST",
        "/api/v1/broker",
        "the broker for other processes, MessagePack",
        "application/msgpack",
        body={"application/msgpack": {**TEXT, "contentEncoding": "binary"}},
    ),
)
_CSV: Final = "text/csv"
_LINES: Final = "application/x-ndjson"
_PROTOBUF: Final = "application/x-protobuf"

PUSHES: Final = (
    Endpoint(
        "POST",
        "/api/v1/tables/{name}/rows",
        "rows for a table of the connector `http-push`; answered once they are safe",
        record({"rows": WHOLE, "repeated": FLAG}),
        body={_JSON: ANY, _LINES: TEXT, _CSV: TEXT, _ARROW: BINARY},
        refusals=(400, 404, 413, 415, 429, 503),
    ),
    Endpoint(
        "POST",
        "/v1/logs",
        "log records by OTLP/HTTP, for tables of the connector `otlp`",
        ANY,
        body={_JSON: ANY, _PROTOBUF: BINARY},
        refusals=(400, 413, 415, 429, 503),
        also=(_PROTOBUF,),
    ),
)
GROUPS: Final[Mapping[str, tuple[Endpoint, ...]]] = {
    "Jobs": JOBS,
    "State and savepoints": STATE,
    "Queries": QUERIES,
    "Topics": TOPICS,
    "Rows that are pushed": PUSHES,
    "Server": SERVER,
    "Flink's SQL Gateway": GATEWAY,
}
