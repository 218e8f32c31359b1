"""The values that DISTINCT calls have seen, for groups without an end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, DataType, Root, Schema
from planner.logical import AggregateCall
from sqlengine.batch import IntArray
from sqlengine.operators.base import Context
from sqlengine.state.columns import BoolArray
from sqlengine.state.references import REFERENCE
from sqlengine.state.table import KeyedTable

_VALUE, _COUNT = "#value", "#count"
_NUMBER = BIGINT.with_nullable(False)
_SUFFIX = " DISTINCT"
# Dictionary encoding of floats may unify the two zeros, which are distinct values here.
_APART = (Root.FLOAT, Root.DOUBLE)


def plain_function(call: AggregateCall) -> str | None:
    """Returns the function without DISTINCT, for a call whose values can be kept in a table; None
    for others."""
    kind = call.argument_type
    if not call.function.endswith(_SUFFIX) or kind is None or kind.root in _APART or kind.children:
        return None
    return call.function.removesuffix(_SUFFIX)


@dataclass(frozen=True)
class Pairs:
    """The distinct pairs of a group and a value among the rows of a batch: the slot of each in the
    table, and the number of each row's pair, -1 for rows without one."""

    slots: IntArray
    of_row: IntArray


class DistinctValues:
    """Counts the values of each group, for several calls over one argument, in a table of its own.

    State: table `name`, identity of the group's row in `groups` and value -> for each call the
    number of rows with that value. So a checkpoint writes the values that changed, not all values
    of each group that was touched.
    """

    def __init__(
        self, context: Context, name: str, groups: KeyedTable, argument: DataType, calls: int
    ) -> None:
        self._groups = groups
        columns = Schema((Column(REFERENCE, _NUMBER), Column(_VALUE, argument.plain)))
        self._counts = [f"{_COUNT} {n}" if n else _COUNT for n in range(calls)]
        counts = Schema(tuple(Column(name, _NUMBER) for name in self._counts))
        self._table: KeyedTable = context.table(name, columns, counts, ())

    def find(self, groups: IntArray, values: pa.Array, rows: BoolArray) -> Pairs:
        """Finds the values of a batch, and adds those that are new, until `forget`.

        `groups` are the slots of the rows' groups, `rows` selects the rows with a value that counts
        for any call. NULL is a value too; most functions skip it later.
        """
        at, of_row = np.flatnonzero(rows), np.full(len(groups), -1)
        if not len(at):
            return Pairs(at, of_row)
        encoded = values.take(pa.array(at)).dictionary_encode("encode")
        codes = encoded.indices.to_numpy().astype(np.int64)
        pairs, first, of_row[at] = np.unique(
            groups[at] * len(encoded.dictionary) + codes, return_index=True, return_inverse=True
        )
        chosen = at[first]
        # In the bucket of its group, so that both go to the same subtask when state is split.
        identity, buckets = self._groups.identities(groups[chosen])
        keys = [pa.array(identity), values.take(pa.array(chosen))]
        slots, _ = self._table.slots_for(keys, len(pairs), buckets=buckets)
        return Pairs(slots, of_row)

    def change_counts(self, pairs: Pairs, call: int, rows: BoolArray, sign: int) -> BoolArray:
        """Counts the values of some rows for one of the calls. Returns True at rows with which a
        value appears in its group (`sign` 1) or disappears from it (-1)."""
        turned, at = np.zeros(len(rows), np.bool_), np.flatnonzero(rows)
        of_row = pairs.of_row[at]
        # One change for each pair: a value whose count goes from 0 to 3 appears once, at its first
        # row. Written backwards, the first is what stays.
        first = np.zeros(len(pairs.slots), np.int64)
        first[of_row[::-1]] = at[::-1]
        counts = np.bincount(of_row, minlength=len(pairs.slots))
        changed = np.flatnonzero(counts)
        slots, column = pairs.slots[changed], self._table.columns[self._counts[call]]
        before = column[slots].astype(np.int64)
        after = before + sign * counts[changed]
        column[slots] = after
        turned[first[changed]] = (before > 0) != (after > 0)
        return turned

    def forget(self, pairs: Pairs) -> None:
        """Ends the changes of a batch: a value that is gone leaves no row behind."""
        self._table.mark(pairs.slots)
        columns = (self._table.columns[name][pairs.slots] for name in self._counts)
        self._table.remove(pairs.slots[~np.logical_or.reduce([c != 0 for c in columns])])
