"""The schemas of state and savepoints."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    ANY,
    FLAG,
    MS,
    TEXT,
    WHOLE,
    Schema,
    by_name,
    listed,
    paged,
    record,
    ref,
)

_SAVEPOINT: Final = {
    "path": TEXT,
    "job": TEXT,
    "version": WHOLE,
    "created_ms": MS,
    "epoch": WHOLE,
    "format": WHOLE,
    "rows": WHOLE,
    "bytes": WHOLE,
}

STATE: Final[dict[str, Schema]] = {
    "Savepoint": record(_SAVEPOINT),
    "SavepointWithContent": record(
        {
            **_SAVEPOINT,
            "operations": listed(by_name(ANY)),
            "graph": TEXT,
            "sources": ANY,
            "sql": TEXT,
            "settings": by_name(TEXT),
            "drained": FLAG,
            "layout": WHOLE,
            "state_format": WHOLE,
            "bucket_hash": WHOLE,
        },
        {"constants": ANY, "fingerprint": TEXT},
    ),
    "Savepoints": paged(
        "savepoints", {"anyOf": [ref("Savepoint"), record({"error": ref("Problem")})]}
    ),
    "State": record(
        {
            "job": TEXT,
            "operations": listed(
                record(
                    {
                        "operation": WHOLE,
                        "name": TEXT,
                        "state": FLAG,
                        "jobs": listed(TEXT),
                        "rows": WHOLE,
                        "keys": WHOLE,
                        "bytes": WHOLE,
                        "tables": listed(
                            record({"name": TEXT, "rows": WHOLE, "bytes": WHOLE, "layout": TEXT})
                        ),
                    }
                )
            ),
        }
    ),
    "StateRows": record(
        {
            "job": TEXT,
            "operation": WHOLE,
            "tables": listed(
                record(
                    {
                        "name": TEXT,
                        "columns": listed(TEXT),
                        "rows": listed(listed(ANY)),
                        "total": WHOLE,
                    }
                )
            ),
        }
    ),
}
