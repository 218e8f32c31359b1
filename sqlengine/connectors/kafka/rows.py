"""Records of Kafka as chunks: their values, keys and what else a table declares of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import BIGINT, BYTES, INT, STRING, DataType, map_of, timestamp_ltz
from planner.catalog import Table
from sqlengine.batch import RowKind
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.kafka.fetched import Offsets
from sqlengine.connectors.kafka.fetching import Taken
from sqlengine.formats.keyed.fields import key_part
from sqlengine.formats.registry import decodes_keys, value_metadata

if TYPE_CHECKING:
    from confluent_kafka import Message

# Flink's metadata columns of Kafka.
METADATA: Final[Mapping[str, DataType]] = {
    "topic": STRING,
    "partition": INT,
    "headers": map_of(STRING, BYTES),
    "leader-epoch": INT,
    "offset": BIGINT,
    "timestamp": timestamp_ltz(3),
    "timestamp-type": STRING,
}
WRITABLE: Final = frozenset(("timestamp", "headers"))
_KINDS: Final = ("NoTimestampType", "CreateTime", "LogAppendTime")


class KafkaRows:
    """Makes chunks of records, for one table. A record without a value ends the row of its key
    where the table is one of upserts, and gives none elsewhere."""

    def __init__(self, table: Table) -> None:
        of_format = value_metadata(table)
        self._metadata = [m for m in table.metadata if m not in of_format]
        self._keyed = decodes_keys(table)
        part = key_part(table)
        self._upserts = part is not None and part.upserts

    def chunk(self, shard: str, start: int, taken: Taken) -> Chunk:
        """Returns the rows of records that were read from `start` on."""
        messages, offsets, kinds = taken.messages, taken.offsets, None
        values = [m.value() for m in messages]
        if None in values:
            if self._upserts:
                gone = np.fromiter((v is None for v in values), np.bool_, len(values))
                kinds = np.where(gone, RowKind.DELETE, RowKind.UPDATE_AFTER).astype(np.int8)
            else:
                there = [i for i, v in enumerate(values) if v is not None]
                messages, offsets = [messages[i] for i in there], offsets[there]
                values = [values[i] for i in there]
        elif self._upserts:
            kinds = np.full(len(values), RowKind.UPDATE_AFTER, np.int8)
        return Chunk(
            shard,
            start,
            taken.end,
            len(values),
            binary([v or b"" for v in values] if kinds is not None else values),
            offsets=offsets,
            metadata=self._columns(messages, offsets),
            kinds=kinds,
            keys=binary([m.key() for m in messages]) if self._keyed else None,
        )

    def nothing(self, shard: str, start: int, end: int) -> Chunk:
        """Returns a range of offsets that has no records."""
        return self.chunk(shard, start, Taken((), np.empty(0, np.int64), end))

    def _columns(self, messages: Sequence[Message], offsets: Offsets) -> dict[str, pa.Array]:
        columns = {}
        for m in self._metadata:
            values = _MAKERS[m.key](messages, offsets)
            wanted = m.column.type.arrow
            columns[m.key] = values if values.type == wanted else values.cast(wanted, safe=False)
        return columns


def binary(values: Sequence[bytes | None]) -> pa.Array:
    """Returns an array of bytes; faster than `pa.array`, which looks at the type of each."""
    valid = None
    if None in values:
        valid = pa.array([v is not None for v in values])
        values = [v or b"" for v in values]
    lengths = np.fromiter(map(len, values), np.int64, len(values))  # type: ignore[arg-type]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError("records of more than 2 GB at once")
    data = pa.py_buffer(b"".join(values))  # type: ignore[arg-type]
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), data]
    made = pa.Array.from_buffers(pa.binary(), len(values), buffers)
    return made if valid is None else pc.if_else(valid, made, pa.scalar(None, pa.binary()))


def _times(messages: Sequence[Message], offsets: Offsets) -> pa.Array:
    stamps = [m.timestamp() for m in messages]
    found = pa.array([t if kind else None for kind, t in stamps], pa.int64())
    return found.view(pa.timestamp("ms", "UTC"))


def _headers(messages: Sequence[Message], offsets: Offsets) -> pa.Array:
    # Of a name that is there twice the last one counts, as in Flink.
    pairs = [list(dict(m.headers() or ()).items()) for m in messages]
    return pa.array(pairs, METADATA["headers"].arrow)


_MAKERS: Final[Mapping[str, Callable[[Sequence[Message], Offsets], pa.Array]]] = {
    "topic": lambda messages, _: pa.array([m.topic() for m in messages], pa.string()),
    "partition": lambda messages, _: pa.array([m.partition() for m in messages], pa.int32()),
    "headers": _headers,
    "leader-epoch": lambda messages, _: pa.array([m.leader_epoch() for m in messages], pa.int32()),
    "offset": lambda _, offsets: pa.array(offsets),
    "timestamp": _times,
    "timestamp-type": lambda messages, _: pa.array(
        [_KINDS[m.timestamp()[0]] for m in messages], pa.string()
    ),
}
