"""Opens what an engine keeps things in: its broker, with topics in the data folder or those of
users in RocketMQ, and the stores of checkpoints, a RocksDB folder for each graph or a topic."""

from __future__ import annotations

from parser.errors import ServiceError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.on_rocketmq.names import KEPT
from sqlengine.config import Config
from sqlengine.machine import Machine
from sqlengine.state.stores import CheckpointStores
from sqlengine.state.topic_store import TopicStores, has_topic


def open_broker(config: Config, machine: Machine) -> EmbeddedBroker:
    """Opens the broker that the configuration names, which locks the data folder.

    Raises as the broker does, and ServiceError for a folder whose topics are in a cluster: jobs
    would go on in others, at offsets of those."""
    if config.broker is not None:
        # Only who has a cluster loads its client.
        from sqlengine.broker.on_rocketmq.address import cluster_address
        from sqlengine.broker.on_rocketmq.broker import RocketBroker

        return RocketBroker(
            config.data,
            cluster_address(config.broker),
            fsync=config.fsync,
            clock=machine.clock,
            segment_bytes=config.segment_bytes,
            disk=machine.disk,
            threads=machine.threads,
        )
    broker = EmbeddedBroker(
        config.data,
        fsync=config.fsync,
        clock=machine.clock,
        segment_bytes=config.segment_bytes,
        disk=machine.disk,
        threads=machine.threads,
    )
    if KEPT in broker.topic_names():
        broker.close()
        raise ServiceError(
            f"the topics of data folder '{config.data}' are in RocketMQ",
            hint="start with --broker rocketmq://HOST:PORT, as before",
        )
    return broker


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
