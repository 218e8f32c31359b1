"""The schemas of what is said of jobs."""

from __future__ import annotations

from typing import Final

from planner.rule_settings import Status
from sqlengine.api.openapi.forms import (
    ANY,
    FLAG,
    MS,
    NUMBER,
    TEXT,
    WHOLE,
    Schema,
    by_name,
    listed,
    one_of,
    or_null,
    record,
    ref,
)

_RULE: Final = record(
    {
        "title": TEXT,
        "id": TEXT,
        "severity": TEXT,
        "status": one_of(*Status),
        "canary": TEXT,
        "owner": TEXT,
        "description": TEXT,
        "tags": listed(TEXT),
        "references": listed(TEXT),
        "false_positives": listed(TEXT),
        "tests": listed(TEXT),
        "attributes": by_name(TEXT),
        "suppress": TEXT,
        "threshold": TEXT,
        "limit": TEXT,
        "maintenance": listed(TEXT),
    }
)
_JOB: Final = {
    "name": TEXT,
    "version": WHOLE,
    "state": TEXT,
    "origin": TEXT,
    "by": or_null(TEXT),
    "file": or_null(TEXT),
    "changed_ms": MS,
    "reason": or_null(TEXT),
    "hint": or_null(TEXT),
    "restarts": WHOLE,
    "next_ms": or_null(MS),
    "position": or_null(one_of("kept")),
    "graph": TEXT,
    "target": one_of("embedded", "spark"),
    "isolated": TEXT,
    "rows": WHOLE,
    "version_rows": WHOLE,
    "late_rows": WHOLE,
    "held_back": WHOLE,
    "dead_letters": WHOLE,
    "cost_s": NUMBER,
    "families": listed(record({"family": TEXT, "operation": TEXT, "members": WHOLE})),
    "defines": listed(TEXT),
    "uses": listed(TEXT),
    "rule": or_null(ref("Rule")),
    "canary": or_null(record({"text": TEXT, "ran_ms": WHOLE, "duration_ms": WHOLE})),
    "tables": listed(by_name(ANY)),
    "waits": listed(ANY),
    "lookups": listed(ANY),
}
_OUTCOME_STATES: Final = (
    "added replaced unchanged removed renamed waiting refused replanned valid started stopped"
    " failed saved isolated merged merging moved shadowed promoted"
).split()
_OVERRIDDEN: Final = {
    "file": TEXT,
    "job": TEXT,
    "by": TEXT,
    "version": WHOLE,
    "removed": FLAG,
    "message": TEXT,
}
_SAMPLE: Final = record({"row": by_name(ANY), "kind": TEXT, "time": MS})

JOBS: Final[dict[str, Schema]] = {
    "Rule": _RULE,
    "Job": record(_JOB),
    "JobWithText": record({**_JOB, "spark_ui": or_null(TEXT), "sql": TEXT}),
    "Jobs": record(
        {
            "jobs": listed(ref("Job")),
            "refused_files": listed(
                record({"file": TEXT, "error": ref("Problem"), "tried_again": FLAG})
            ),
            "overridden_files": listed(record(_OVERRIDDEN)),
            "next": or_null(TEXT),
        }
    ),
    "Outcome": record(
        {"name": TEXT, "status": one_of(*_OUTCOME_STATES), "version": WHOLE},
        {
            "error": ref("Problem"),
            "savepoint": TEXT,
            "state": listed(record({"operator": TEXT, "outcome": TEXT, "reason": TEXT})),
            "topics": listed(
                record(
                    {
                        "name": TEXT,
                        "shards": WHOLE,
                        "retention_ms": or_null(WHOLE),
                        "compacted": FLAG,
                        "created": FLAG,
                        "text": TEXT,
                    },
                    {"similar": TEXT},
                )
            ),
            "sinks": listed(
                record(
                    {
                        "table": TEXT,
                        "connector": TEXT,
                        "guarantee": TEXT,
                        "condition": TEXT,
                        "changelog_mode": TEXT,
                    }
                )
            ),
            "warnings": listed(TEXT),
            "dependents": listed(ref("Outcome")),
        },
    ),
    "Outcomes": record({"jobs": listed(ref("Outcome"))}),
    "History": record(
        {
            "next": or_null(TEXT),
            "name": TEXT,
            "versions": listed(
                record(
                    {
                        "version": WHOLE,
                        "created_ms": MS,
                        "origin": TEXT,
                        "by": or_null(TEXT),
                        "file": or_null(TEXT),
                        "follows": listed(TEXT),
                        "shadow": FLAG,
                        "beside": or_null(WHOLE),
                        "fate": or_null(TEXT),
                        "fate_ms": or_null(MS),
                        "sql": TEXT,
                    }
                )
            ),
        }
    ),
    "Difference": record(
        {
            "rule": TEXT,
            "version": WHOLE,
            "live": WHOLE,
            "since_ms": MS,
            "complete": FLAG,
            "tables": listed(
                record(
                    {
                        "table": TEXT,
                        "both": WHOLE,
                        "added": WHOLE,
                        "left_out": WHOLE,
                        "added_samples": listed(_SAMPLE),
                        "left_out_samples": listed(_SAMPLE),
                        "ignored": listed(TEXT),
                    }
                )
            ),
        },
        doc="live: 0 where there is no live version",
    ),
    "Plan": by_name(ANY),
    "Results": record(
        {"results": listed(record({"columns": listed(TEXT), "rows": listed(listed(ANY))}))}
    ),
}
