"""The broker of an engine: topics in its data folder, or those of users in RocketMQ."""

from __future__ import annotations

from parser.errors import ServiceError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.on_rocketmq.address import cluster_address
from sqlengine.broker.on_rocketmq.broker import RocketBroker
from sqlengine.broker.on_rocketmq.kept import TOPIC
from sqlengine.config import Config
from sqlengine.machine import Machine


def open_broker(config: Config, machine: Machine) -> EmbeddedBroker:
    """Opens the broker that the configuration names, which locks the data folder.

    Raises as the broker does, and ServiceError for a folder whose topics are in a cluster: jobs
    would go on in others, at offsets of those; and for instances, which do not reach a cluster."""
    if config.broker is not None:
        if config.instances:
            raise ServiceError(
                "instances do not reach topics in RocketMQ",
                hint="leave out --instances, or --broker",
            )
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
    if TOPIC in broker.topic_names():
        broker.close()
        raise ServiceError(
            f"the topics of data folder '{config.data}' are in RocketMQ",
            hint="start with --broker rocketmq://HOST:PORT, as before",
        )
    return broker
