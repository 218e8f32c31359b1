"""The schemas of what has become of jobs and their rows: costs, the audit log, dead letters."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    ANY,
    FLAG,
    MS,
    NUMBER,
    PLACE,
    TEXT,
    WHOLE,
    Schema,
    by_name,
    listed,
    or_null,
    paged,
    record,
    ref,
)

_LIVE: Final = {
    "name": TEXT,
    "version": WHOLE,
    "since": TEXT,
    "by": TEXT,
    "peer": TEXT,
    "sql": or_null(TEXT),
    "text_sha256": TEXT,
    "text_proven": FLAG,
}
_LINE: Final = {
    "n": WHOLE,
    "prev": TEXT,
    "time": TEXT,
    "by": TEXT,
    "peer": TEXT,
    "what": TEXT,
    "outcome": TEXT,
    "hash": TEXT,
}
_MORE: Final[dict[str, Schema]] = {
    **dict.fromkeys(("object", "detail", "via", "renamed", "state", "origin", "file"), TEXT),
    **dict.fromkeys(("text_sha256", "diff", "reason"), TEXT),
    **dict.fromkeys(("version", "before", "times", "bytes"), WHOLE),
    "jobs": by_name({"type": "object"}),
}
_CONDITION: Final = {"condition": TEXT, "us_per_row": NUMBER, "true": NUMBER}
_COST: Final = {
    "name": TEXT,
    "graph": TEXT,
    "cpu_us_per_event": or_null(NUMBER),
    "cpu_s": NUMBER,
    "events": WHOLE,
    "share": NUMBER,
    "state_bytes": WHOLE,
    "rows": WHOLE,
    "over_budget": or_null(TEXT),
    "cache_hits": or_null(NUMBER),
}

PAST: Final[dict[str, Schema]] = {
    "Live": record(
        {
            "at": TEXT,
            "known": FLAG,
            "server_ran": FLAG,
            "proven": FLAG,
            "last_line": TEXT,
            "next": or_null(TEXT),
            "jobs": listed(record(_LIVE)),
        }
    ),
    "AuditLines": record({"events": listed(record(_LINE, _MORE)), "next": or_null(WHOLE)}),
    "Costs": paged("jobs", record({**_COST, "slowest": or_null(record(_CONDITION))})),
    "Cost": record({**_COST, "conditions": listed(record(_CONDITION))}),
    "Letter": record(
        {
            "id": WHOLE,
            "time": MS,
            "job": TEXT,
            "version": WHOLE,
            "place": TEXT,
            "subject": TEXT,
            "reason": TEXT,
            "payload": or_null(TEXT),
            "table": or_null(TEXT),
            "shard": or_null(TEXT),
            "offset": or_null(WHOLE),
            "replayed": listed(TEXT),
        },
        {"graph": TEXT, "epoch": WHOLE, "source": ANY, "stored": ANY, "sql": TEXT, **PLACE},
    ),
    "Letters": record({"letters": listed(ref("Letter")), "next": WHOLE}),
    "Replayed": record(
        {
            "job": TEXT,
            "replayed": listed(WHOLE),
            "refused": listed(record({"id": WHOLE, "reason": TEXT})),
            "epoch": or_null(WHOLE),
            "failed": listed(WHOLE),
        }
    ),
}
