"""One row for each primary key: the first that comes, where a second one is left out or is an
error."""

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
from sqlengine.state.keys import encode
from sqlengine.state.table import KeyedTable

_NUMBER, _KIND, _STAMP = "#number", "#kind", "#stamp"
_WHOLE = BIGINT.with_nullable(False)


@dataclass
class _Row:
    """One row: its place among those looked at, what tells it apart, and the slot where it is
    held."""

    place: int
    same: bytes
    slot: int


class ResolveConflictsOperator:
    """Rows wait until the watermark has passed what it was when they came. Then, key by key, those
    that came and went cancel out, and of what is left the first is there until it goes."""

    def __init__(self, node: UpsertMaterialize, owner: str = "") -> None:
        self._node = node
        self._owner = owner
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
        self._there: KeyedTable = context.table("rows", key, values, key.names)

    def process(self, port: int, batch: Batch) -> Output:
        if batch.num_rows:
            self._wait(batch)
        upto = batch.watermark if batch.watermark == MAX_WATERMARK else batch.watermark - 1
        due = self._waiting.due(_STAMP, upto)
        output: Output = []
        result = self._settle(batch, due, output) if len(due) else None
        return [*output, (0, result or batch.tick(self._node.schema))]

    def close(self) -> None: ...

    def _wait(self, batch: Batch) -> None:
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

    def _settle(self, batch: Batch, due: IntArray, output: Output) -> Batch | None:
        """Works through the rows that are due; what the table behind is told of them."""
        due = due[np.argsort(self._waiting.columns[_NUMBER][due], kind="stable")]
        keys = self._waiting.key_arrays(due)[:-1]
        there, _ = self._there.slots_for(keys, len(due), insert=False)
        held = np.unique(there[there >= 0])
        rows = {
            c.name: pa.concat_arrays(
                [self._waiting.array(c.name, due), self._there.array(c.name, held)]
            )
            for c in self._node.schema
        }
        count = len(due) + len(held)
        key, same = (
            self._encoded(rows, names, count) for names in (self._node.keys, tuple(self._identity))
        )
        current = {
            key[p]: _Row(p, same[p], int(s))
            for p, s in zip(range(len(due), count), held, strict=True)
        }
        kinds = self._waiting.columns[_KIND][due].tolist()
        told: list[tuple[np.int8, int]] = []
        bad: list[int] = []
        for name, places in _by_key(key[: len(due)]).items():
            left = _compacted(
                [(p, kinds[p] not in (UPDATE_BEFORE, DELETE), same[p]) for p in places]
            )
            told += self._resolve(current.get(name), left, same, bad)
        self._waiting.remove(due)
        if bad:
            output.append((ERROR_PORT, self._failed(batch, rows, bad)))
        return self._told(batch, rows, told)

    def _encoded(
        self, rows: dict[str, pa.Array], names: tuple[str, ...], count: int
    ) -> list[bytes]:
        return encode([self._node.schema.type(n) for n in names], [rows[n] for n in names], count)

    def _resolve(
        self, current: _Row | None, left: list[tuple[int, bool]], same: list[bytes], bad: list[int]
    ) -> Iterator[tuple[np.int8, int]]:
        """What becomes of one key: the kind and the place of the row to tell, if any."""
        row = None if current is None else (current.place, current.same)
        for place, added in left:
            if not added:
                row = None if row is not None and row[1] == same[place] else row
            elif row is None or row[1] == same[place]:
                row = (place, same[place])
            elif self._node.conflict == "ERROR":
                bad.append(place)
        if row is None and current is not None:
            yield DELETE, current.place
        elif row is not None and (current is None or row[0] != current.place):
            yield (INSERT if current is None else UPDATE_AFTER), row[0]

    def _told(
        self, batch: Batch, rows: dict[str, pa.Array], told: list[tuple[np.int8, int]]
    ) -> Batch | None:
        if not told:
            return None
        told.sort(key=lambda t: t[1])
        kinds, places = np.array([k for k, _ in told], np.int8), np.array([p for _, p in told])
        taken = {name: column.take(pa.array(places)) for name, column in rows.items()}
        self._keep(taken, kinds)
        columns = tuple(taken[n] for n in self._node.schema.names)
        return replace(
            batch.tick(self._node.schema),
            columns=columns,
            num_rows=len(places),
            kinds=plain(kinds),
            seed=batch.seed,
        )

    def _keep(
        self, rows: dict[str, pa.Array], kinds: np.ndarray[tuple[int], np.dtype[np.int8]]
    ) -> None:
        """Writes what is there now."""
        slots, _ = self._there.slots_for([rows[k] for k in self._node.keys], len(kinds))
        stays = kinds != DELETE
        values = {n: c.filter(pa.array(stays)) for n, c in rows.items() if n not in self._node.keys}
        self._there.write(slots[stays], values)
        self._there.mark(slots[stays])
        self._there.remove(slots[~stays])

    def _failed(self, batch: Batch, rows: dict[str, pa.Array], bad: list[int]) -> Batch:
        columns = tuple(rows[n].take(pa.array(bad)) for n in self._node.schema.names)
        letters = replace(batch.tick(self._node.schema), columns=columns, num_rows=len(bad))
        self._counters["rows_in_error"] += len(bad)
        return dead_letters(
            letters,
            owner=self._owner,
            place="",
            subject="ON CONFLICT DO ERROR",
            reason=f"a second row of the primary key ({', '.join(self._node.keys)})",
        )


def _by_key(keys: list[bytes]) -> dict[bytes, list[int]]:
    """The places of each key, keys in the order in which they come first."""
    found: dict[bytes, list[int]] = {}
    for place, key in enumerate(keys):
        found.setdefault(key, []).append(place)
    return found


def _compacted(rows: list[tuple[int, bool, bytes]]) -> list[tuple[int, bool]]:
    """Without the rows that came and went (place, whether it comes, what tells it apart), in
    order."""
    left: list[tuple[int, bool, bytes]] = []
    for place, added, same in rows:
        match = (
            next((n for n, (_, a, s) in enumerate(left) if s == same and a), None)
            if not added
            else None
        )
        if match is None:
            left.append((place, added, same))
        else:
            del left[match]
    return [(place, added) for place, added, _ in left]
