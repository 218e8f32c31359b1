"""Hints for jobs that read a topic which is perhaps misspelt: nothing is in it, nothing writes to
it, and another topic has a similar name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.catalog import Table
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerAway, TopicNotFound
from sqlengine.connectors.topic.creation import similar_topic
from sqlengine.graphs.managed import ManagedGraph


def topic_hints(graphs: Iterable[ManagedGraph], broker: Broker) -> dict[str, str]:
    """Returns the hint of each job that has one. Costs as much as there are sources and sinks."""
    running = list(graphs)
    written = {
        topic
        for graph in running
        for sink in list(graph.executor.plan.sinks.values())
        if (topic := _topic_of(sink.sink.table)) is not None
    }
    hints: dict[str, str] = {}
    for topic, jobs in _read_topics(running):
        if topic in written or not _is_empty(broker, topic):
            continue
        similar = similar_topic(broker, topic)
        if similar is not None:
            hint = (
                f"nothing is in topic '{topic}', and no job writes to it: did you mean '{similar}'?"
            )
            hints |= dict.fromkeys(jobs, hint)
    return hints


def _read_topics(graphs: Iterable[ManagedGraph]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields the topics that graphs read, with the jobs that do."""
    for graph in graphs:
        nodes = graph.runner.graph.nodes
        for name, source in list(graph.runner.inputs.running.items()):
            topic = _topic_of(source.scan.table)
            if topic is not None and name in nodes:
                yield topic, frozenset(nodes[name].jobs)


def _topic_of(table: Table | None) -> str | None:
    return None if table is None or table.connector != "topic" else table.options.get("topic")


def _is_empty(broker: Broker, topic: str) -> bool:
    try:
        return not any(broker.topic(topic).end)
    except (TopicNotFound, BrokerAway):
        return False
