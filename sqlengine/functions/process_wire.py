"""Requests for process functions, and the answers of workers.

A request is for *events*. Those of a batch of n rows are numbered: event 2i brings the watermark
before row i, event 2i + 1 is the row, event 2n brings the watermark after all rows, and event
2n + 1 is nothing. So an event at which a worker dies is a row, or the timers before it. A request
that begins with an odd event comes behind one that was lost: the timers that were due there are
dropped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

# Of each row: the place of its key in `KEYS`, its time (ms), its table.
GROUP, TIME, TABLE = "#group", "#time", "#table"
# Of each row that is given: the row that it comes from, -1 for a timer's, and the watermark (ms)
# before it.
ROW, WATERMARK = "#row", "#watermark"
# In the metadata of the rows' schema.
_SHAPE = b"shape"

# `next`: when the first timer is due (ms). Behind these come the columns of PARTITION BY.
_KEYS = (
    pa.field("state", pa.binary()),
    pa.field("timers", pa.binary()),
    pa.field("next", pa.int64()),
)
KEYS_AFTER = pa.schema(_KEYS)
INSTANTS = pa.schema([pa.field("instant", pa.int64())])
# Entries of views that were written, by key and view; without a value: removed, without an entry:
# all entries that there were before are.
CHANGES = pa.schema(
    [
        pa.field(GROUP, pa.int32()),
        pa.field("view", pa.int32()),
        pa.field("entry", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
# Timers that failed.
LOST_TIMERS = pa.schema(
    [
        pa.field(GROUP, pa.int32()),
        pa.field("time", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("reason", pa.string()),
    ]
)


@dataclass(frozen=True)
class Shape:
    """The form of rows: for each table its name and its columns, each as the column of a
    request and its own name. `zoned`: times have a time zone."""

    tables: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    zoned: bool


def rows_schema(shape: Shape, columns: Sequence[pa.Field]) -> pa.Schema:
    fields = [pa.field(GROUP, pa.int32()), pa.field(TIME, pa.int64())]
    if len(shape.tables) > 1:
        fields.append(pa.field(TABLE, pa.int32()))
    told = json.dumps([shape.tables, shape.zoned]).encode()
    return pa.schema([*fields, *columns], {_SHAPE: told})


def shape_of(schema: pa.Schema) -> Shape:
    tables, zoned = json.loads(schema.metadata[_SHAPE])
    return Shape(tuple((n, tuple((a, b) for a, b in columns)) for n, columns in tables), zoned)


def keys_schema(columns: Sequence[pa.Field]) -> pa.Schema:
    return pa.schema([*_KEYS, *columns])


def output_schema(columns: Sequence[pa.Field]) -> pa.Schema:
    fields = [pa.field(n, pa.int32()) for n in (ROW, GROUP)]
    return pa.schema([*fields, *(pa.field(n, pa.int64()) for n in (TIME, WATERMARK)), *columns])


def instants(values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=INSTANTS)
