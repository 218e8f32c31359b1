"""What a query under construction is: its text, its columns, and what is determined about its
rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.data import Column, Table
from tests.fuzz.expressions import Expressions

_TIMED = (
    "window",
    "window",
    "window-rows",
    "legacy-window",
    "over",
    "dedup",
    "interval-join",
    "temporal-join",
    "match",
)
# What only streams have: changes, and rows in the order in which they come; and windows in GROUP
# BY, of which Flink's joins find no rows in batch mode.
STREAMING = ("changes", "by-clock", "dedup", "temporal-join", "legacy-window")


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
    changes: bool = False  # a row that it gave is surely taken back, in Flink's plan, too
    first_of: tuple[int, ...] | None = (
        None  # one row of each value of these columns; see `known.first_rows`
    )


@dataclass
class Making:
    """One query under construction."""

    rng: Random
    tables: Sequence[Table]
    build: Callable[[Making, int, str | None], Relation]
    goals: list[str] = field(default_factory=list)  # operations that inputs to come should be
    pairs: list[tuple[str, str]] = field(default_factory=list)  # what lies directly on what
    below: list[list[str]] = field(
        default_factory=list
    )  # the operations under each one that is not complete
    batch: bool = False  # rows come in no order
    apart: bool = False  # the first input is to have the first of the goals alone
    in_time: bool = False  # no late rows below: they come from several inputs
    timely: bool = False  # the next input is to have a time attribute
    correlated: bool = False  # a subquery reads the query around it
    # for a member of NOT IN, of which Flink makes an aggregate: of no rows it says nothing
    waits: bool = False
    lost_pattern: bool = False  # in a subquery, where Flink does not find the variables of patterns
    null_key: bool = False  # a column with NULLs is a key of some operation
    _names: int = 0

    @property
    def level(self) -> int:
        """1 where an operation is the outermost."""
        return len(self.below) - 1

    @property
    def expressions(self) -> Expressions:
        return Expressions(self.rng)

    def name(self, letter: str = "c") -> str:
        self._names += 1
        return f"{letter}{self._names}x"

    def table(self, timed: bool = False) -> Relation:
        """A table; `timed`: one with a time attribute."""
        plain = [t for t in self.tables if t.form == "json" and not (t.late and self.in_time)]
        fitting = [t for t in plain if t.delay is not None or not timed]
        weights = [1 if t.rows else 0.05 for t in fitting]
        chosen = self.rng.choices(fitting, weights)[0]
        time, known = "ts" if chosen.delay is not None else None, not self.batch
        return Relation(chosen.name, chosen.columns, rowtime=time, ordered=known, exact=known)

    def in_time_table(self) -> Relation:
        """A table with a time attribute and without late rows."""
        before, self.in_time = self.in_time, True
        found = self.table(timed=True)
        self.in_time = before
        return found

    def only(self, form: str) -> Table:
        """The table of this form."""
        return next(t for t in self.tables if t.form == form)

    def input(self, depth: int) -> Relation:
        """What an operation reads: a table, or the result of another one."""
        if self.timely:
            return self.timed(depth)
        if self.goals and self.apart:
            return self._alone(depth)
        if self.goals:
            return self.build(self, depth - 1, self.goals.pop(0))
        if depth <= 0 or self.rng.random() < 0.25:
            return self.table()
        return self.build(self, depth - 1, None)

    def _alone(self, depth: int) -> Relation:
        """The first of the goals; the others are left for the inputs to come."""
        goal, *rest = self.goals
        self.goals, self.apart = [], False
        found = self.build(self, depth - 1, goal)
        self.goals = rest
        return found

    def timed(self, depth: int) -> Relation:
        """An input with a time attribute."""
        name = self.goals.pop(0) if self.goals else None
        if name is None:
            roll = self.rng.random()
            if depth <= 0 or roll < 0.4:
                return self.table(timed=True)
            fitting = [n for n in _TIMED if not (self.batch and n in STREAMING)]
            name = "project" if roll < 0.6 else self.rng.choice(fitting)
        before, self.timely = self.timely, name in ("project", "unnest")
        mark = self.mark()
        found = self.build(self, depth - 1, name)
        self.timely = before
        # Below a window Flink reads only the first input of a union.
        if found.rowtime and not found.updating and found.operator != "union all":
            return found
        return self.instead(mark, timed=True)

    def mark(self) -> tuple[int, int]:
        """Where an input begins, for `instead`."""
        return len(self.pairs), len(self.below[-1])

    def instead(self, mark: tuple[int, int], timed: bool = False) -> Relation:
        """A table in the place of the input made since, which does not fit."""
        self.drop(mark)
        return self.table(timed)

    def drop(self, mark: tuple[int, int]) -> None:
        """Forgets the input made since."""
        del self.pairs[mark[0] :], self.below[-1][mark[1] :]

    def inputs(self, *depths: int, timed: bool = False) -> list[Relation]:
        """Several inputs: without late rows, since rows of two inputs come in any order."""
        before, self.in_time = self.in_time, True
        found = [self.timed(d) if timed else self.input(d) for d in depths]
        self.in_time = before
        return found

    def keys(self, columns: Sequence[Column], least: int = 1, most: int = 3) -> list[Column]:
        """Some of the columns, as keys."""
        found = self.some(columns, least, most)
        self.null_key |= any(c.nulls for c in found)
        return found

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
