"""Which values of a group have been seen: what DISTINCT calls over groups without an end count
by."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Root, Schema
from planner.logical import AggregateCall
from sqlengine.batch import IntArray
from sqlengine.operators.base import Context
from sqlengine.state.columns import BoolArray
from sqlengine.state.table import KeyedTable

_GROUP, _VALUE, _COUNT = "#group", "#value", "#count"
_NUMBER = BIGINT.with_nullable(False)
_SUFFIX = " DISTINCT"
# Encoding a dictionary of floats may bring the two zeros together, which differ here.
_APART = (Root.FLOAT, Root.DOUBLE)


def plain_function(call: AggregateCall) -> str | None:
    """The function that counts the values, for a DISTINCT call whose values can stand in a table;
    None for others."""
    kind = call.argument_type
    if not call.function.endswith(_SUFFIX) or kind is None or kind.root in _APART or kind.children:
        return None
    return call.function.removesuffix(_SUFFIX)


class DistinctValues:
    """One table: a group, by its identity in the table `groups`, and a value -> how often the value
    is there. So a checkpoint writes what has changed, and not all values of each group that a row
    touched."""

    def __init__(
        self, context: Context, name: str, groups: KeyedTable, call: AggregateCall
    ) -> None:
        assert call.argument_type is not None
        self._groups = groups
        columns = Schema((Column(_GROUP, _NUMBER), Column(_VALUE, call.argument_type.plain)))
        self._table: KeyedTable = context.table(
            name, columns, Schema((Column(_COUNT, _NUMBER),)), ()
        )

    def turn(self, groups: IntArray, values: pa.Array, rows: BoolArray, sign: int) -> BoolArray:
        """Of the chosen rows those with which a value comes to their group (`sign` 1) or leaves it
        (-1). `groups` are the slots of the rows' groups; NULL is a value, too, which most functions
        leave out."""
        turned = np.zeros(len(groups), np.bool_)
        at = np.flatnonzero(rows)
        if not len(at):
            return turned
        encoded = values.take(pa.array(at)).dictionary_encode("encode")
        codes = encoded.indices.to_numpy().astype(np.int64)
        pairs, first, counts = np.unique(
            groups[at] * len(encoded.dictionary) + codes, return_index=True, return_counts=True
        )
        chosen = at[first]
        identity, buckets = self._groups.identities(groups[chosen])
        keys = [pa.array(identity), values.take(pa.array(chosen))]
        slots, _ = self._table.slots_for(keys, len(pairs), buckets=buckets)
        held = self._table.columns[_COUNT]
        before = held[slots].astype(np.int64)
        after = before + sign * counts
        held[slots] = after
        self._table.mark(slots)
        turned[at[first]] = (before > 0) != (after > 0)
        self._table.remove(slots[after == 0])
        return turned
