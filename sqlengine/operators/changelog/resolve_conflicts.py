"""Sinks with ON CONFLICT DO NOTHING or DO ERROR: one row for each primary key, the first to
arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, Column, Schema
from planner.logical import UpsertMaterialize
from sqlengine.batch import MAX_WATERMARK, Batch, IntArray
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.changelog.row_kinds import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    kinds_of,
    plain,
)
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.state.columns import distinct
from sqlengine.state.keys import encode
from sqlengine.state.table import KeyedTable

_NUMBER, _KIND, _STAMP = "#number", "#kind", "#stamp"
_WHOLE = BIGINT.with_nullable(False)


@dataclass
class _Row:
    """A row: its place among the rows under consideration, its identity, and the slot where it is
    stored."""

    place: int
    identity: bytes
    slot: int


class ResolveConflictsOperator:
    """Emits the first row of each primary key; a second one is dropped or is an error.

    Rows wait until the watermark has passed the one at their arrival. Then, key by key, additions
    and retractions of equal rows cancel out; of the remaining rows, the first is the key's row
    until it is retracted.

    State: table `waiting`, key and `#number` -> row, kind, watermark at arrival (`#stamp`, ms);
    table `rows`, key -> its row. Timers: `#stamp`.
    """

    def __init__(self, node: UpsertMaterialize) -> None:
        self._node = node
        self._identity = node.rows_by or node.schema.names

    def open(self, context: Context) -> None:
        self._counters = context.counters
        key = self._node.schema.select(self._node.keys)
        values = Schema(tuple(c for c in self._node.schema if c.name not in self._node.keys))
        numbered = Schema((*key, Column(_NUMBER, _WHOLE)))
        about = (Column(_KIND, INT.with_nullable(False)), Column(_STAMP, _WHOLE))
        self._waiting: KeyedTable = context.table(
            "waiting", numbered, Schema((*values, *about)), key.names
        )
        self._current: KeyedTable = context.table("rows", key, values, key.names)

    def process(self, port: int, batch: Batch) -> Output:
        if batch.num_rows:
            self._buffer(batch)
        # The watermark must have passed the one at the row's arrival; at the end of input nothing
        # follows.
        upto = batch.watermark if batch.watermark == MAX_WATERMARK else batch.watermark - 1
        due = self._waiting.due(_STAMP, upto)
        output: Output = []
        result = self._compact(batch, due, output) if len(due) else None
        return [*output, (0, result or batch.tick(self._node.schema))]

    def close(self) -> None: ...

    def _buffer(self, batch: Batch) -> None:
        live = self._waiting.live()
        start = 1 + int(self._waiting.columns[_NUMBER][live].max(initial=-1))
        numbers = pa.array(np.arange(start, start + batch.num_rows))
        slots, _ = self._waiting.slots_for(
            [*(batch.column(k) for k in self._node.keys), numbers], batch.num_rows
        )
        columns = {
            c.name: batch.column(c.name) for c in self._node.schema if c.name not in self._node.keys
        }
        about = {
            _KIND: pa.array(kinds_of(batch).astype(np.int32)),
            _STAMP: pa.array(batch.watermarks()),
        }
        self._waiting.write(slots, {**columns, **about})
        self._waiting.mark(slots)

    def _compact(self, batch: Batch, due: IntArray, output: Output) -> Batch | None:
        """Processes the rows that are due; returns the resulting changes."""
        due = due[np.argsort(self._waiting.columns[_NUMBER][due], kind="stable")]
        # Without the number, which is the last key column.
        keys = self._waiting.key_arrays(due)[:-1]
        existing, _ = self._current.slots_for(keys, len(due), insert=False)
        stored = distinct(existing[existing >= 0])
        # The rows that are due, followed by the stored rows of their keys: a place below len(due)
        # is a new row, one above it a stored row.
        rows = {
            c.name: pa.concat_arrays(
                [self._waiting.array(c.name, due), self._current.array(c.name, stored)]
            )
            for c in self._node.schema
        }
        count = len(due) + len(stored)
        key, identity = (
            self._encoded(rows, names, count) for names in (self._node.keys, tuple(self._identity))
        )
        current = {
            key[p]: _Row(p, identity[p], int(s))
            for p, s in zip(range(len(due), count), stored, strict=True)
        }
        kinds = self._waiting.columns[_KIND][due].tolist()
        changes: list[tuple[np.int8, int]] = []
        conflicts: list[int] = []
        for name, places in _by_key(key[: len(due)]).items():
            remaining = _compacted(
                [(p, kinds[p] not in (UPDATE_BEFORE, DELETE), identity[p]) for p in places]
            )
            changes += self._resolve(current.get(name), remaining, identity, conflicts)
        self._waiting.remove(due)
        if conflicts:
            output.append((ERROR_PORT, self._failed(batch, rows, conflicts)))
        return self._changes(batch, rows, changes)

    def _encoded(
        self, rows: dict[str, pa.Array], names: tuple[str, ...], count: int
    ) -> list[bytes]:
        return encode([self._node.schema.type(n) for n in names], [rows[n] for n in names], count)

    def _resolve(
        self,
        current: _Row | None,
        remaining: list[tuple[int, bool]],
        identity: list[bytes],
        conflicts: list[int],
    ) -> Iterator[tuple[np.int8, int]]:
        """Yields the change of one key, if any: the kind and the place of the row to emit."""
        row = None if current is None else (current.place, current.identity)
        for place, added in remaining:
            if not added:
                row = None if row is not None and row[1] == identity[place] else row
            elif row is None or row[1] == identity[place]:
                row = (place, identity[place])
            elif self._node.conflict == "ERROR":
                conflicts.append(place)
        if row is None and current is not None:
            yield DELETE, current.place
        elif row is not None and (current is None or row[0] != current.place):
            yield (INSERT if current is None else UPDATE_AFTER), row[0]

    def _changes(
        self, batch: Batch, rows: dict[str, pa.Array], changes: list[tuple[np.int8, int]]
    ) -> Batch | None:
        if not changes:
            return None
        # Places below len(due) are in order of arrival; deletions of stored rows come last.
        changes.sort(key=lambda t: t[1])
        kinds, places = (
            np.array([k for k, _ in changes], np.int8),
            np.array([p for _, p in changes]),
        )
        taken = {name: column.take(pa.array(places)) for name, column in rows.items()}
        self._store(taken, kinds)
        columns = tuple(taken[n] for n in self._node.schema.names)
        return replace(
            batch.tick(self._node.schema),
            columns=columns,
            num_rows=len(places),
            kinds=plain(kinds),
            seed=batch.seed,
        )

    def _store(
        self, rows: dict[str, pa.Array], kinds: np.ndarray[tuple[int], np.dtype[np.int8]]
    ) -> None:
        """Writes the current rows of the changed keys."""
        slots, _ = self._current.slots_for([rows[k] for k in self._node.keys], len(kinds))
        exists = kinds != DELETE
        values = {
            n: c.filter(pa.array(exists)) for n, c in rows.items() if n not in self._node.keys
        }
        self._current.write(slots[exists], values)
        self._current.mark(slots[exists])
        self._current.remove(slots[~exists])

    def _failed(self, batch: Batch, rows: dict[str, pa.Array], conflicts: list[int]) -> Batch:
        columns = tuple(rows[n].take(pa.array(conflicts)) for n in self._node.schema.names)
        letters = replace(batch.tick(self._node.schema), columns=columns, num_rows=len(conflicts))
        self._counters["rows_in_error"] += len(conflicts)
        return dead_letters(
            letters,
            place="",
            subject="ON CONFLICT DO ERROR",
            reason=f"a second row of the primary key ({', '.join(self._node.keys)})",
        )


def _by_key(keys: list[bytes]) -> dict[bytes, list[int]]:
    """Groups places by key; keys are in order of their first row."""
    places: dict[bytes, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return places


def _compacted(rows: list[tuple[int, bool, bytes]]) -> list[tuple[int, bool]]:
    """Removes pairs of an addition and a later retraction of the same row: (place, is addition,
    identity), in order."""
    remaining: list[tuple[int, bool, bytes]] = []
    for place, added, identity in rows:
        match = (
            next((n for n, (_, a, s) in enumerate(remaining) if s == identity and a), None)
            if not added
            else None
        )
        # A retraction without an earlier addition stays: it may be of the stored row.
        if match is None:
            remaining.append((place, added, identity))
        else:
            del remaining[match]
    return [(place, added) for place, added, _ in remaining]
