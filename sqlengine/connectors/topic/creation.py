"""Finds the topic of a table, and creates it where it is missing and may be created."""

from __future__ import annotations

import difflib
import logging
from contextlib import suppress

from planner.catalog import Table
from sqlengine.broker.auto_create import AutoCreate, NewTopic
from sqlengine.broker.base import Broker, check_topic_name, is_system
from sqlengine.broker.errors import BrokerError, TopicNotFound
from sqlengine.connectors.environment import is_rehearsal
from sqlengine.connectors.registry import options_of
from sqlengine.connectors.topic.upserts import is_upsert
from sqlengine.formats.options import did_you_mean

log = logging.getLogger("sqlengine")


def shards_of(broker: Broker, table: Table, defaults: AutoCreate, *, writes: bool) -> int:
    """Returns the number of shards of the table's topic, which is created if it is missing and may
    be created. BrokerError with what can be done about it, if it may not."""
    name = table.options["topic"]
    check_topic_name(name)
    with suppress(TopicNotFound):
        return broker.topic(name).shards
    new = missing_topic(broker, table, defaults, writes=writes)
    if new is None:
        raise _not_found(broker, table)
    return new.shards if is_rehearsal() else _create(broker, new, if_not_exists=True)


def create_missing(broker: Broker, table: Table, defaults: AutoCreate) -> None:
    """Creates the topic of a table. TopicExists where it is there."""
    name = table.options["topic"]
    check_topic_name(name)
    new = missing_topic(broker, table, defaults, writes=True)
    _create(broker, new or NewTopic(name, 1, None), if_not_exists=False)


def _create(broker: Broker, new: NewTopic, *, if_not_exists: bool) -> int:
    """Creates a topic; returns the number of its shards."""
    retention = None if new.compacted else new.retention_ms
    topic = broker.create_topic(
        new.name,
        new.shards,
        compacted=new.compacted,
        if_not_exists=if_not_exists,
        retention_ms=retention,
    )
    log.info("created %s", new)
    return topic.shards


def missing_topic(
    broker: Broker, table: Table, defaults: AutoCreate, *, writes: bool
) -> NewTopic | None:
    """Returns the topic that would be created for a table; None if it exists, or may not be
    created.

    It is compacted where only the last record of a key counts. A table that is read gets the name
    of a similar topic along, since its own may be misspelt."""
    options, name = options_of(table), table.options["topic"]
    wanted = options["topic.auto-create"]
    if wanted is None:
        wanted = defaults.sinks if writes else defaults.sources
    if not wanted or is_system(name):
        return None
    with suppress(TopicNotFound):
        broker.topic(name)
        return None
    shards, retention = (options[f"topic.auto-create.{k}"] for k in ("shards", "retention"))
    return NewTopic(
        name,
        shards if isinstance(shards, int) else defaults.shards,
        retention if isinstance(retention, int) else defaults.retention_ms,
        is_upsert(table),
        None if writes else similar_topic(broker, name),
        writes,
        defaults.elsewhere,
    )


def similar_topic(broker: Broker, name: str) -> str | None:
    """Returns the other topic of users whose name is most similar; None if none is."""
    others = [n for n in _user_topics(broker) if n != name]
    return next(iter(difflib.get_close_matches(name, others, n=1, cutoff=0.6)), None)


def _user_topics(broker: Broker) -> list[str]:
    return sorted(t.name for t in broker.topics() if not is_system(t.name))


def _not_found(broker: Broker, table: Table) -> BrokerError:
    name = table.options["topic"]
    return BrokerError(
        f"topic '{name}' of table '{table.display}' does not exist",
        detail=did_you_mean(name, _user_topics(broker)),
        hint=f"create it: sql topic create {name}, or set 'topic.auto-create' = 'true'",
    )
