"""Rows of messages: what a table declares of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import BIGINT, INT, STRING, DataType, map_of, timestamp_ltz
from planner.catalog import MetadataColumn, Table
from sqlengine.batch import RowKind
from sqlengine.broker.rocketmq.messages import (
    DELIVER_AT,
    KEYS,
    TAGS,
    Message,
    message_id,
    plain_body,
    properties_of,
)
from sqlengine.broker.rocketmq.repeats import PROPERTY
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.rocketmq.packing import ROWS, rows_in, unpacked
from sqlengine.connectors.topic.upserts import is_upsert
from sqlengine.formats.registry import value_metadata

METADATA: Final[Mapping[str, DataType]] = {
    "topic": STRING,
    "tags": STRING,
    "keys": STRING,
    "broker": STRING,
    "queue": INT,
    "offset": BIGINT,
    "timestamp": timestamp_ltz(3),
    "born-timestamp": timestamp_ltz(3),
    "delivery-timestamp": timestamp_ltz(3),
    "message-id": STRING,
    "properties": map_of(STRING, STRING),
}
# What clients and servers put down for themselves, which is no property of users.
SYSTEM: Final = frozenset(
    {
        TAGS, KEYS, DELIVER_AT, PROPERTY, ROWS, "WAIT",
        "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID",
        "TRAN_MSG", "PGROUP", "MIN_OFFSET", "MAX_OFFSET", "BUYER_ID", "ORIGIN_MESSAGE_ID",
        "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME", "MSG_REGION", "TRACE_ON",
        "UNIQ_KEY", "EXTEND_UNIQ_INFO", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "INNER_NUM",
        "INNER_BASE", "DUP_INFO", "CHECK_IMMUNITY_TIME_IN_SECONDS", "INSTANCE_ID", "CLUSTER",
        "TRAN_PREPARED_QUEUE_OFFSET", "__transactionId__", "TRANSACTION_CHECK_TIMES", "__CRC32#",
        "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY", "POP_CK",
        "POP_CK_OFFSET", "1ST_POP_TIME", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "MSG_TYPE",
        "__SHARDINGKEY", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "__BORNHOST",
    }
)  # fmt: skip
# Columns that are a field of `Message`.
_FIELDS: Final = {
    "queue": "queue",
    "offset": "offset",
    "timestamp": "stored_ms",
    "born-timestamp": "born_ms",
}
_OF_PROPERTIES: Final = frozenset(
    {"tags", "keys", "delivery-timestamp", "message-id", "properties"}
)


class MessageRows:
    """Makes chunks of messages, for one table."""

    def __init__(self, table: Table) -> None:
        of_format = value_metadata(table)
        self._columns = [m for m in table.metadata if m not in of_format]
        self._topic = table.options["topic"]
        self._upsert = is_upsert(table)
        self._reads_properties = any(m.key in _OF_PROPERTIES for m in self._columns)

    def chunk(self, shard: str, start: int, end: int, messages: Sequence[Message]) -> Chunk:
        """Returns the rows of messages that were read from `start` to `end`."""
        kinds = None
        if self._upsert:
            messages, bodies, kinds = _upserts(messages)
            records, counts = pa.array(bodies, pa.binary()), None
        else:
            records, counts = _all_records(messages)
        read = self._reads_properties
        properties = [properties_of(m.properties) for m in messages] if read else []
        offsets = np.fromiter((m.offset for m in messages), np.int64, len(messages))
        metadata = {m.key: self._metadata(m, shard, messages, properties) for m in self._columns}
        if counts is not None:  # rows of one message have the same place
            places = np.repeat(np.arange(len(messages)), counts)
            offsets = offsets[places]
            metadata = {key: c.take(pa.array(places)) for key, c in metadata.items()}
        return Chunk(
            shard,
            start,
            end,
            len(records),
            records,
            offsets=offsets,
            metadata=metadata,
            kinds=kinds,
        )

    def _metadata(
        self,
        column: MetadataColumn,
        shard: str,
        messages: Sequence[Message],
        properties: Sequence[Mapping[str, str]],
    ) -> pa.Array:
        """Returns a metadata column in the type that the table declares."""
        own, kind = METADATA[column.key].arrow, column.column.type.arrow
        of_all = {"topic": self._topic, "broker": shard.rpartition(":")[0]}
        if column.key in of_all:
            values = pa.repeat(pa.scalar(of_all[column.key], own), len(messages))
        else:
            found = _metadata_of(column.key, messages, properties)
            is_time = pa.types.is_timestamp(own)  # as a number of milliseconds
            values = pa.array(found, pa.int64()).view(own) if is_time else pa.array(found, own)
        return values if values.type == kind else values.cast(kind, safe=False)


def _metadata_of(
    key: str, messages: Sequence[Message], properties: Sequence[Mapping[str, str]]
) -> Iterable[object]:
    """Returns a value of METADATA for each message."""
    match key:
        case "message-id":
            return map(message_id, messages, properties)
        case "properties":
            return map(_of_users, properties)
        case "delivery-timestamp":
            return (_whole(p.get(DELIVER_AT)) for p in properties)
        case "tags":
            return (p.get(TAGS) for p in properties)
        case "keys":
            return (p.get(KEYS) for p in properties)
        case _:
            return map(attrgetter(_FIELDS[key]), messages)


def _record(message: Message) -> bytes:
    """Returns the record of a message; as it came where it cannot be unpacked, so that the format
    makes a dead letter of it."""
    try:
        return plain_body(message)
    except ValueError:
        return message.body


def _all_records(messages: Sequence[Message]) -> tuple[pa.Array, list[int] | None]:
    """Returns the records of messages, and how many each has; None where each has one."""
    if all(rows_in(m.properties) is None for m in messages):
        return pa.array(map(_record, messages), pa.binary()), None
    parts = [_records(m) for m in messages]
    return pa.concat_arrays(parts), [len(p) for p in parts]


def _records(message: Message) -> pa.Array:
    """Returns the records of a message that may carry many; one that is damaged is one record."""
    body, count = _record(message), rows_in(message.properties)
    if count is not None:
        with suppress(ValueError):
            return unpacked(body, count)
    return pa.array([body], pa.binary())


def _upserts(
    messages: Sequence[Message],
) -> tuple[list[Message], list[bytes], npt.NDArray[np.int8]]:
    """Returns messages with the bytes to decode of each (its body, for a deletion its keys) and the
    kinds of rows. A deletion without keys is left out."""
    kept: list[Message] = []
    records: list[bytes] = []
    kinds: list[int] = []
    for message in messages:
        body = _record(message)
        record = body or properties_of(message.properties).get(KEYS, "").encode()
        if record:
            kept.append(message)
            records.append(record)
            kinds.append(RowKind.UPDATE_AFTER if body else RowKind.DELETE)
    return kept, records, np.array(kinds, np.int8)


def _of_users(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in properties.items() if name not in SYSTEM]


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
