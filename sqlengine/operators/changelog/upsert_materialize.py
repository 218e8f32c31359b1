"""Materializes one row for each primary key of a sink, as Flink's SinkUpsertMaterializer."""

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

# The arrival number of a row, which orders the rows of a key.
NUMBER = "#number"
_NUMBER = BIGINT.with_nullable(False)


@dataclass(slots=True)
class _Entry:
    """A row of a key: its slot (-1: added by this batch), and the row of the batch with its new
    values (-1: unchanged)."""

    slot: int
    row: int


class UpsertMaterializeOperator:
    """Emits for each batch and key +I, +U or -D, as the visible row of the key changes; Flink's
    SinkUpsertMaterializer.

    The visible row is the last one added, or, when that is retracted, the last of those that
    remain: so rows of several upstream keys may come out of order. A retraction of an unknown row
    is dropped (`rows_without_key`).

    State: table `rows`, primary key and `#number` -> the row. In memory: the rows of each key in
    order of arrival, rebuilt from the table.
    """

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
        """Reads the rows of each key from the table, in order."""
        self._generation = self._table.generation
        # By key and by the row's identity, in order of arrival.
        self._entries: dict[bytes, dict[bytes, _Entry]] = {}
        slots = self._table.live()
        slots = slots[np.argsort(self._table.columns[NUMBER][slots], kind="stable")]
        self._next = 1 + int(self._table.columns[NUMBER][slots].max(initial=-1))
        columns = {c.name: self._table.array(c.name, slots) for c in self._node.schema}
        keys, identities = self._encoded(columns, len(slots))
        for key, row, slot in zip(keys, identities, slots.tolist(), strict=True):
            self._entries.setdefault(key, {})[row] = _Entry(slot, -1)

    def _encoded(self, columns: dict[str, pa.Array], count: int) -> tuple[list[bytes], list[bytes]]:
        """Returns the key of each row, and its identity within the key."""

        def of(names: tuple[str, ...]) -> list[bytes]:
            return encode(
                [self._node.schema.type(n) for n in names], [columns[n] for n in names], count
            )

        return of(self._node.keys), of(tuple(self._identity))

    def _change(self, batch: Batch) -> Batch | None:
        columns = {c.name: batch.column(c.name) for c in self._node.schema}
        keys, identities = self._encoded(columns, batch.num_rows)
        kinds = kinds_of(batch)
        before: dict[bytes, bool] = {}
        # By key, the visible row: its slot or row of the batch, and the row that made it visible.
        shown: dict[bytes, tuple[int, int, int]] = {}
        removed: list[int] = []
        written: list[_Entry] = []
        for i, (key, row, kind) in enumerate(zip(keys, identities, kinds.tolist(), strict=True)):
            entries = self._entries.setdefault(key, {})
            before.setdefault(key, bool(entries))
            if kind in (UPDATE_BEFORE, DELETE):
                visible = self._retract(entries, row, i, removed)
            else:
                visible = _add(entries, row, i, written)
            if visible is not None:
                # Dicts keep the order of insertion: a key that changes again moves to the end of
                # the output.
                shown.pop(key, None)
                shown[key] = (*visible, i)
        result = self._changes(batch, before, shown)
        # Entries that were added and retracted by this batch have row -1 again: nothing of them is
        # written.
        self._store(batch, before, [e for e in written if e.row != -1], removed)
        return result

    def _retract(
        self, entries: dict[bytes, _Entry], row: bytes, i: int, removed: list[int]
    ) -> tuple[int, int] | None:
        """Retracts a row of a key; returns the row that becomes visible, if another one or none
        does."""
        entry = entries.get(row)
        if entry is None:
            self._counters["rows_without_key"] += 1
            return None
        was_last = next(reversed(entries)) == row
        del entries[row]
        if entry.slot >= 0:
            removed.append(entry.slot)
        entry.row = -1
        if not entries:
            return -1, i
        return _location(entries[next(reversed(entries))]) if was_last else None

    def _changes(
        self, batch: Batch, before: dict[bytes, bool], shown: dict[bytes, tuple[int, int, int]]
    ) -> Batch | None:
        """Returns the output rows: from the batch, or from the table where an older row is visible
        again."""
        kinds, rows, slots, times = [], [], [], []
        for key, (slot, row, time) in shown.items():
            exists = bool(self._entries[key])
            if before[key] or exists:
                kinds.append((UPDATE_AFTER if before[key] else INSERT) if exists else DELETE)
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
            older = self._table.array(column.name, old[stored])
            columns.append(
                pa.concat_arrays([batch.column(column.name), older]).take(pa.array(chosen))
            )
        return replace(
            result, columns=tuple(columns), kinds=plain(np.array(kinds, np.int8)), offsets=None
        )

    def _store(
        self, batch: Batch, touched: dict[bytes, bool], entries: list[_Entry], removed: list[int]
    ) -> None:
        """Writes the rows added by the batch to the table, and removes the retracted ones."""
        # Numbers in the order of arrival: `_load` restores the order of a key from them.
        fresh = sorted((e for e in entries if e.slot == -1), key=lambda e: e.row)
        self._table.remove(np.array(removed, np.int64))
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
            if not self._entries[key]:
                del self._entries[key]

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
    """Adds a row of the batch to a key, in the place of the one that it replaces; it becomes
    visible."""
    entry = entries.setdefault(row, _Entry(-1, -1))
    if entry.row == -1:
        written.append(entry)
    entry.row = i
    return -1, i


def _location(entry: _Entry) -> tuple[int, int]:
    """Returns the slot of an entry's row (else -1), and its row of the batch (else -1)."""
    return (entry.slot, -1) if entry.row == -1 else (-1, entry.row)
