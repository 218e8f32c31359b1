"""The routes of the server itself, and of rows that are pushed."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    ANY,
    ARROW,
    BINARY,
    FLAG,
    JSON,
    PAGES,
    PLAIN,
    TEXT,
    WHOLE,
    Endpoint,
    by_name,
    record,
    ref,
)

_CSV: Final = "text/csv"
_LINES: Final = "application/x-ndjson"
_PROTOBUF: Final = "application/x-protobuf"

SERVER: Final = (
    Endpoint("GET", "/healthz", "is the server sound?", ref("Health"), refusals=()),
    Endpoint("GET", "/readyz", "does it take changes?", ref("Health"), refusals=()),
    Endpoint("GET", "/metrics", "figures for Prometheus", PLAIN),
    Endpoint(
        "GET",
        "/api/v1/metrics",
        "the same figures as JSON",
        ref("Metrics"),
        PAGES,
        refusals=(400,),
    ),
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

PUSHES: Final = (
    Endpoint(
        "POST",
        "/api/v1/tables/{name}/rows",
        "rows for a table of the connector `http-push`; answered once they are safe",
        record({"rows": WHOLE, "repeated": FLAG}),
        body={JSON: ANY, _LINES: TEXT, _CSV: TEXT, ARROW: BINARY},
        refusals=(400, 404, 413, 415, 429, 503),
    ),
    Endpoint(
        "POST",
        "/v1/logs",
        "log records by OTLP/HTTP, for tables of the connector `otlp`",
        ANY,
        body={JSON: ANY, _PROTOBUF: BINARY},
        refusals=(400, 413, 415, 429, 503),
        also=(_PROTOBUF,),
    ),
)
