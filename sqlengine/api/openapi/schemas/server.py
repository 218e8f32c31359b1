"""The schemas of the server itself."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    ANY,
    FLAG,
    NUMBER,
    PLACE,
    TEXT,
    WHOLE,
    Schema,
    by_name,
    listed,
    one_of,
    or_null,
    paged,
    record,
)

_SPARK_GRAPH: Final = {
    "graph": TEXT,
    "jobs": WHOLE,
    "epochs": WHOLE,
    "repeated": WHOLE,
    "last_epoch_s": NUMBER,
    "mean_epoch_s": NUMBER,
    "partitions": WHOLE,
    "tasks": WHOLE,
    "task_retries": WHOLE,
    "cpu_s": NUMBER,
    "state_files": WHOLE,
    "state_bytes": WHOLE,
    "step": or_null(TEXT),
    "problem": or_null(TEXT),
}

_QUERIED: Final = record({"jobId": TEXT, "sql": TEXT, "status": one_of("RUNNING", "STOPPED")})

_SAMPLE: Final = {"name": TEXT, "labels": by_name(TEXT), "value": or_null(NUMBER)}
_FAMILY: Final = {"name": TEXT, "type": TEXT, "help": TEXT, "samples": listed(record(_SAMPLE))}

SERVER: Final[dict[str, Schema]] = {
    "Problem": record(
        {"type": TEXT, "title": TEXT, "status": WHOLE, "message": TEXT, "detail": TEXT},
        {"cause": TEXT, "hint": TEXT, "file": TEXT, "retry_ms": WHOLE, **PLACE},
        "RFC 9457; line and column count from 1 in the text of the job",
    ),
    "Metrics": paged("metrics", record(_FAMILY)),
    "Instances": record({"instances": listed(by_name(ANY))}),
    "Spark": record(
        {
            "session": or_null(
                record(
                    {
                        "master": TEXT,
                        "version": TEXT,
                        "ui": or_null(TEXT),
                        "seconds": NUMBER,
                        "starts": WHOLE,
                    }
                )
            ),
            "graphs": listed(record(_SPARK_GRAPH)),
        },
        doc="session: null before Spark has started; graphs: since each was opened",
    ),
    "RsqldbAnswer": record(
        {
            "code": {"type": "integer", "enum": [200, 400, 500]},
            "status": one_of("SUCCESS", "CLIENT_EXCEPTION", "RSQLDB_SERVER_EXCEPTION"),
            "message": TEXT,
            "data": {"anyOf": [TEXT, listed(TEXT), _QUERIED, listed(_QUERIED)]},
            "success": FLAG,
        },
        doc="the HTTP status is 200, whatever the code",
    ),
    "Health": record({"status": TEXT, "problem": or_null(TEXT)}),
}
