"""Look-ups: rows that come meet what a table holds then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import INT, Column, Schema
from planner.logical import LookupJoin
from planner.rewrite import conjunction
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output, Stream
from sqlengine.operators.changelog.row_kinds import Kinds, kinds_of, plain, takes_back
from sqlengine.operators.joins.rows import (
    MatchedPiece,
    OutputRows,
    PairCondition,
    assemble,
    match_in_pieces,
    null_slots,
)
from sqlengine.state.keys import encode
from sqlengine.state.rows import COUNT, RowsTable

_ONLY = Column("#only", INT.with_nullable(False))
_NTH = Column("#nth", INT.with_nullable(False))


class _Dimension:
    """The rows of the table, by the columns that are looked up."""

    def __init__(self, node: LookupJoin) -> None:
        self.schema = node.right.schema
        self._keys = node.keys(1)
        self._unique = tuple(n for n in node.primary_key if n not in self._keys)
        self._replaces = bool(node.primary_key)
        self._rest = tuple(n for n in self.schema.names if n not in (*self._keys, *self._unique))

    def open(self, context: Context) -> None:
        key = Schema(
            tuple(Column(f"{n}@{i}", self.schema.type(n)) for i, n in enumerate(self._keys))
        )
        identity = self.schema.select(self._unique)
        if self._replaces and not self._unique:
            identity = Schema((_ONLY,))
        self.rows = RowsTable(
            context, "table", key, identity, self.schema.select(self._rest), key.names
        )

    def column(self, name: str, slots: IntArray) -> pa.Array:
        stored = f"{name}@{self._keys.index(name)}" if name in self._keys else name
        return self.rows.table.array(stored, slots)

    def change(self, batch: Batch) -> None:
        back = takes_back(batch)
        if back is not None and self._replaces:
            gone = batch.take(np.flatnonzero(back))
            found = self.rows.find(
                [gone.column(k) for k in self._keys], self._identity(gone), gone.num_rows
            )
            self.rows.drop(np.unique(found[found >= 0]))
        elif back is not None:
            self._forget(batch.take(np.flatnonzero(back)))
        batch = batch if back is None else batch.take(np.flatnonzero(~back))
        values = [batch.column(n) for n in self._rest]
        self.rows.put(
            [batch.column(k) for k in self._keys], self._identity(batch), values, batch.num_rows
        )

    def _forget(self, gone: Batch) -> None:
        """One row that is equal, for each of these: without a primary key rows have nothing else
        that tells them apart."""
        groups = self.rows.groups([gone.column(k) for k in self._keys], gone.num_rows).tolist()
        wanted = [
            tuple(map(repr, row))
            for row in _tuples([gone.column(n) for n in self._rest], gone.num_rows)
        ]
        held: dict[int, dict[tuple[str, ...], list[int]]] = {}
        found: list[int] = []
        for group, row in zip(groups, wanted, strict=True):
            if group >= 0 and group not in held:
                held[group] = self._by_value(self.rows.slots(group))
            slots = held.get(group, {}).get(row)
            if slots:
                found.append(slots.pop(0))
        self.rows.drop(np.array(found, np.int64))

    def _by_value(self, slots: IntArray) -> dict[tuple[str, ...], list[int]]:
        found: dict[tuple[str, ...], list[int]] = {}
        rows = _tuples([self.rows.table.array(n, slots) for n in self._rest], len(slots))
        for slot, row in zip(slots.tolist(), rows, strict=True):
            found.setdefault(tuple(map(repr, row)), []).append(slot)
        return found

    def _identity(self, batch: Batch) -> list[pa.Array]:
        if self._replaces and not self._unique:
            return [pa.array(np.zeros(batch.num_rows, np.int32))]
        return [batch.column(n) for n in self._unique]


def _tuples(columns: list[pa.Array], count: int) -> Iterator[tuple[object, ...]]:
    """Rows as Python values; also without any column."""
    return zip(*(c.to_pylist() for c in columns), strict=True) if columns else iter([()] * count)


class _Sent:
    """What has been given for the left rows that are there: a left row that is taken back takes
    that back, whatever the table holds now."""

    def __init__(self, node: LookupJoin) -> None:
        self._schema = node.schema
        self._left = len(node.left.schema)
        self._given = [c.type for c in node.schema.columns[self._left :]]
        self._exchange = tuple(f"{n}@" for n in node.keys(0))

    def open(self, context: Context) -> None:
        columns = self._schema.columns
        key = Schema(tuple(Column(f"{c.name}@", c.type) for c in columns[: self._left]))
        identity = Schema((*columns[self._left :], _NTH))
        self._names = (*key.names, *identity.names)
        self.rows = RowsTable(context, "sent", key, identity, Schema(()), self._exchange)

    def put(self, columns: list[pa.Array], by: IntArray) -> None:
        """Rows that are given, each with the number of its left row."""
        given = columns[self._left :]
        self.rows.put(columns[: self._left], [*given, self._numbers(given, by)], [], len(by))

    def taken(self, batch: Batch) -> tuple[list[pa.Array], IntArray]:
        """The rows that these left rows have been given, each with the number of its left row; they
        are forgotten."""
        rows, slots = self.rows.matches(list(batch.columns), batch.num_rows)
        columns = self.rows.arrays(self._names, slots)
        gone = np.unique(self.rows.take(columns[: self._left], columns[self._left :], len(slots)))
        gone = gone[gone >= 0]
        self.rows.drop(gone[self.rows.table.columns[COUNT][gone] == 0])
        return columns[:-1], rows

    def _numbers(self, given: list[pa.Array], by: IntArray) -> pa.Array:
        """Of equal rows that one left row is given, which one each is: the count of a row is that
        of equal left rows."""
        numbers = np.zeros(len(by), np.int32)
        several = np.flatnonzero(np.bincount(by)[by] > 1) if len(by) else by
        if len(several):
            seen = Counter[tuple[int, bytes]]()
            equal = encode(self._given, [g.take(pa.array(several)) for g in given], len(several))
            for place, row in zip(
                several.tolist(), zip(by[several].tolist(), equal, strict=True), strict=True
            ):
                numbers[place] = seen[row]
                seen[row] += 1
        return pa.array(numbers)


class LookupJoinOperator:
    """What the table holds when a left row comes counts: nothing is taken back when the table
    changes, and what a left row was given goes with it. (Who feeds it reads the table first.) Time
    is that of the left side."""

    def __init__(self, node: LookupJoin, owner: str = "") -> None:
        self._node = node
        self._table = _Dimension(node)
        self._keys = node.keys(0)
        self._strict = [i for i, e in enumerate(node.equalities) if not e.null_safe]
        residual = node.conditions[1]
        self._residual = PairCondition(node, conjunction(residual), owner) if residual else None
        self._sent = _Sent(node) if node.left.changes else None

    def open(self, context: Context) -> None:
        self._table.open(context)
        if self._sent is not None:
            self._sent.open(context)
        if self._residual is not None:
            self._residual.open(context)

    def process(self, port: int, batch: Batch) -> Stream:
        if port == 1:
            if batch.num_rows:
                self._table.change(batch)
        elif batch.num_rows:
            for part, back in _runs(batch) if self._sent is not None else [(batch, False)]:
                yield from self._take_back(part) if back else self._met(part)
        else:
            yield 0, batch.tick(self._node.schema)

    def close(self) -> None: ...

    def _met(self, batch: Batch) -> Stream:
        for piece in match_in_pieces(batch, self._keys, self._strict, self._table.rows):
            yield from self._meet(piece)

    def _meet(self, piece: MatchedPiece) -> Output:
        output: Output = []
        batch, rows, slots = piece.batch, piece.rows, piece.slots
        if self._residual is not None and len(rows):
            holds = self._residual.holds(0, batch, rows, self._table, slots, output)
            rows, slots = rows[holds], slots[holds]
        kinds = kinds_of(batch)
        told = [OutputRows(rows, 1, rows, slots, kinds[rows])]
        if self._node.kind.keeps(0):
            alone = np.setdiff1d(np.arange(batch.num_rows), rows)
            told.append(OutputRows(alone, 1, alone, null_slots(alone), kinds[alone]))
        columns, by, kinds = assemble(0, batch, self._table, told)
        if self._sent is not None:
            self._sent.put(columns, by)
        return [*output, self._told(batch, columns, by, kinds)]

    def _take_back(self, batch: Batch) -> Output:
        assert self._sent is not None
        columns, by = self._sent.taken(batch)
        return [self._told(batch, columns, by, kinds_of(batch)[by])]

    def _told(
        self, batch: Batch, columns: list[pa.Array], by: IntArray, kinds: Kinds
    ) -> tuple[int, Batch]:
        made = batch.result(self._node.schema, columns, len(by))
        times = None if batch.row_watermarks is None else batch.row_watermarks[by]
        return 0, replace(made, kinds=plain(kinds), row_watermarks=times)


def _runs(batch: Batch) -> Iterator[tuple[Batch, bool]]:
    """Consecutive rows that all come, or are all taken back."""
    back = takes_back(batch)
    if back is None:
        yield batch, False
        return
    ends = [*(np.flatnonzero(np.diff(back)) + 1).tolist(), batch.num_rows]
    for start, end in zip([0, *ends], ends, strict=False):
        yield batch.slice(start, end - start), bool(back[start])
