"""Rows that are given to a rule, and those that it gives, as JSON has them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from parser.errors import ExecutionError, PlanError
from parser.types import DataType, Root, Schema
from planner.catalog import Table
from planner.logical.change_kinds import RowKind
from sqlengine.batch import Batch
from sqlengine.formats.json_ import JsonFormat

# A row by column, as JSON has it.
Row: TypeAlias = Mapping[str, object]

# Keys of an event that are no columns of its table.
KIND: Final = "_kind"  # "+I", "-U", "+U", "-D"; +I by default
TABLE: Final = "_table"  # of which it is, in a list for several tables
TIME: Final = "_time"  # the processing time at which it comes, "2026-01-31 12:00:00"
RECORD: Final = "_record"  # a record of a topic, as what its table's format makes of it
BEGIN_MS: Final = 1_767_225_600_000  # 2026-01-01 00:00:00: the clock before the first event
_SECOND_MS: Final = 1000
_END_MS: Final = 253_402_300_800_000  # of the year 9999
_KINDS: Final = {kind.short: kind for kind in RowKind}
_DECODING: Final = {"timestamp-format.standard": "ANY"}


@dataclass(frozen=True)
class Event:
    """A row of a table. `values`: its columns, without those that are NULL; `time`: the processing
    time at which it comes (ms)."""

    table: Table
    values: Row
    time: int
    kind: RowKind = RowKind.INSERT


def event_of(table: Table, row: Row, before: int) -> Event:
    """Returns the event that a row stands for. PlanError for a column that the table has not.

    Without a time of its own it comes a second after the one before it (ms), and at its row time
    where that is later; a row time that it has not is when it comes."""
    values = {name: value for name, value in row.items() if name not in (KIND, TABLE, TIME)}
    known = row_schema(table).names
    for name in values:
        if name not in known:
            raise _unknown(name, table, known)
    kind, told = row.get(KIND, "+I"), row.get(TIME)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise PlanError(f"'{kind}' is no kind of a row", hint=f"it is one of {', '.join(_KINDS)}")
    time = before + _SECOND_MS if told is None else instant(str(told))
    column = row_time_of(table)
    if column is not None and column in values:
        time = max(time, _instant_or_none(values[column]) or 0) if told is None else time
    elif column is not None:
        values[column] = time_in(row_schema(table).type(column), time)
    return Event(table, values, time, _KINDS[kind])


def row_time_of(table: Table) -> str | None:
    """Returns the column of a table's row times, if its records have it as a time."""
    column = None if table.watermark is None else table.watermark.column
    found = next((c for c in row_schema(table) if c.name == column), None)
    return column if found is not None and found.type.is_timestamp else None


def text_of(time: int) -> str:
    """Returns a time (ms) as texts of rows have it, such as '2026-01-31 12:00:00.000'."""
    return str(np.datetime64(time, "ms")).replace("T", " ")


def time_in(type_: DataType, time: int) -> str:
    """Returns a time (ms) as a column of a type with times has it in JSON."""
    return text_of(time) + ("Z" if type_.root is Root.TIMESTAMP_LTZ else "")


def _instant_or_none(value: object) -> int | None:
    """A row time as ms; None where it is none, which its column will say."""
    try:
        return instant(str(value))
    except PlanError:
        return None


def instant(text: str) -> int:
    """Returns a time in UTC, such as '2026-01-31 12:00:00', as ms. PlanError for another text."""
    try:
        if not text[:4].isdigit():  # such as 'now', and 'NaT'
            raise ValueError
        time = int(np.datetime64(text.rstrip("Z").replace(" ", "T"), "ms").astype(np.int64))
    except ValueError:
        time = _END_MS
    if not time < _END_MS:
        raise PlanError(f"'{text}' is no time", hint="write '2026-01-31 12:00:00'")
    return time


def row_schema(table: Table) -> Schema:
    """Returns the columns that an event of the table may have: those of its records, and those
    that its connector would give."""
    return Schema(table.declared_columns)


def batch_of(events: Sequence[Event]) -> Batch:
    """Returns events of one table as rows. ExecutionError for a value that its column cannot
    have."""
    table = events[0].table
    schema = row_schema(table)
    lines = [json.dumps(event.values, default=str, ensure_ascii=False) for event in events]
    records = pa.array([line.encode() for line in lines], pa.binary())
    decoded = JsonFormat().decoder(schema, _DECODING).decode(records)
    if decoded.bad:
        bad = decoded.bad[0]
        raise ExecutionError(
            f"{lines[bad.row][:200]} is no row of table '{table.display}'", detail=bad.reason
        )
    kinds = np.array([event.kind for event in events], np.int8)
    return Batch(schema, decoded.columns, len(events), kinds=kinds if kinds.any() else None)


def rows_of(batch: Batch) -> list[tuple[RowKind, Row]]:
    """Returns the rows of a batch with their kinds."""
    records = JsonFormat().encoder(batch.schema, {}).encode(batch)
    kinds = [RowKind.INSERT] * batch.num_rows if batch.kinds is None else map(RowKind, batch.kinds)
    return [(kind, json.loads(r)) for kind, r in zip(kinds, records.to_pylist(), strict=True)]


def folded(changes: Sequence[tuple[RowKind, Row]], key: Sequence[str]) -> list[Row]:
    """Returns the rows that are there after all changes, in the order in which they came. `key`:
    the columns by which rows are replaced; without it -U and -D take away an equal row."""
    found: dict[str, Row] = {}
    left: Counter[str] = Counter()
    for kind, row in changes:
        name = json.dumps([row.get(c) for c in key] if key else row, sort_keys=True)
        if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            left[name] = 1 if key else left[name] + 1
            found.setdefault(name, row)
            found[name] = row
        elif not (key and kind is RowKind.UPDATE_BEFORE):
            left[name] = 0 if key else left[name] - 1
            if left[name] <= 0:
                found.pop(name, None)
    return [row for name, row in found.items() for _ in range(left[name])]


def _unknown(name: str, table: Table, known: Sequence[str]) -> PlanError:
    near = get_close_matches(name, known, 1)
    computed = name in table.schema.names
    return PlanError(
        f"table '{table.display}' has no column '{name}' that an event could have",
        detail="it is computed of others" if computed else f"it has {', '.join(known)}",
        hint=f"did you mean '{near[0]}'?" if near and not computed else None,
        subject=name,
    )
