"""Rows of a topic: what a table declares of its records. They are made where the records are read,
in the process of the broker or another one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa

from parser.types import DataType
from planner.catalog import Table
from sqlengine.broker.base import Records
from sqlengine.broker.storage.excerpts import Excerpt
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.topic.upserts import is_upsert, read_upserts
from sqlengine.formats.registry import value_metadata


@dataclass(frozen=True)
class MetadataKey:
    """A declared metadata column: its key and its type."""

    key: str
    type: DataType


class TopicRows:
    """Makes chunks of the records of a topic, for one table. Tombstones (records without a value)
    give no row."""

    def __init__(self, table: Table) -> None:
        of_format = value_metadata(table)
        self._keys = [
            MetadataKey(m.key, m.column.type) for m in table.metadata if m not in of_format
        ]
        self._upsert = is_upsert(table)

    def chunk(self, shard: str, start: int, records: Records) -> Chunk:
        """Returns the rows of records that were read from `start` on."""
        columns = {k.key: self.metadata(k, records) for k in self._keys}
        values, offsets = records.values, records.offsets
        kinds, present = None, None
        if self._upsert:
            values, kinds, known = read_upserts(records)
            present = pa.array(known)
        elif values.null_count:
            present = values.is_valid()
            values = values.filter(present)
        if present is not None:
            offsets = offsets[np.asarray(present)]
            columns = {key: column.filter(present) for key, column in columns.items()}
        return Chunk(
            shard,
            start,
            records.next_offset,
            len(values),
            values,
            offsets=offsets,
            metadata=columns,
            kinds=kinds,
        )

    def linked(self, at: bytes) -> Chunk:
        """Returns the rows of a place in the topic's files, for processes that read these by
        themselves. Raises as `Connector.linked`."""
        excerpt = msgspec.msgpack.decode(at, type=Excerpt)
        found = self.chunk(str(excerpt.shard), excerpt.start, excerpt.read())
        return replace(found, end=excerpt.end)

    def metadata(self, key: MetadataKey, records: Records) -> pa.Array:
        """Returns a metadata column in the type that the table declares."""
        match key.key:
            case "timestamp":
                values = pa.array(records.timestamps).view(pa.timestamp("ms", "UTC"))
            case "offset":
                values = pa.array(records.offsets)
            case "shard":
                values = pa.array(np.full(records.num_rows, records.shard, np.int32))
            case _:
                values = (
                    records.keys
                    if records.keys is not None
                    else pa.nulls(records.num_rows, pa.binary())
                )
        return values if values.type == key.type.arrow else values.cast(key.type.arrow, safe=False)
