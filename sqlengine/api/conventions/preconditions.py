"""If-Match and If-None-Match for changes of jobs, whose entity tag is the number of their version,
and of topics, whose tag stands for their options.

Figures of a job and the records of a topic change without it."""

from __future__ import annotations

from collections.abc import Iterable

from flask import request
from xxhash import xxh3_64_hexdigest

from sqlengine.broker.base import TopicInfo
from sqlengine.engine import Engine
from sqlengine.engine.expected_versions import Expected, VersionMismatch, check_expected


def expected() -> Expected | None:
    """Returns which versions of its job a request is for; None for any, or none."""
    if request.if_none_match.star_tag:
        return Expected(absent=True)
    if request.if_match.star_tag:
        return Expected()
    if "If-Match" not in request.headers:
        return None
    tags = map(str, request.if_match.as_set())  # a header that is none has a None in it
    return Expected(frozenset(int(tag) for tag in tags if tag.isascii() and tag.isdigit()))


def check_job(engine: Engine, name: str) -> None:
    """Raises VersionMismatch where a job is not as the request says that it should be."""
    wanted = expected()
    if wanted is not None:
        check_expected({name: wanted}, engine.log.jobs)


def tag_of(version: int) -> str:
    """Returns the entity tag of a job at this version."""
    return f'"{version}"'


def check_topic(topics: Iterable[TopicInfo], name: str) -> None:
    """Raises VersionMismatch where a topic is not as the request says that it should be."""
    topic = next((t for t in topics if t.name == name), None)
    wanted = request.if_match
    if request.if_none_match.star_tag:
        met = topic is None
    else:
        is_tagged = topic is not None and wanted.contains(topic_tag(topic).strip('"'))
        met = "If-Match" not in request.headers or is_tagged
    if not met:
        now = "does not exist" if topic is None else f"has the tag {topic_tag(topic)}"
        raise VersionMismatch(
            f"topic '{name[:200]}' {now}",
            detail="the change was made for another state of it",
            hint="read the topic again, and make the change on what it is now",
        )


def topic_tag(topic: TopicInfo) -> str:
    """Returns the entity tag of a topic with these options."""
    limits = topic.retention_ms, topic.retention_bytes, topic.delete_retention_ms, topic.max_bytes
    options = (topic.name, topic.shards, topic.compacted, *limits, topic.compression)
    return f'"{xxh3_64_hexdigest(repr(options).encode())}"'
