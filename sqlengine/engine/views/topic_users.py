"""The jobs that use a topic, and the tables over it."""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog import Table
from planner.logical import Scan, Sink
from sqlengine.engine.engine import Engine


def users_of_topic(engine: Engine, topic: str) -> set[str]:
    """Returns the running jobs that read or write the topic, and could not go on without it."""
    users: set[str] = set()
    for node in [
        n for g in list(engine.graphs.by_name.values()) for n in g.runner.graph.nodes.values()
    ]:
        table = node.plan.table if isinstance(node.plan, Scan | Sink) else None
        if table is not None and topic_of(table) == topic:
            users |= node.jobs
    return users


def tables_of_topic(engine: Engine, topic: str) -> Iterator[Table]:
    """Yields the tables over a topic that jobs define for all."""
    for item in engine.catalog.objects.values():
        if isinstance(item, Table) and topic_of(item) == topic:
            yield item


def topic_of(table: Table) -> str | None:
    """Returns the topic that a table is over; None for one elsewhere."""
    return table.options.get("topic") if table.options.get("connector") == "topic" else None
