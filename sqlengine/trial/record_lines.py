"""Records of topics in files, as `sql topic read --output json` writes them, as rows of cases."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from parser.errors import ExecutionError
from parser.types import BIGINT, Column
from planner.catalog import Table
from planner.logical import Scan
from planner.logical.change_kinds import RowKind
from planner.tables import MetadataColumn
from sqlengine.batch import Batch
from sqlengine.broker.base import Records
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import connect_formats
from sqlengine.connectors.topic.rows import TopicRows
from sqlengine.executors.node_state.node_context import NodeContext
from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
from sqlengine.executors.sources import ChunkRows
from sqlengine.formats.keyed.fields import key_part
from sqlengine.formats.registry import decoder_for, value_metadata, with_any_times
from sqlengine.operators.base import ERROR_PORT
from sqlengine.operators.scan import ScanOperator
from sqlengine.system.words import count
from sqlengine.trial.events import KIND, TIME, Row, rows_of, text_of, time_in

_NUMBER: Final = MetadataColumn(Column("@number", BIGINT), "offset", virtual=True)
# What connectors call a field of a record otherwise.
_FIELDS: Final = {"partition": "shard"}


def rows_of_records(table: Table, written: Table | None, records: Sequence[Row]) -> list[Row]:
    """Returns the rows of a table that records are, as its format has them (`written`: the table as
    its text has it), with metadata, and the times at which they came. ExecutionError for records
    that are none."""
    read = _read(table if written is None else written)
    scan = ScanOperator(
        read,
        [*read.physical.names, *(m.column.name for m in read.metadata)],
        decoder_for(read, read.physical, value_metadata(read)),
    )
    scan.open(NodeContext("scan", 0, {}, {}))
    raw = ChunkRows(Scan(read)).batch(_chunk(read, records), 0, 0)
    found: list[Row] = []
    for port, rows in scan.process(0, raw):
        if port == ERROR_PORT:
            raise _refused(table, rows)
        numbers = rows.column(_NUMBER.column.name).to_pylist()
        for number, (kind, row) in zip(numbers, rows_of(rows), strict=True):
            found.append(_row(table, records[number], kind, row))
    return found


def _read(written: Table) -> Table:
    """The table with the number of each record in the place of metadata that connectors give."""
    named = not written.options.keys().isdisjoint(("format", "value.format"))
    options = {**({} if named else {"format": "json"}), **written.options, "connector": "topic"}
    metadata = (*value_metadata(written), _NUMBER)
    read = with_any_times(replace(written, options=options, metadata=metadata))
    connect_formats(read, Environment(None, lambda: 0, "trial", any_times=True))
    return read


def _chunk(read: Table, records: Sequence[Row]) -> Chunk:
    values, keys = ([_bytes(r, name) for r in records] for name in ("value", "key"))
    numbers, part, kinds = np.arange(len(records)), key_part(read), None
    if part is not None and part.upserts:
        gone = np.array([value is None for value in values])
        kinds = np.where(gone, RowKind.DELETE, RowKind.UPDATE_AFTER).astype(np.int8)
        values = [value or b"" for value in values]
    arrays = pa.array(values, pa.binary()), pa.array(keys, pa.binary())
    chunk = TopicRows(read).chunk(
        "0", 0, Records("", 0, 0, len(records), *arrays, numbers, numbers)
    )
    if part is None or not part.decoded:
        return chunk if kinds is None else replace(chunk, kinds=kinds)
    assert chunk.offsets is not None
    return replace(chunk, kinds=kinds, keys=arrays[1].take(pa.array(chunk.offsets)))


def _bytes(record: Row, name: str) -> bytes | None:
    if f"{name}_base64" in record:
        return base64.b64decode(str(record[f"{name}_base64"]))
    value = record.get(name)
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _row(table: Table, record: Row, kind: RowKind, row: Row) -> Row:
    """A row with what only its record says: its kind, its time, and the table's metadata."""
    found = {name: value for name, value in row.items() if name != _NUMBER.column.name}
    for m in table.metadata:
        if m.column.name not in found:
            found[m.column.name] = _metadata(record, m)
    if kind is not RowKind.INSERT:
        found[KIND] = kind.short
    if (time := _time(record)) is not None:
        return {**found, TIME: time}
    # Nobody says when it came: a row time that it lacks is that of its place in the case.
    return {name: value for name, value in found.items() if value is not None}


def _metadata(record: Row, column: MetadataColumn) -> object:
    field = _FIELDS.get(column.key, column.key)
    if column.key == "timestamp" and column.column.type.is_timestamp:
        time = record.get("timestamp")
        return time_in(column.column.type, time) if isinstance(time, int) else None
    value = record.get(field)
    if field == "headers" and isinstance(value, dict):
        return {name: _base64(str(text).encode()) for name, text in value.items()}
    key = _bytes(record, field) if field == "key" else None
    return value if key is None else _base64(key)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _time(record: Row) -> str | None:
    time = record.get("timestamp")
    return text_of(time) if isinstance(time, int) else None


def _refused(table: Table, letters: Batch) -> ExecutionError:
    first = RowsSetAside()
    first.write(letters)
    return ExecutionError(
        f"{count(letters.num_rows, 'record')} can be no row of table '{table.display}'",
        detail=first.first,
        hint="take such records out of the file: in a server they become dead letters",
    )
