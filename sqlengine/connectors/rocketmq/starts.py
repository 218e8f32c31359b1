"""The offsets where tables over RocketMQ begin and end, by their options."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parser.errors import OptionError
from planner.catalog import Table
from sqlengine.broker.rocketmq.client import Queue
from sqlengine.broker.rocketmq.topic import RocketTopic
from sqlengine.connectors.rocketmq.options import text_of, time_of
from sqlengine.connectors.topic.upserts import is_upsert


def start_at(
    topic: RocketTopic, table: Table, options: Mapping[str, object]
) -> Callable[[Queue], int]:
    """Returns a function from a queue to the offset at which a new job begins. PlanError where the
    startup mode lacks an option."""
    offset = options["startMessageOffset"]
    if isinstance(offset, int):
        return lambda queue: offset
    default = "earliest-offset" if is_upsert(table) else options["scan.startup.mode"]
    mode = options["scan.startup.mode"] if "scan.startup.mode" in table.options else default
    millis = time_of(options, "startTimeMs", "startTime", "scan.startup.timestamp-millis")
    if mode == "timestamp" or "startTimeMs" in table.options or "startTime" in table.options:
        if millis is None:
            raise OptionError(
                f"table '{table.display}' needs the option 'scan.startup.timestamp-millis'",
                detail=f"'scan.startup.mode' is '{mode}'",
                subject="scan.startup.mode",
            )
        return lambda queue: topic.at_time(queue, millis)
    if mode == "group-offsets":
        if not text_of(options, "consumerGroup"):
            raise OptionError(
                f"table '{table.display}' needs the option 'consumerGroup'",
                detail=f"'scan.startup.mode' is '{mode}'",
                subject="scan.startup.mode",
            )
        return lambda queue: _or_end(topic, queue, topic.committed(queue))
    return topic.first if mode == "earliest-offset" else topic.end


def _or_end(topic: RocketTopic, queue: Queue, offset: int | None) -> int:
    return topic.end(queue) if offset is None else offset


def ends_at(
    topic: RocketTopic, table: Table, options: Mapping[str, object]
) -> Callable[[Queue], int] | None:
    """Returns a function from a queue to the offset at which reading ends; None where it does not.
    PlanError where the mode lacks an option."""
    mode = options["scan.bounded.mode"]
    millis = time_of(options, "endTime", "scan.bounded.timestamp-millis")
    if mode == "timestamp" or "endTime" in table.options:
        if millis is None:
            raise OptionError(
                f"table '{table.display}' needs the option 'scan.bounded.timestamp-millis'",
                detail=f"'scan.bounded.mode' is '{mode}'",
                subject="scan.bounded.mode",
            )
        return lambda queue: topic.at_time(queue, millis)
    return topic.end if mode == "latest-offset" else None
