"""Keyed state: several rows per key, in which equal rows each have a place of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from parser.types import Column, Schema
from sqlengine.state.columns import BoolArray, IntArray, Values
from sqlengine.state.keys import Key
from sqlengine.state.rows import ARRIVAL, COUNT, COUNTED, RowsTable, Tables
from sqlengine.state.sort_keys import Sorting
from sqlengine.state.table import KeyedTable


@dataclass(frozen=True)
class _Given:
    """Gives an operator a table that exists already."""

    existing: KeyedTable

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...]
    ) -> KeyedTable:
        return self.existing


class EqualRows(RowsTable):
    """A `RowsTable` whose rows are retracted by value (`content`); of equal rows the first to
    arrive goes first.

    Each row keeps the place in the order that it had at its arrival, where a `RowsTable` has one
    row with a count for all equal ones.
    """

    def __init__(
        self,
        context: Tables,
        name: str,
        key: Schema,
        content: Schema,
        values: Schema,
        exchange: tuple[str, ...],
        order_by: str | Sorting | None = None,
    ) -> None:
        self._content = content
        super().__init__(
            context,
            name,
            key,
            Schema((*content, Column(ARRIVAL, COUNTED))),
            values,
            exchange,
            order_by,
        )

    def put(
        self,
        key: Sequence[Key],
        identity: Sequence[Key],
        values: Sequence[Values],
        num_rows: int,
        sort_keys: Sequence[bytes] | None = None,
    ) -> tuple[IntArray, BoolArray]:
        """Adds rows; all of them are new."""
        self._check()
        numbers = np.arange(self._following, self._following + num_rows)
        self._following += num_rows
        slots, is_new = super().put(key, [*identity, numbers], values, num_rows, sort_keys)
        self._alike.add_to_index(slots)
        return slots, is_new

    def take(self, key: Sequence[Key], identity: Sequence[Key], num_rows: int) -> IntArray:
        """Retracts rows: returns the slot of each, -1 where no such row is left. They stay until
        `drop`."""
        self._check()
        counts = self.table.columns[COUNT]
        copies: dict[int, Iterator[int]] = {}
        slots = np.full(num_rows, -1)
        for i, group in enumerate(self._alike.groups([*key, *identity], num_rows).tolist()):
            if group < 0:
                continue
            if group not in copies:
                copies[group] = (s for s in self._alike.each(group) if counts[s])
            slots[i] = next(copies[group], -1)
        taken = slots[slots >= 0]
        counts[taken] = 0
        self.table.mark(taken)
        return slots

    def remove_from_index(self, slots: IntArray) -> None:
        super().remove_from_index(slots)
        self._alike.remove_from_index(slots)

    def _load(self) -> None:
        super()._load()
        live = self.table.live()
        self._following = 1 + int(self.table.columns[ARRIVAL][live].max(initial=-1))
        key = Schema((*self.key, *self._content))
        self._alike = RowsTable(
            _Given(self.table), self.table.name, key, Schema(()), Schema(()), self.table.exchange
        )
