"""The checkpoint stores of subtasks: each has a folder, or a shard of a compacted topic."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from parser.errors import ServiceError
from sqlengine.broker.base import system_topic
from sqlengine.broker.errors import TopicNotFound
from sqlengine.cluster.subtask_log import Fencing
from sqlengine.config import Config
from sqlengine.graphs.host import GraphHost
from sqlengine.state.store import CheckpointStore
from sqlengine.state.topic_store import TopicStore


def subtask_name(graph: str, index: int) -> str:
    """Returns the name of a subtask's checkpoints, and of the subtask as a writer of topics."""
    return f"{graph}-{index}"


def subtasks_folder(config: Config) -> Path:
    """Returns the folder with the checkpoints of all subtasks that are kept in folders."""
    return config.data / "parts"  # the name on disk


def checkpoints_topic(graph: str) -> str:
    """Returns the topic of checkpoints: shard n holds those of subtask n."""
    return system_topic("checkpoints", graph)


def open_store(
    host: GraphHost, graph: str, index: int, parallelism: int, fence: Fencing
) -> CheckpointStore:
    """Opens the store of one subtask.

    A folder is locked by its owner; the topic refuses writes with a stale fence."""
    name = subtask_name(graph, index)
    if host.config.checkpoints == "rocksdb":
        return host.stores.open(name)
    topic = checkpoints_topic(graph)
    host.broker.create_topic(topic, parallelism, compacted=True, if_not_exists=True)
    return TopicStore(host.broker, name, host.machine.clock, topic, index, fence)


def check_stores(host: GraphHost, graph: str, parallelism: int) -> None:
    """ServiceError if the graph has checkpoints in the kind of store that is not configured: they
    would be lost."""
    names = {subtask_name(graph, index) for index in range(parallelism)}
    used = set()
    if checkpoints_topic(graph) in {topic.name for topic in host.broker.topics()}:
        used.add("topic")
    if names & set(host.machine.stores(subtasks_folder(host.config)).names()):
        used.add("rocksdb")
    if others := used - {host.config.checkpoints}:
        raise ServiceError(
            f"the checkpoints of the parts of graph '{graph}' are not in {host.config.checkpoints}",
            hint=f"start with --checkpoints {others.pop()}, as they were written",
        )


def remove_stores(host: GraphHost, graph: str, parallelism: int) -> None:
    """Deletes the checkpoints of all subtasks, none of which is open."""
    with suppress(TopicNotFound):
        host.broker.delete_topic(checkpoints_topic(graph))
    stores = host.machine.stores(subtasks_folder(host.config))
    for index in range(parallelism):
        stores.remove(subtask_name(graph, index))
