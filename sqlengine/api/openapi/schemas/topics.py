"""The schemas of topics and groups of consumers."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    FLAG,
    MS,
    NUMBER,
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

TOPICS: Final[dict[str, Schema]] = {
    "Topic": record(_TOPIC),
    "Topics": paged("topics", ref("Topic")),
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
                    {"offset": WHOLE, "timestamp": MS},
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
            "next": or_null(TEXT),
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
            ),
        }
    ),
    "Reset": record({"group": TEXT, "topic": TEXT, "offsets": by_name(WHOLE)}),
}
