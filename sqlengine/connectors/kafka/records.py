"""Rows as records of Kafka: value, key, timestamp and headers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ExecutionError
from parser.types import Schema
from planner.catalog import Table
from sqlengine.batch import Batch, RowKind
from sqlengine.connectors.encoded import RowEncoder
from sqlengine.connectors.kafka.properties import largest_record
from sqlengine.connectors.kafka.rows import WRITABLE
from sqlengine.connectors.metadata_types import check_written
from sqlengine.formats.base import Encoder
from sqlengine.formats.keyed.fields import key_part
from sqlengine.formats.registry import encoder_for, key_encoder_of

T = TypeVar("T")
Headers: TypeAlias = list[tuple[str, str | bytes | None]]
_VALUE, _KEY, _TIME, _HEADERS = range(4)
# Bytes of a header beside its name and its value, at most.
_HEADER: Final = 10
_NOW: Final = 0  # as a timestamp: when the record is produced


@dataclass(frozen=True)
class Records:
    """Records in the order of their rows. None in the place of values: none of them has one."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    times: Sequence[int] | None
    headers: Sequence[Headers | None] | None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def plain(self) -> bool:
        """True if they are nothing but values."""
        return self.keys is None and self.times is None and self.headers is None

    def __iter__(self) -> Iterator[tuple[bytes | None, bytes | None, int, Headers | None]]:
        none = repeat(None)
        return zip(
            self.values, self.keys or none, self.times or repeat(_NOW), self.headers or none,
            strict=False,
        )  # fmt: skip


class KafkaRecords(RowEncoder):
    """Makes records of the rows of a table: columns of values, and of keys, timestamps and headers
    where it has them. With a key of upserts a row that ends is a record without a value."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._most = largest_record(table)
        check_written(table, WRITABLE)
        self._part = part = key_part(table)
        columns = table.physical.columns if part is None else part.of_value(table.physical)
        self._of_value = Schema(columns)
        self._value: Encoder = encoder_for(table)
        self._key = None if part is None else key_encoder_of(table, part)
        self._of_key = None if part is None else part.schema(table)
        written = {m.key: m.column.name for m in table.metadata if not m.virtual}
        self._time, self._headers = written.get("timestamp"), written.get("headers")

    def encode(self, rows: Batch) -> tuple[pa.Array, ...]:
        """See `RowEncoder`."""
        count = rows.num_rows
        values, keys = self._values(rows), self._keys(rows)
        headers = None if self._headers is None else rows.column(self._headers)
        self._check_sizes(values, keys, headers)
        return (
            values,
            keys,
            pa.nulls(count, pa.int64()) if self._time is None else _millis(rows.column(self._time)),
            pa.nulls(count) if headers is None else headers,
        )

    def _check_sizes(self, values: pa.Array, keys: pa.Array, headers: pa.Array | None) -> None:
        """Raises ExecutionError for a record that the client may not send."""
        sizes = pc.add(pc.binary_length(values).fill_null(0), pc.binary_length(keys).fill_null(0))
        if headers is not None:
            sizes = pc.add(pc.cast(sizes, pa.int64()), _sizes_of_headers(headers))
        found = pc.max(sizes).as_py()
        if found is not None and found > self._most:
            raise ExecutionError(
                f"a record of {found:,} bytes is more than Kafka may get: {self._most:,}",
                hint="'properties.max.request.size' allows more, as does 'max.message.bytes' of the"
                " topic",
            )

    def _values(self, rows: Batch) -> pa.Array:
        names = self._of_value.names
        values = self._value.encode(
            rows.with_columns(self._of_value, [rows.column(name) for name in names])
        )
        if rows.kinds is None or self._part is None or not self._part.upserts:
            return values
        gone = (rows.kinds == RowKind.DELETE) | (rows.kinds == RowKind.UPDATE_BEFORE)
        return pc.if_else(pa.array(gone), pa.scalar(None, values.type), values)

    def _keys(self, rows: Batch) -> pa.Array:
        if self._part is None or self._key is None or self._of_key is None:
            return pa.nulls(rows.num_rows, pa.binary())
        columns = [rows.column(name) for name in self._part.columns]
        return self._key.encode(rows.with_columns(self._of_key, columns))

    def records(self, encoded: Sequence[tuple[pa.Array, ...]]) -> Records:
        """Returns what was made of some batches, in order, as the client takes it."""
        columns = [[e[n] for e in encoded] for n in range(4)]
        return Records(
            _listed(columns[_VALUE]),
            None if self._key is None else _listed(columns[_KEY]),
            None if self._time is None else _listed([c.fill_null(_NOW) for c in columns[_TIME]]),
            None if self._headers is None else _listed(columns[_HEADERS]),
        )


def _listed(columns: Sequence[pa.Array]) -> list[T]:
    return [value for column in columns for value in column.to_pylist()]


def _sizes_of_headers(headers: pa.MapArray) -> pa.Array:
    """Returns how many bytes the headers of each record are, with the lengths of their parts."""
    parts = [pc.fill_null(pc.binary_length(part), 0) for part in (headers.keys, headers.items)]
    each = np.asarray(parts[0], np.int64) + np.asarray(parts[1], np.int64) + _HEADER
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(each)])
    ends = np.asarray(headers.offsets)
    return pa.array(before[ends[1:]] - before[ends[:-1]])


def _millis(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
