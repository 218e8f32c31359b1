"""What a query under construction is: its text, its columns, and what is determined about its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.data import Column, Table
from tests.fuzz.expressions import Expressions


@dataclass(frozen=True)
class Relation:
    """Something behind FROM. `sql` is a table's name or a query in brackets."""

    sql: str
    columns: tuple[Column, ...]
    operator: str = "table"
    rowtime: str | None = None  # the column that is a time attribute
    ordered: bool = True  # only inserts, in an order that the data decide
    exact: bool = True  # its changes come in an order that the data decide
    updating: bool = False
    window: tuple[str, str] | None = None  # the columns that are a window's start and end
    nulls: bool = True


@dataclass
class Making:
    """One query under construction."""

    rng: Random
    tables: Sequence[Table]
    build: Callable[[Making, int], Relation]
    pairs: list[tuple[str, str]] = field(default_factory=list)
    in_time: bool = False  # no late rows below: they come from several inputs
    _names: int = 0

    @property
    def expressions(self) -> Expressions:
        return Expressions(self.rng)

    def name(self, letter: str = "c") -> str:
        self._names += 1
        return f"{letter}{self._names}x"

    def table(self, timed: bool = False) -> Relation:
        """A table; `timed`: one with a time attribute."""
        fitting = [t for t in self.tables if (t.delay is not None or not timed) and not (t.late and self.in_time)]
        weights = [1 if t.rows else 0.15 for t in fitting]
        chosen = self.rng.choices(fitting, weights)[0]
        return Relation(chosen.name, chosen.columns, rowtime="ts" if chosen.delay is not None else None)

    def input(self, depth: int) -> Relation:
        """What an operation reads: a table, or the result of another one."""
        if depth <= 0 or self.rng.random() < 0.25:
            return self.table()
        return self.build(self, depth - 1)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def some(self, columns: Sequence[Column], least: int = 1, most: int = 3) -> list[Column]:
        if not columns:
            return []
        return self.rng.sample(list(columns), min(len(columns), self.rng.randint(least, most)))


def of_kind(columns: Sequence[Column], *kinds: str) -> list[Column]:
    return [c for c in columns if c.kind in kinds]


def named(expression: str, column: Column) -> str:
    return f"{expression} AS {column.name}" if expression != column.name else expression
