"""The stores of the checkpoints of an engine: a RocksDB folder for each graph, or a topic."""

from __future__ import annotations

from parser.errors import ServiceError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.config import Config
from sqlengine.machine import Machine
from sqlengine.state.stores import CheckpointStores
from sqlengine.state.topic_store import TopicStores, has_topic


def open_stores(broker: EmbeddedBroker, config: Config, machine: Machine) -> CheckpointStores:
    """Opens the stores that the configuration names.

    Raises ServiceError if the other kind has checkpoints: they would be lost.
    """
    folders, in_topic = machine.stores(config.data / "graphs"), config.checkpoints == "topic"
    others: CheckpointStores | None = None
    if in_topic:
        others = folders
    elif has_topic(broker):
        others = TopicStores(broker, machine.clock)
    if others is not None and (names := others.names()):
        right = "rocksdb" if in_topic else "topic"
        raise ServiceError(
            f"the checkpoints of this data folder are not in {config.checkpoints}",
            detail=f"graphs: {', '.join(names[:5])}",
            hint=f"start with --checkpoints {right}, as it was written",
        )
    return TopicStores(broker, machine.clock) if in_topic else folders
