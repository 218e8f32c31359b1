"""The routes of topics and groups of consumers."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    ANY,
    DRY_RUN,
    FLAG,
    IF_MATCH,
    IF_NONE_MATCH,
    JSON,
    NUMBER,
    PAGES,
    PLAIN,
    TEXT,
    WHOLE,
    Endpoint,
    Query,
    Schema,
    or_null,
    record,
    ref,
)

_SHARD: Final = Query("shard", "the shard's number, else 0", WHOLE)
_TOPIC_LIMITS: Final[dict[str, Schema]] = {
    "retention_ms": or_null(WHOLE),
    "retention_bytes": or_null(WHOLE),
    "delete_retention_ms": or_null(WHOLE),
    "max_bytes": or_null(WHOLE),
    "compression": TEXT,
}

TOPICS: Final = (
    Endpoint("GET", "/api/v1/topics", "all topics", ref("Topics"), PAGES, refusals=(400,)),
    Endpoint(
        "POST",
        "/api/v1/topics",
        "create a topic",
        ref("Topic"),
        (DRY_RUN,),
        {
            JSON: record(
                {"name": TEXT},
                {"shards": WHOLE, "compacted": FLAG, "if_not_exists": FLAG, **_TOPIC_LIMITS},
            )
        },
        refusals=(400, 409, 412),
        headers=(IF_MATCH, IF_NONE_MATCH),
        tagged=True,
    ),
    Endpoint(
        "GET",
        "/api/v1/topics/{name}",
        "a topic with its shards and the groups that read it",
        ref("TopicWithPlaces"),
        refusals=(404,),
        tagged=True,
    ),
    Endpoint(
        "PATCH",
        "/api/v1/topics/{name}",
        "change limits; null removes one",
        ref("Topic"),
        (DRY_RUN,),
        {JSON: record({}, _TOPIC_LIMITS)},
        refusals=(400, 404, 412),
        headers=(IF_MATCH,),
        tagged=True,
    ),
    Endpoint(
        "DELETE",
        "/api/v1/topics/{name}",
        "delete a topic that no job uses",
        ref("Deleted"),
        (DRY_RUN,),
        refusals=(400, 404, 409, 412),
        headers=(IF_MATCH,),
    ),
    Endpoint(
        "POST",
        "/api/v1/topics/{name}/records",
        "append each line of the body as a record",
        ref("Appended"),
        (_SHARD, Query("key", "the key of all of them", TEXT)),
        {PLAIN: TEXT, JSON: ANY},
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
        body={JSON: record({"folder": TEXT}, {"shard": WHOLE, "with_data": FLAG})},
        refusals=(400, 404),
    ),
    Endpoint(
        "GET",
        "/api/v1/groups",
        "groups of consumers, with their lag",
        ref("Groups"),
        PAGES,
        refusals=(400,),
    ),
    Endpoint(
        "POST",
        "/api/v1/groups/{group}/reset",
        "set the offsets at which a group goes on",
        ref("Reset"),
        (DRY_RUN,),
        {JSON: record({"topic": TEXT, "to": TEXT}, {"shard": WHOLE})},
        refusals=(400, 404, 409),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/groups/{group}",
        "forget a group's offsets",
        ref("Deleted"),
        (DRY_RUN,),
        refusals=(400, 409),
    ),
)
