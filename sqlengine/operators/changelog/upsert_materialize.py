"""The row of each primary key, of rows that may be several of one key: what is written to a table
with that key."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import UpsertMaterialize
from sqlengine.batch import Batch
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog.row_kinds import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    kinds_of,
    plain,
)
from sqlengine.state.keys import encode
from sqlengine.state.table import KeyedTable

# The number of a row's arrival: the rows of a key are kept in its order.
NUMBER = "#number"
_NUMBER = BIGINT.with_nullable(False)


@dataclass(slots=True)
class _Entry:
    """A row of a key: its slot (-1: it came with this batch), the row of the batch that it is now
    (-1: as it was)."""

    slot: int
    row: int


class UpsertMaterializeOperator:
    """For each batch and key that it touches +I, +U or -D, as the row that is to be there comes,
    changes or goes: it is the one that came last, or, when that goes, the last of those that are
    left. A row to take back that is not there is dropped (`rows_without_key`)."""

    def __init__(self, node: UpsertMaterialize) -> None:
        self._node = node
        self._identity = node.rows_by or node.schema.names
        self._values = Schema(tuple(c for c in node.schema if c.name not in node.keys))

    def open(self, context: Context) -> None:
        self._counters = context.counters
        keys = Schema((*self._node.schema.select(self._node.keys), Column(NUMBER, _NUMBER)))
        self._table: KeyedTable = context.table("rows", keys, self._values, self._node.keys)
        self._load()

    def process(self, port: int, batch: Batch) -> Output:
        if self._generation != self._table.generation:
            self._load()
        changed = self._change(batch) if batch.num_rows else None
        return [(0, replace(changed or batch.tick(self._node.schema), watermark=batch.watermark))]

    def close(self) -> None: ...

    def _load(self) -> None:
        """The rows of each key from the table, in order."""
        self._generation = self._table.generation
        self._held: dict[
            bytes, dict[bytes, _Entry]
        ] = {}  # by key and what tells its rows apart, in order of arrival
        slots = self._table.live()
        slots = slots[np.argsort(self._table.columns[NUMBER][slots], kind="stable")]
        self._next = 1 + int(self._table.columns[NUMBER][slots].max(initial=-1))
        columns = {c.name: self._table.array(c.name, slots) for c in self._node.schema}
        keys, same = self._encoded(columns, len(slots))
        for key, row, slot in zip(keys, same, slots.tolist(), strict=True):
            self._held.setdefault(key, {})[row] = _Entry(slot, -1)

    def _encoded(self, columns: dict[str, pa.Array], count: int) -> tuple[list[bytes], list[bytes]]:
        """The key of each row, and what tells it from others of that key."""

        def of(names: tuple[str, ...]) -> list[bytes]:
            return encode(
                [self._node.schema.type(n) for n in names], [columns[n] for n in names], count
            )

        return of(self._node.keys), of(tuple(self._identity))

    def _change(self, batch: Batch) -> Batch | None:
        columns = {c.name: batch.column(c.name) for c in self._node.schema}
        keys, same = self._encoded(columns, batch.num_rows)
        kinds = kinds_of(batch)
        before: dict[bytes, bool] = {}
        shown: dict[
            bytes, tuple[int, int, int]
        ] = {}  # by key: the row that is told last: slot, row of the batch, time
        gone: list[int] = []
        written: list[_Entry] = []
        for i, (key, row, kind) in enumerate(zip(keys, same, kinds.tolist(), strict=True)):
            entries = self._held.setdefault(key, {})
            before.setdefault(key, bool(entries))
            if kind in (UPDATE_BEFORE, DELETE):
                told = self._take(entries, row, i, gone)
            else:
                told = _add(entries, row, i, written)
            if told is not None:
                shown.pop(key, None)
                shown[key] = (*told, i)
        result = self._told(batch, before, shown)
        self._store(batch, before, [e for e in written if e.row != -1], gone)
        return result

    def _take(
        self, entries: dict[bytes, _Entry], row: bytes, i: int, gone: list[int]
    ) -> tuple[int, int] | None:
        """Takes a row of a key back; the row to tell, if another is there now, or none."""
        entry = entries.get(row)
        if entry is None:
            self._counters["rows_without_key"] += 1
            return None
        was_last = next(reversed(entries)) == row
        del entries[row]
        if entry.slot >= 0:
            gone.append(entry.slot)
        entry.row = -1
        if not entries:
            return -1, i
        return _place(entries[next(reversed(entries))]) if was_last else None

    def _told(
        self, batch: Batch, before: dict[bytes, bool], shown: dict[bytes, tuple[int, int, int]]
    ) -> Batch | None:
        """The rows to tell: from the batch, or from the table where an older one is there again."""
        kinds, rows, slots, times = [], [], [], []
        for key, (slot, row, time) in shown.items():
            there = bool(self._held[key])
            if before[key] or there:
                kinds.append((UPDATE_AFTER if before[key] else INSERT) if there else DELETE)
                rows.append(row)
                slots.append(slot)
                times.append(time)
        if not kinds:
            return None
        at, old = np.array(rows), np.array(slots)
        stored = np.flatnonzero(at < 0)
        chosen = at.copy()
        chosen[stored] = batch.num_rows + np.arange(len(stored))
        result = batch.take(np.array(times))
        columns = []
        for column in result.schema:
            held = self._table.array(column.name, old[stored])
            columns.append(
                pa.concat_arrays([batch.column(column.name), held]).take(pa.array(chosen))
            )
        return replace(
            result, columns=tuple(columns), kinds=plain(np.array(kinds, np.int8)), offsets=None
        )

    def _store(
        self, batch: Batch, touched: dict[bytes, bool], entries: list[_Entry], gone: list[int]
    ) -> None:
        """Writes the rows that came with the batch into the table, and forgets those that went."""
        fresh = sorted((e for e in entries if e.slot == -1), key=lambda e: e.row)
        self._table.remove(np.array(gone, np.int64))
        if fresh:
            rows = np.array([e.row for e in fresh], np.int64)
            numbers = pa.array(np.arange(self._next, self._next + len(rows)))
            self._next += len(rows)
            keys = [batch.column(k).take(pa.array(rows)) for k in self._node.keys]
            slots, _ = self._table.slots_for([*keys, numbers], len(rows))
            for entry, slot in zip(fresh, slots.tolist(), strict=True):
                entry.slot = slot
        self._write(batch, entries)
        for key in touched:
            if not self._held[key]:
                del self._held[key]

    def _write(self, batch: Batch, entries: list[_Entry]) -> None:
        slots, rows = (
            np.array(n, np.int64) for n in ([e.slot for e in entries], [e.row for e in entries])
        )
        self._table.write(
            slots, {c.name: batch.column(c.name).take(pa.array(rows)) for c in self._values}
        )
        self._table.mark(slots)
        for entry in entries:
            entry.row = -1


def _add(
    entries: dict[bytes, _Entry], row: bytes, i: int, written: list[_Entry]
) -> tuple[int, int]:
    """Adds a row of the batch to a key, in the place of the one that it replaces; it is the row to
    tell."""
    entry = entries.setdefault(row, _Entry(-1, -1))
    if entry.row == -1:
        written.append(entry)
    entry.row = i
    return -1, i


def _place(entry: _Entry) -> tuple[int, int]:
    """Where the row of an entry is: its slot, or the row of the batch."""
    return (entry.slot, -1) if entry.row == -1 else (-1, entry.row)
