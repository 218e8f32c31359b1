"""The values that DISTINCT calls have seen, for groups without an end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Root, Schema
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


class DistinctValues:
    """Counts the values of each group in a table of its own.

    State: table `name`, identity of the group's row in `groups` and value -> number of rows with
    that value. So a checkpoint writes the values that changed, not all values of each group that
    was touched.
    """

    def __init__(
        self, context: Context, name: str, groups: KeyedTable, call: AggregateCall
    ) -> None:
        assert call.argument_type is not None
        self._groups = groups
        columns = Schema((Column(REFERENCE, _NUMBER), Column(_VALUE, call.argument_type.plain)))
        self._table: KeyedTable = context.table(
            name, columns, Schema((Column(_COUNT, _NUMBER),)), ()
        )

    def change_counts(
        self, groups: IntArray, values: pa.Array, rows: BoolArray, sign: int
    ) -> BoolArray:
        """Returns True at rows with which a value appears in its group (`sign` 1) or disappears
        from it (-1).

        `groups` are the slots of the rows' groups, `rows` selects the rows to count. NULL is a
        value too; most functions skip it later.
        """
        turned = np.zeros(len(groups), np.bool_)
        at = np.flatnonzero(rows)
        if not len(at):
            return turned
        encoded = values.take(pa.array(at)).dictionary_encode("encode")
        codes = encoded.indices.to_numpy().astype(np.int64)
        # One change for each distinct (group, value) of the batch: a value whose count goes from 0
        # to 3 appears once, at its first row.
        pairs, first, counts = np.unique(
            groups[at] * len(encoded.dictionary) + codes, return_index=True, return_counts=True
        )
        chosen = at[first]
        # In the bucket of its group, so that both go to the same subtask when state is split.
        identity, buckets = self._groups.identities(groups[chosen])
        keys = [pa.array(identity), values.take(pa.array(chosen))]
        slots, _ = self._table.slots_for(keys, len(pairs), buckets=buckets)
        value_counts = self._table.columns[_COUNT]
        before = value_counts[slots].astype(np.int64)
        after = before + sign * counts
        value_counts[slots] = after
        self._table.mark(slots)
        turned[at[first]] = (before > 0) != (after > 0)
        # After `turned` is known: a value that is gone leaves no row behind.
        self._table.remove(slots[after == 0])
        return turned
