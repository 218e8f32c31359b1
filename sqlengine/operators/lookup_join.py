"""Look-ups: rows that come meet what a table holds then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import INT, Column, Schema
from planner.logical import LookupJoin
from planner.rewrite import conjunction
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog import kinds_of, plain, takes_back
from sqlengine.operators.join_rows import PairCondition, Told, assembled, keys_of, none_like
from sqlengine.state.rows import RowsTable

_ONLY = Column("#only", INT.with_nullable(False))


class _Dimension:
    """The rows of the table, by the columns that are looked up."""

    def __init__(self, node: LookupJoin) -> None:
        self.schema = node.right.schema
        self._keys = node.keys(1)
        self._unique = tuple(n for n in node.primary_key if n not in self._keys)
        self._replaces = bool(node.primary_key)
        self._rest = tuple(n for n in self.schema.names if n not in (*self._keys, *self._unique))

    def open(self, context: Context) -> None:
        key = Schema(tuple(Column(f"{n}@{i}", self.schema.type(n)) for i, n in enumerate(self._keys)))
        identity = self.schema.select(self._unique)
        if self._replaces and not self._unique:
            identity = Schema((_ONLY,))
        self.rows = RowsTable(context, "table", key, identity, self.schema.select(self._rest), key.names)

    def column(self, name: str, slots: IntArray) -> pa.Array:
        stored = f"{name}@{self._keys.index(name)}" if name in self._keys else name
        return self.rows.table.array(stored, slots)

    def change(self, batch: Batch) -> None:
        back = takes_back(batch)
        if back is not None and self._replaces:
            gone = batch.take(np.flatnonzero(back))
            found = self.rows.find([gone.column(k) for k in self._keys], self._identity(gone), gone.num_rows)
            self.rows.drop(np.unique(found[found >= 0]))
        batch = batch if back is None else batch.take(np.flatnonzero(~back))
        values = [batch.column(n) for n in self._rest]
        self.rows.put([batch.column(k) for k in self._keys], self._identity(batch), values, batch.num_rows)

    def _identity(self, batch: Batch) -> list[pa.Array]:
        if self._replaces and not self._unique:
            return [pa.array(np.zeros(batch.num_rows, np.int32))]
        return [batch.column(n) for n in self._unique]


class LookupJoinOperator:
    """What the table holds when a left row comes counts: nothing is taken back when the table changes. (Who feeds it reads
    the table first.) Time is that of the left side."""

    def __init__(self, node: LookupJoin, owner: str = "") -> None:
        self._node = node
        self._table = _Dimension(node)
        self._keys = node.keys(0)
        self._strict = [i for i, e in enumerate(node.equalities) if not e.null_safe]
        residual = node.conditions[1]
        self._residual = PairCondition(node, conjunction(residual), owner) if residual else None

    def open(self, context: Context) -> None:
        self._table.open(context)
        if self._residual is not None:
            self._residual.open(context)

    def process(self, port: int, batch: Batch) -> Output:
        output: Output = []
        if port == 1:
            if batch.num_rows:
                self._table.change(batch)
        elif batch.num_rows:
            self._meet(batch, output)
        else:
            output.append((0, batch.tick(self._node.schema)))
        return output

    def close(self) -> None: ...

    def _meet(self, batch: Batch, output: Output) -> None:
        keys, numbers = keys_of(batch, self._keys, self._strict)
        rows, slots = self._table.rows.matches(keys, len(numbers))
        rows = numbers[rows]
        if self._residual is not None and len(rows):
            holds = self._residual.holds(0, batch, rows, self._table, slots, output)
            rows, slots = rows[holds], slots[holds]
        kinds = kinds_of(batch)
        told = [Told(rows, 1, rows, slots, kinds[rows])]
        if self._node.kind.keeps(0):
            alone = np.setdiff1d(np.arange(batch.num_rows), rows)
            told.append(Told(alone, 1, alone, none_like(alone), kinds[alone]))
        columns, by, kinds = assembled(0, batch, self._table, told)
        made = Batch(self._node.schema, tuple(columns), len(by), batch.proctime, batch.watermark, seed=batch.seed)
        times = None if batch.row_watermarks is None else batch.row_watermarks[by]
        output.append((0, replace(made, kinds=plain(kinds), row_watermarks=times)))
