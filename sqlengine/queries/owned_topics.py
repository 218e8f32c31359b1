"""Topics that are the tables' own ('topic.owned'): CREATE TABLE as a statement makes them, and DROP
TABLE deletes them, with the rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

from parser.errors import JobError
from planner.catalog import CatalogObject, Table
from sqlengine.access.policy import Action, require
from sqlengine.access.principals import Principal
from sqlengine.broker.errors import TopicExists, TopicNotFound
from sqlengine.broker.topic_access import refuse_system, refuse_used
from sqlengine.connectors.topic.creation import create_missing
from sqlengine.engine import Engine
from sqlengine.engine.views.topic_users import tables_of_topic, topic_of, users_of_topic

OWNED: Final = "topic.owned"


def owned_topic(item: CatalogObject | None) -> str | None:
    """Returns the topic that is the own one of a table; None for all others."""
    if not isinstance(item, Table) or item.options.get(OWNED, "").lower() != "true":
        return None
    return topic_of(item)


def make(engine: Engine, table: Table, by: Principal) -> None:
    """Makes the own topic of a table. JobError for one that is there: its rows would be those of
    the table, and would go with it; BadRequest for one of the system."""
    topic = table.options["topic"]
    refuse_system(topic)
    require(by, Action.WRITE_TOPIC, topic)
    try:
        create_missing(engine.broker, table, replace(engine.config.auto_create, sinks=True))
    except TopicExists:
        raise JobError(
            f"topic '{topic}' exists already, and cannot be the table's own",
            detail="its rows would be those of the table, and be deleted with it",
            hint=f"leave out '{OWNED}' for a table over it, or delete it: sql topic delete {topic}",
        ) from None


def check_delete(engine: Engine, table: Table, topic: str, by: Principal) -> None:
    """Raises the SqlError for which a topic cannot go with its table: others use it."""
    require(by, Action.WRITE_TOPIC, topic)
    refuse_used(topic, users_of_topic(engine, topic))
    others = [t.display for t in tables_of_topic(engine, topic) if t.name != table.name]
    if others:
        raise JobError(
            f"topic '{topic}' of table '{table.display}' is also that of '{others[0]}'",
            detail=f"it would go with the table, whose own it is ('{OWNED}')",
            hint=f"drop '{others[0]}' before",
        )


def delete(engine: Engine, topic: str) -> None:
    """Deletes a topic whose table is gone."""
    with suppress(TopicNotFound):
        engine.broker.delete_topic(topic)
