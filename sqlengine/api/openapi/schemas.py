"""The schemas of what the server answers."""

from __future__ import annotations

from typing import Final

from planner.rule_settings import Status
from sqlengine.api.openapi.forms import (
    ANY,
    FLAG,
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

_MS: Final[Schema] = {"type": "integer", "description": "milliseconds since 1970"}
_PLACE: Final = {"line": WHOLE, "column": WHOLE, "length": WHOLE}
_TOPIC: Final = {
    "name": TEXT,
    "shards": WHOLE,
    "begin": listed(WHOLE),
    "end": listed(WHOLE),
    "records": WHOLE,
    "bytes": WHOLE,
    "compacted": FLAG,
    "retention_ms": or_null(WHOLE),
    "retention_bytes": or_null(WHOLE),
    "delete_retention_ms": or_null(WHOLE),
    "max_bytes": or_null(WHOLE),
    "compression": TEXT,
    "damage": or_null(TEXT),
}
_GROUP_SHARD: Final = record(
    {
        "shard": WHOLE,
        "owner": or_null(TEXT),
        "committed": or_null(WHOLE),
        "end": WHOLE,
        "lag": WHOLE,
    }
)
_PROGRESS: Final = {"group": TEXT, "shards": listed(_GROUP_SHARD), "lag": WHOLE}
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
    "changed_ms": _MS,
    "reason": or_null(TEXT),
    "hint": or_null(TEXT),
    "restarts": WHOLE,
    "next_ms": or_null(_MS),
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
    "rule": or_null(_RULE),
    "canary": or_null(record({"text": TEXT, "ran_ms": WHOLE, "duration_ms": WHOLE})),
    "tables": listed(by_name(ANY)),
    "waits": listed(ANY),
    "lookups": listed(ANY),
}
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
_SAVEPOINT: Final = {
    "path": TEXT,
    "job": TEXT,
    "version": WHOLE,
    "created_ms": _MS,
    "epoch": WHOLE,
    "format": WHOLE,
    "rows": WHOLE,
    "bytes": WHOLE,
}
_QUERY: Final = {
    "query": TEXT,
    "sql": TEXT,
    "client": TEXT,
    "state": one_of("running", "finished", "failed", "ended"),
    "started_ms": _MS,
    "rows_read": WHOLE,
}
_SAMPLE: Final = record({"row": by_name(ANY), "kind": TEXT, "time": _MS})
_ROW: Final[Schema] = {
    "type": "array",
    "prefixItems": [one_of("+I", "-U", "+U", "-D"), {"type": "array"}],
    "minItems": 2,
    "maxItems": 2,
}

SCHEMAS: Final[dict[str, Schema]] = {
    "Problem": record(
        {"type": TEXT, "title": TEXT, "status": WHOLE, "message": TEXT, "detail": TEXT},
        {"cause": TEXT, "hint": TEXT, "file": TEXT, "retry_ms": WHOLE, **_PLACE},
        "RFC 9457; line and column count from 1 in the text of the job",
    ),
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
    "Live": record({"at": TEXT, "known": FLAG, "server_ran": FLAG, "jobs": listed(record(_LIVE))}),
    "AuditLines": record({"events": listed(record(_LINE, _MORE)), "next": or_null(WHOLE)}),
    "Costs": record({"jobs": listed(record({**_COST, "slowest": or_null(record(_CONDITION))}))}),
    "Cost": record({**_COST, "conditions": listed(record(_CONDITION))}),
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
            "name": TEXT,
            "versions": listed(
                record(
                    {
                        "version": WHOLE,
                        "created_ms": _MS,
                        "origin": TEXT,
                        "by": or_null(TEXT),
                        "file": or_null(TEXT),
                        "follows": listed(TEXT),
                        "shadow": FLAG,
                        "beside": or_null(WHOLE),
                        "fate": or_null(TEXT),
                        "fate_ms": or_null(_MS),
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
            "since_ms": _MS,
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
    "Letter": record(
        {
            "id": WHOLE,
            "time": _MS,
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
        {"graph": TEXT, "epoch": WHOLE, "source": ANY, "stored": ANY, "sql": TEXT, **_PLACE},
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
    "Savepoints": record(
        {"savepoints": listed({"anyOf": [ref("Savepoint"), record({"error": ref("Problem")})]})}
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
    "Results": record(
        {"results": listed(record({"columns": listed(TEXT), "rows": listed(listed(ANY))}))}
    ),
    "Topic": record(_TOPIC),
    "Topics": record({"topics": listed(ref("Topic"))}),
    "TopicWithPlaces": record(
        {
            **_TOPIC,
            "places": listed(
                record(
                    {
                        "shard": WHOLE,
                        "begin": WHOLE,
                        "end": WHOLE,
                        "records": WHOLE,
                        "bytes": WHOLE,
                        "folders": by_name(WHOLE),
                    }
                )
            ),
            "groups": listed(record(_PROGRESS)),
        }
    ),
    "Compacted": record({"name": TEXT, "bytes_before": WHOLE, "bytes": WHOLE}),
    "Moved": record({"name": TEXT, "shard": WHOLE, "folders": by_name(WHOLE)}),
    "Deleted": record({"deleted": TEXT}),
    "Appended": record(
        {"first_offset": WHOLE, "next_offset": WHOLE},
        {"refused": listed(record({"line": WHOLE, "bytes": WHOLE, "error": TEXT}))},
    ),
    "Records": record(
        {
            "records": listed(
                record(
                    {"offset": WHOLE, "timestamp": _MS},
                    {
                        "key": or_null(TEXT),
                        "value": or_null(TEXT),
                        "key_base64": TEXT,
                        "value_base64": TEXT,
                    },
                )
            ),
            "next_offset": WHOLE,
        }
    ),
    "Groups": record(
        {
            "groups": listed(
                record(
                    {
                        "group": TEXT,
                        "generation": WHOLE,
                        "members": listed(
                            record(
                                {
                                    "name": TEXT,
                                    "topics": listed(TEXT),
                                    "shards": by_name(listed(WHOLE)),
                                    "session_ms": WHOLE,
                                    "silent_ms": NUMBER,
                                }
                            )
                        ),
                        "topics": listed(record({"topic": TEXT, **_PROGRESS})),
                    }
                )
            )
        }
    ),
    "Reset": record({"group": TEXT, "topic": TEXT, "offsets": by_name(WHOLE)}),
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
    "Query": record(_QUERY),
    "Queries": record({"queries": listed(ref("Query"))}),
    "Page": record(
        {
            **_QUERY,
            "page": WHOLE,
            "next": or_null({"type": "integer", "description": "null behind the last page"}),
            "message": or_null(TEXT),
            "job": or_null(TEXT),
            "rows_written": or_null(WHOLE),
            "columns": or_null(listed(listed(TEXT))),
            "changes": FLAG,
            "watermark_ms": or_null(WHOLE),
            "rows": listed(_ROW),
            "warnings": listed(TEXT),
            "set_aside": {"type": "integer", "description": "rows in error, which are left out"},
            "first_error": or_null(TEXT),
        },
        doc="some rows of a query: the kind of each and its values",
    ),
    "Ended": record({"query": TEXT, "state": one_of("ended")}),
    "Session": record({"session": TEXT}, {"state": one_of("closed")}),
    "Catalog": record(
        {
            "tables": listed(record({"name": TEXT, "columns": listed(TEXT)})),
            "functions": listed(TEXT),
            "jobs": listed(TEXT),
        }
    ),
    "Health": record({"status": TEXT, "problem": or_null(TEXT)}),
    "GatewayErrors": record({"errors": listed(TEXT)}),
    "GatewayResult": record(
        {"resultType": one_of("NOT_READY", "PAYLOAD", "EOS")},
        {
            "isQueryResult": FLAG,
            "resultKind": one_of("SUCCESS", "SUCCESS_WITH_CONTENT"),
            "jobID": TEXT,
            "nextResultUri": TEXT,
            "results": record(
                {
                    "columns": listed(
                        record(
                            {"name": TEXT, "logicalType": by_name(ANY), "comment": or_null(TEXT)}
                        )
                    ),
                    "rowFormat": one_of("JSON", "PLAIN_TEXT"),
                    "data": listed(record({"kind": TEXT, "fields": listed(ANY)})),
                }
            ),
        },
        doc="a page of rows; none is behind one without nextResultUri",
    ),
}
