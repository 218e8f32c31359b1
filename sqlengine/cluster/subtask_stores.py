"""Where the checkpoints of parts are: each has a folder, or a shard of a compacted topic of its
graph."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from parser.errors import ServiceError
from sqlengine.broker.base import system_topic
from sqlengine.broker.errors import TopicNotFound
from sqlengine.cluster.subtask_log import Fencing
from sqlengine.config import Config
from sqlengine.graphs.running import GraphHost
from sqlengine.state.store import CheckpointStore
from sqlengine.state.topic_store import TopicStore


def subtask_name(graph: str, index: int) -> str:
    """Of its checkpoints, and as a writer of topics."""
    return f"{graph}-{index}"


def subtasks_folder(config: Config) -> Path:
    """Where the checkpoints of all parts are that are in folders."""
    return config.data / "parts"


def checkpoints_topic(graph: str) -> str:
    """Shard p holds the checkpoints of part p."""
    return system_topic("checkpoints", graph)


def open_store(
    host: GraphHost, graph: str, index: int, parts: int, fence: Fencing
) -> CheckpointStore:
    """That of one part. A folder has a lock; into the topic nobody writes who does not own the part
    any more."""
    name = subtask_name(graph, index)
    if host.config.checkpoints == "rocksdb":
        return host.stores.open(name)
    topic = checkpoints_topic(graph)
    host.broker.create_topic(topic, parts, compacted=True, if_not_exists=True)
    return TopicStore(host.broker, name, host.machine.clock, topic, index, fence)


def check_stores(host: GraphHost, graph: str, parts: int) -> None:
    """ServiceError where the checkpoints of a graph's parts are in the other place: they would be
    lost."""
    topics = {topic.name for topic in host.broker.topics()}
    folders = host.machine.stores(subtasks_folder(host.config)).names()
    found = {"topic"} if checkpoints_topic(graph) in topics else set()
    found |= (
        {"rocksdb"}
        if {subtask_name(graph, index) for index in range(parts)} & set(folders)
        else set()
    )
    if others := found - {host.config.checkpoints}:
        raise ServiceError(
            f"the checkpoints of the parts of graph '{graph}' are not in {host.config.checkpoints}",
            hint=f"start with --checkpoints {others.pop()}, as they were written",
        )


def remove_stores(host: GraphHost, graph: str, parts: int) -> None:
    """Forgets the checkpoints of all parts, none of which is open."""
    with suppress(TopicNotFound):
        host.broker.delete_topic(checkpoints_topic(graph))
    stores = host.machine.stores(subtasks_folder(host.config))
    for index in range(parts):
        stores.remove(subtask_name(graph, index))
