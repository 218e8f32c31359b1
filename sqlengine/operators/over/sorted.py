"""OVER in an order that is no time: a row may come between others, and changes what those behind it
have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.logical import Over
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog.row_kinds import (
    DELETE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Kinds,
    differ,
    first_seen,
    kinds_of,
    plain,
    takes_back,
)
from sqlengine.operators.over.compared import Change, Compared
from sqlengine.operators.over.folds import Folds
from sqlengine.operators.over.runs import OverRuns
from sqlengine.operators.ranks.ordering import sorting
from sqlengine.state.columns import BoolArray
from sqlengine.state.equal_rows import EqualRows
from sqlengine.state.rows import COUNT, RowsTable


class OverSortedOperator:
    """For each batch and the partitions that it touches: -D for rows that are gone, then, in order,
    the rows that came with the kind with which they came, and -U and +U for the other rows whose
    values have changed. All rows are state."""

    def __init__(self, node: Over) -> None:
        self._node = node
        self._names = node.input.schema.names
        self._rest = tuple(n for n in self._names if n not in node.partition)
        self._grows = not node.input.changes

    def open(self, context: Context) -> None:
        self._counters = context.counters
        schema = self._node.input.schema
        rest, nothing = schema.select(self._rest), Schema(())
        identity, values = (nothing, rest) if self._grows else (rest, nothing)
        key = schema.select(self._node.partition)
        by = sorting(self._node.order)
        # Where no key tells rows apart, equal ones are several, each with the place at which it
        # came.
        form = (
            EqualRows
            if self._node.input.changes and not self._node.input.upsert_keys
            else RowsTable
        )
        self._rows = form(context, "rows", key, identity, values, self._node.partition, by)
        self._runs = OverRuns(
            self._rows, Folds(self._node.calls, by_peers=not self._node.frame.is_rows)
        )

    def process(self, port: int, batch: Batch) -> Output:
        result = self._change(batch) if batch.num_rows else None
        return [(0, result or batch.tick(self._node.schema))]

    def close(self) -> None: ...

    def _change(self, batch: Batch) -> Batch | None:
        key = [batch.column(n) for n in self._node.partition]
        came, change = self._apply(batch, key)
        groups = self._rows.groups(key, batch.num_rows)
        compared = self._runs.compared(first_seen(groups[groups >= 0]).tolist(), change)
        result = self._tell(batch, compared, came)
        gone: IntArray = change.slots[self._rows.table.columns[COUNT][change.slots] == 0]
        self._runs.forget(gone)
        self._rows.drop(gone)
        return result

    def _apply(self, batch: Batch, key: list[pa.Array]) -> tuple[dict[int, np.int8], Change]:
        """Takes the rows into the state: the kinds of those that came by slot, and what has
        changed."""
        rest = [batch.column(n) for n in self._rest]
        back, kinds = takes_back(batch), kinds_of(batch)
        if back is None:
            into = ([], rest) if self._grows else (rest, [])
            slots, _ = self._rows.put(key, *into, batch.num_rows)
            return dict(zip(slots.tolist(), kinds, strict=True)), _change_of(
                slots, np.empty(0, np.int64)
            )
        come = pa.array(~back)
        slots, _ = self._rows.put(
            [c.filter(come) for c in key], [c.filter(come) for c in rest], [], int((~back).sum())
        )
        away = pa.array(back)
        taken = self._rows.take(
            [c.filter(away) for c in key], [c.filter(away) for c in rest], int(back.sum())
        )
        self._counters["rows_without_key"] += int((taken < 0).sum())
        return dict(zip(slots.tolist(), kinds[~back], strict=True)), _change_of(
            slots, taken[taken >= 0]
        )

    def _tell(self, batch: Batch, compared: Compared, came: dict[int, np.int8]) -> Batch | None:
        """The rows that say what has changed. Equal rows are told apart by how many of them came
        before."""
        rows = compared.rows
        old, before = _numbered(rows.was)
        new, number = _numbered(rows.now)
        gone = np.flatnonzero(before >= rows.now[old])
        comes = number >= rows.was[new]
        was = (np.cumsum(rows.was) - rows.was)[
            new
        ] + number  # where the same row was, if it was there
        stays = np.flatnonzero(~comes)
        times = np.where(comes, 1, 0)
        times[stays] = 2 * self._changed(compared, was[stays], stays)
        told = np.repeat(np.arange(len(new)), times)
        first = np.cumsum(times) - times
        kinds = np.full(len(told), UPDATE_AFTER)
        kinds[first[comes]] = [came[s] for s in rows.slots[new[comes]].tolist()]
        which = len(old) + told
        pairs = first[times == 2]
        kinds[pairs], kinds[pairs + 1], which[pairs] = UPDATE_BEFORE, UPDATE_AFTER, was[times == 2]
        kinds = np.concatenate([np.full(len(gone), DELETE), kinds])
        slots = rows.slots[np.concatenate([old[gone], new[told]])]
        return (
            self._rows_of(batch, compared, slots, np.concatenate([gone, which]), kinds)
            if len(kinds)
            else None
        )

    def _changed(self, compared: Compared, was: IntArray, now: IntArray) -> BoolArray:
        old = [c.take(pa.array(was)) for c in compared.old]
        new = [c.take(pa.array(now)) for c in compared.new]
        return differ(old, new, len(now))

    def _rows_of(
        self, batch: Batch, compared: Compared, slots: IntArray, which: IntArray, kinds: Kinds
    ) -> Batch:
        """`which`: rows of the old values, then of the new ones."""
        calls, index = len(self._node.calls), pa.array(which)
        sides = zip(compared.old[:calls], compared.new[:calls], strict=True)
        columns = (
            *self._rows.arrays(self._names, slots),
            *(pa.concat_arrays([a, b]).take(index) for a, b in sides),
        )
        tick = batch.tick(self._node.schema)
        return replace(tick, columns=columns, num_rows=len(kinds), kinds=plain(kinds))


def _change_of(came: IntArray, went: IntArray) -> Change:
    slots, at = np.unique(np.concatenate([came, went]), return_inverse=True)
    more = np.bincount(
        at, np.append(np.ones(len(came)), np.full(len(went), -1)), len(slots)
    ).astype(np.int64)
    return Change(slots, more)


def _numbered(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Each row as often as it is counted, and how many of it came before."""
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
