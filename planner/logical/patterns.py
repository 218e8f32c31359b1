"""MATCH_RECOGNIZE: matches of a pattern in ordered rows (StreamPhysicalMatch of Flink)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Self

from parser.errors import Position
from parser.types import Column, DataType, Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.node import (
    LogicalPlan,
    Names,
    OneInput,
    Stateful,
    constant_if_insert_only,
    never,
)
from planner.logical.ranks import SortKey
from planner.scalar import Scalar, columns_of


@dataclass(frozen=True)
class PatternItem:
    """A variable of the pattern with its quantifier: `low` to `high` rows (None: any number).

    `greedy`: it takes as many rows as possible. `absent` ([^A]): no row fits the variable until the
    next item takes a row, or WITHIN has passed."""

    variable: str
    low: int = 1
    high: int | None = 1
    greedy: bool = False
    absent: bool = False

    def __str__(self) -> str:
        if self.absent:
            return f"[^{self.variable}]"
        if (self.low, self.high) == (1, 1):
            return self.variable
        high = "" if self.high is None else self.high
        bounds = f"{{{self.low}}}" if self.low == self.high else f"{{{self.low},{high}}}"
        return f"{self.variable}{bounds}{'' if self.greedy or self.low == self.high else '?'}"


class Skip(Enum):
    """AFTER MATCH SKIP: the row at which the next match may begin.

    It is the one after the first or last row of this match, or the first or last row of a
    variable."""

    NEXT = "TO NEXT ROW"
    PAST = "PAST LAST ROW"
    FIRST = "TO FIRST"
    LAST = "TO LAST"


@dataclass(frozen=True)
class PatternValue:
    """A value computed from the rows matched to some variables, by `function`:

    - FIRST, LAST: the value of the input's `column` in the first or last of them, `offset` rows
      after the first or before the last; NULL if there is no such row
    - ROWTIME: MATCH_ROWTIME, the event time at which the match is complete
    - any other: an aggregate of `udf.aggregates.registry` over `column` (None for COUNT(*)), whose
      type is `argument_type`.

    `variables` are names of items: all of the pattern for an unqualified column. `name` is the
    column in which conditions and measures read it."""

    name: str
    function: str
    variables: tuple[str, ...]
    column: str | None
    type: DataType
    offset: int = 0
    argument_type: DataType | None = None

    @property
    def navigates(self) -> bool:
        return self.function in ("FIRST", "LAST")

    @property
    def aggregates(self) -> bool:
        return not self.navigates and self.function != "ROWTIME"

    def __str__(self) -> str:
        arguments = ", ".join(
            (
                *((self.column,) if self.column else ()),
                *((str(self.offset),) if self.offset else ()),
            )
        )
        return f"{self.function}({arguments} of {' '.join(self.variables)}) AS {self.name}"


@dataclass(frozen=True)
class MatchRecognize(OneInput, Stateful):
    """Emits a row for each match of `pattern` in the rows of a `partition`, ordered by `order`.

    The order's first column is a time attribute. Output: the partition's columns, then `measures`.

    `conditions` are those of DEFINE, by variable; a variable without one takes any row. They read
    the current row, whose columns are the input's, and the values of `history`, over the rows that
    the match has so far. For a value over rows of the variable itself, the current row is the last
    of them. `within_ms`: the last row is less than that after the first (0: no limit)."""

    folds = False

    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    pattern: tuple[PatternItem, ...]
    skip: Skip
    target: tuple[str, ...]
    within_ms: int
    conditions: tuple[tuple[str, Scalar], ...]
    history: tuple[PatternValue, ...]
    measures: tuple[PatternValue, ...]
    position: Position | None = field(default=None, compare=False, repr=False)

    def column_sources(self, port: int) -> Mapping[str, str]:
        return {n: n for n in self.partition}

    @property
    def by_event(self) -> bool:
        """True if rows are buffered until the watermark.

        In batch mode they are buffered until the end of input, whatever column orders them."""
        return not self.input.schema.type(self.order[0].column).is_proctime

    @property
    def drops_late(self) -> bool:
        return self.by_event

    @cached_property
    def schema(self) -> Schema:
        partition = self.input.schema.select(self.partition).columns
        return Schema((*partition, *(Column(m.name, m.type) for m in self.measures)))

    @property
    def label(self) -> str:
        by = f"of each {', '.join(self.partition)} " if self.partition else ""
        within = f" within {self.within_ms} ms" if self.within_ms else ""
        rows = (
            f"({' '.join(map(str, self.pattern))}){within} {by}by {', '.join(map(str, self.order))}"
        )
        where = ", ".join(f"{v} {c}" for v, c in self.conditions)
        skip = " ".join((self.skip.value, *self.target))
        return f"{rows} where {where}; {', '.join(map(str, self.measures))}; skip {skip}"

    @property
    def parameters(self) -> tuple[str, ...]:
        rows = (
            *self.partition,
            "|",
            *map(str, self.order),
            "|",
            *map(str, self.pattern),
            str(self.within_ms),
        )
        skip = (self.skip.name, *self.target)
        conditions = (f"{v} {c.digest}" for v, c in self.conditions)
        values = (f"{v} {v.type}" for v in (*self.history, *self.measures))
        return (*rows, "|", *skip, "|", *conditions, "|", *values)

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        return tuple(c for _, c in self.conditions)

    def with_expressions(self, expressions: Sequence[Scalar]) -> Self:
        variables = (v for v, _ in self.conditions)
        return replace(self, conditions=tuple(zip(variables, expressions, strict=True)))

    @property
    def functions(self) -> frozenset[str]:
        aggregates = (v.function for v in (*self.history, *self.measures) if v.aggregates)
        return super().functions.union(aggregates)

    def pruned(self, wanted: Names) -> Self:
        return replace(self, measures=tuple(m for m in self.measures if m.name in wanted))

    @cached_property
    def columns(self) -> Names:
        """The columns of the input that it reads."""
        own = {v.name for v in self.history}
        read = {n for _, c in self.conditions for n in columns_of(c)} - own
        values = {v.column for v in (*self.history, *self.measures) if v.column is not None}
        return frozenset((*self.partition, *(k.column for k in self.order), *read, *values))

    def reads(self, outputs: Names, port: int) -> Names:
        return self.columns

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.partition

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        """None without a partition: its rows are kept under a key of their own then."""
        if not self.partition:
            return None
        return replace(self, partition=(*self.partition, *numbers[0].names))

    @cached_property
    def changes(self) -> ModifyKindSet:
        return ModifyKindSet.NONE
