"""Lookup joins: FOR SYSTEM_TIME AS OF the processing time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from parser.types import INT, Column, Schema
from planner.logical import JoinKind, LookupJoin
from planner.rewrite import conjunction
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import ERROR_PORT, Context, Output, Stream
from sqlengine.operators.changelog.row_kinds import Kinds, kinds_of, plain, retractions
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.operators.joins.asked import AskedDimension
from sqlengine.operators.joins.mapped import MappedDimension
from sqlengine.operators.joins.rows import (
    MatchedPiece,
    OutputRows,
    PairCondition,
    assemble,
    match_in_pieces,
    null_slots,
)
from sqlengine.state.columns import BoolArray, distinct
from sqlengine.state.keys import batch_keys, encode
from sqlengine.state.rows import COUNT, RowsTable

_ONLY = Column("#only", INT.with_nullable(False))
_NTH = Column("#nth", INT.with_nullable(False))


class _Dimension:
    """The rows of the dimension table, by the lookup columns.

    State: table `table`, lookup key and primary key -> the other columns.
    """

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
        for part in self._parts(batch):
            self._change(part)

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """Splits a batch in which rows come and go again, as where it has several versions of a
        file, into parts in which retractions may be first."""
        retracts = retractions(batch)
        if retracts is not None:
            begins = (np.flatnonzero(retracts[1:] & ~retracts[:-1]) + 1).tolist()
            if begins and self._goes_again(batch, retracts):
                for start, end in pairwise([0, *begins, batch.num_rows]):
                    yield batch.slice(start, end - start)
                return
        yield batch

    def _goes_again(self, batch: Batch, retracts: BoolArray) -> bool:
        """True if a row that the batch adds is not there behind it."""
        names = (*self._keys, *self._unique) if self._replaces else self.schema.names
        rows = _tuples([batch.column(n) for n in names], batch.num_rows)
        added: dict[str, bool] = {}
        for row, goes in zip(map(repr, rows), retracts.tolist(), strict=True):
            if not goes:
                added[row] = True
            elif row in added:
                if not self._replaces:
                    return True
                added[row] = False
        return not all(added.values())

    def _change(self, batch: Batch) -> None:
        retracts = retractions(batch)
        if retracts is not None and self._replaces:
            # Retractions first: an update is -U and +U of one key, and the key must exist
            # afterwards.
            retracted = batch.take(np.flatnonzero(retracts))
            slots = self.rows.find(
                [retracted.column(k) for k in self._keys],
                self._identity(retracted),
                retracted.num_rows,
            )
            self.rows.drop(distinct(slots[slots >= 0]))
        elif retracts is not None:
            self._retract_by_value(batch.take(np.flatnonzero(retracts)))
        batch = batch if retracts is None else batch.take(np.flatnonzero(~retracts))
        values = [batch.column(n) for n in self._rest]
        keys = batch_keys(batch, self._keys)
        self.rows.put(keys, self._identity(batch), values, batch.num_rows)

    def _retract_by_value(self, retracted: Batch) -> None:
        """Removes one equal row for each retraction: without a primary key, rows are identified by
        their values."""
        groups = self.rows.groups(
            [retracted.column(k) for k in self._keys], retracted.num_rows
        ).tolist()
        # By `repr`, since NaN is not equal to itself, and lists are not hashable.
        wanted = [
            tuple(map(repr, row))
            for row in _tuples([retracted.column(n) for n in self._rest], retracted.num_rows)
        ]
        stored: dict[int, dict[tuple[str, ...], list[int]]] = {}
        removed: list[int] = []
        for group, row in zip(groups, wanted, strict=True):
            if group >= 0 and group not in stored:
                stored[group] = self._by_value(self.rows.slots(group))
            slots = stored.get(group, {}).get(row)
            if slots:
                removed.append(slots.pop(0))
        self.rows.drop(np.array(removed, np.int64))

    def _by_value(self, slots: IntArray) -> dict[tuple[str, ...], list[int]]:
        by_value: dict[tuple[str, ...], list[int]] = {}
        rows = _tuples([self.rows.table.array(n, slots) for n in self._rest], len(slots))
        for slot, row in zip(slots.tolist(), rows, strict=True):
            by_value.setdefault(tuple(map(repr, row)), []).append(slot)
        return by_value

    def _identity(self, batch: Batch) -> list[pa.Array]:
        if self._replaces and not self._unique:
            return [pa.array(np.zeros(batch.num_rows, np.int32))]
        return [batch.column(n) for n in self._unique]


def _tuples(columns: list[pa.Array], count: int) -> Iterator[tuple[object, ...]]:
    """Returns rows as Python tuples; also for rows without columns."""
    return zip(*(c.to_pylist() for c in columns), strict=True) if columns else iter([()] * count)


class _EmittedRows:
    """The rows that were emitted for each left row, where the left input has changes.

    A retracted left row retracts exactly these, whatever the dimension table holds now: Flink's
    KeyedLookupJoinWrapper does the same with lookup results. State: table `sent`, all columns of
    the result and a number -> multiplicity.
    """

    def __init__(self, node: LookupJoin) -> None:
        self._schema = node.schema
        self._left = len(node.left.schema)
        self._right_types = [c.type for c in node.schema.columns[self._left :]]
        self._exchange = tuple(f"{n}@" for n in node.keys(0))

    def open(self, context: Context) -> None:
        columns = self._schema.columns
        key = Schema(tuple(Column(f"{c.name}@", c.type) for c in columns[: self._left]))
        identity = Schema((*columns[self._left :], _NTH))
        self._names = (*key.names, *identity.names)
        self.rows = RowsTable(context, "sent", key, identity, Schema(()), self._exchange)

    def put(self, columns: list[pa.Array], by: IntArray) -> None:
        """Records emitted rows; `by` are the numbers of their left rows."""
        right = columns[self._left :]
        self.rows.put(columns[: self._left], [*right, self._numbers(right, by)], [], len(by))

    def take(self, batch: Batch) -> tuple[list[pa.Array], IntArray]:
        """Removes and returns the rows emitted for these left rows, each with the number of its
        left row."""
        rows, slots = self.rows.matches(list(batch.columns), batch.num_rows)
        columns = self.rows.arrays(self._names, slots)
        slots_taken = distinct(
            self.rows.take(columns[: self._left], columns[self._left :], len(slots))
        )
        # -1: never emitted (a retraction without its addition).
        slots_taken = slots_taken[slots_taken >= 0]
        self.rows.drop(slots_taken[self.rows.table.columns[COUNT][slots_taken] == 0])
        return columns[:-1], rows

    def _numbers(self, right: list[pa.Array], by: IntArray) -> pa.Array:
        """Numbers equal rows that one left row was joined to.

        So the multiplicity of a stored row is the number of equal left rows.
        """
        numbers = np.zeros(len(by), np.int32)
        several = np.flatnonzero(np.bincount(by)[by] > 1) if len(by) else by
        if len(several):
            seen = Counter[tuple[int, bytes]]()
            equal = encode(
                self._right_types, [g.take(pa.array(several)) for g in right], len(several)
            )
            for place, row in zip(
                several.tolist(), zip(by[several].tolist(), equal, strict=True), strict=True
            ):
                numbers[place] = seen[row]
                seen[row] += 1
        return pa.array(numbers)


class LookupJoinOperator:
    """Joins left rows (input 0) to the dimension table's rows (input 1) at the moment they arrive.

    As Flink's StreamExecLookupJoin, with the table kept in state. Later changes of the table
    retract nothing; a retracted left row retracts what was emitted for it. (The executor reads the
    table's input first.) A table that is no input of its own is given as `beside`: a file that is
    mapped into memory, of which the input brings names of versions, or one that is asked. The
    watermark is that of the left side. State: that of the table, and `_EmittedRows` where the left
    input has changes. No timers.
    """

    def __init__(
        self, node: LookupJoin, beside: MappedDimension | AskedDimension | None = None
    ) -> None:
        self._node = node
        self._table = _Dimension(node) if beside is None else beside
        self._keys = node.keys(0)
        self._strict = [i for i, e in enumerate(node.equalities) if not e.null_safe]
        residual = node.conditions[1]
        self._residual = PairCondition(node, conjunction(residual)) if residual else None
        self._emitted = _EmittedRows(node) if node.left.changes else None

    def open(self, context: Context) -> None:
        self._table.open(context)
        self._counters = context.counters
        if self._emitted is not None:
            self._emitted.open(context)
        if self._residual is not None:
            self._residual.open(context)

    def process(self, port: int, batch: Batch) -> Stream:
        if port == 1:
            if batch.num_rows:
                self._table.change(batch)
        elif batch.num_rows:
            # Additions and retractions in order: a retraction may be of a row added in the same
            # batch.
            for part, retracts in _runs(batch) if self._emitted is not None else [(batch, False)]:
                yield from self._retract(part) if retracts else self._join(part)
        else:
            yield 0, batch.tick(self._node.schema)

    def close(self) -> None:
        if isinstance(self._table, AskedDimension):
            self._table.close()

    def _join(self, batch: Batch) -> Stream:
        for piece in match_in_pieces(batch, self._keys, self._strict, self._table.rows):
            letters: Output = []
            if isinstance(self._table, AskedDimension):
                letters += [(ERROR_PORT, b) for b in self._table.letters()]
                piece = self._without_problems(self._table, piece, letters)
            yield from self._join_piece(piece, letters)

    def _without_problems(
        self, table: AskedDimension, piece: MatchedPiece, output: Output
    ) -> MatchedPiece:
        """Returns the rows of the batch that are known; the others go to `output`."""
        batch, rows, slots = piece.batch, piece.rows, piece.slots
        bad = slots < -1
        if not bad.any():
            return piece
        self._counters["rows_in_error"] += int(bad.sum())
        unasked = f"table '{table.name}' cannot be asked for the rows of this one"
        letters = dead_letters(
            replace(batch, kinds=None, row_watermarks=None).take(rows[bad]),
            place="",
            subject=f"table '{table.name}'",
            reason=[f"{unasked}: {table.problem(s)}" for s in slots[bad]],
        )
        output.append((ERROR_PORT, letters))
        good = np.setdiff1d(np.arange(batch.num_rows), rows[bad])
        rows, slots = np.searchsorted(good, rows[~bad]), slots[~bad]
        return MatchedPiece(batch.take(good), rows, slots)

    def _join_piece(self, piece: MatchedPiece, output: Output) -> Output:
        batch, rows, slots = piece.batch, piece.rows, piece.slots
        if self._residual is not None and len(rows):
            holds = self._residual.holds(0, batch, rows, self._table, slots, output)
            rows, slots = rows[holds], slots[holds]
        left_only = self._node.kind.is_semi
        columns, by, kinds = assemble(
            0, batch, self._table, self._outputs(batch, rows, slots), left_only=left_only
        )
        if self._emitted is not None:
            self._emitted.put(columns, by)
        return [*output, self._result(batch, columns, by, kinds)]

    def _outputs(self, batch: Batch, rows: IntArray, slots: IntArray) -> list[OutputRows]:
        """Returns the rows that come out, where `rows` of the batch match these slots."""
        kind, kinds = self._node.kind, kinds_of(batch)
        alone = np.ones(batch.num_rows, np.bool_)
        alone[rows] = False
        if kind.is_semi:
            chosen = np.flatnonzero(alone if kind is JoinKind.ANTI else ~alone)
            return [OutputRows(chosen, 1, chosen, null_slots(chosen), kinds[chosen])]
        outputs = [OutputRows(rows, 1, rows, slots, kinds[rows])]
        if kind.keeps(0) and alone.any():
            chosen = np.flatnonzero(alone)
            outputs.append(OutputRows(chosen, 1, chosen, null_slots(chosen), kinds[chosen]))
        return outputs

    def _retract(self, batch: Batch) -> Output:
        assert self._emitted is not None
        columns, by = self._emitted.take(batch)
        return [self._result(batch, columns, by, kinds_of(batch)[by])]

    def _result(
        self, batch: Batch, columns: list[pa.Array], by: IntArray, kinds: Kinds
    ) -> tuple[int, Batch]:
        result = batch.result(self._node.schema, columns, len(by))
        watermarks = None if batch.row_watermarks is None else batch.row_watermarks[by]
        return 0, replace(result, kinds=plain(kinds), row_watermarks=watermarks)


def _runs(batch: Batch) -> Iterator[tuple[Batch, bool]]:
    """Splits a batch into consecutive rows that are all additions or all retractions."""
    retracts = retractions(batch)
    if retracts is None:
        yield batch, False
        return
    ends = [*(np.flatnonzero(np.diff(retracts)) + 1).tolist(), batch.num_rows]
    for start, end in zip([0, *ends], ends, strict=False):
        yield batch.slice(start, end - start), bool(retracts[start])
