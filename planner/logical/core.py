"""Rows in, rows on, rows out: the operations without state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from parser.types import Column, Schema, TimeAttribute
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.monotonicity import (
    ModifiedMonotonicity,
    Monotonicity,
    Readers,
    is_nonnegative,
    kept_nonnegative,
    of_union,
)
from planner.logical.node import (
    LogicalPlan,
    Names,
    OneInput,
    always,
    changes_of_inputs,
    constant_if_insert_only,
    never,
    no_columns,
    renamed_keys,
    same_columns,
)
from planner.logical.window_properties import WindowProperties
from planner.scalar import (
    Call,
    ColumnRef,
    Scalar,
    columns_of,
    digest_of,
    is_deterministic,
    same_values,
    walk,
)
from planner.tables import Table, Watermark


@dataclass(frozen=True)
class Scan(LogicalPlan):
    """Rows of a table as its connector and format give them: physical and metadata columns, nothing
    computed, nothing pushed down. Its identity is the source and the declared columns, not the
    table's name. `where`: only the partitions whose columns fulfil it. `reloaded`: rows are looked
    up in it, and it is read again when it has changed."""

    table: Table
    where: Scalar | None = None
    reloaded: bool = False

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.table.physical.columns + tuple(m.column for m in self.table.metadata))

    @property
    def label(self) -> str:
        where = "" if self.where is None else f", partitions where {self.where}"
        again = ", read again when it changes" if self.reloaded else ""
        return f"{self.table.display} ({self.table.connector}){where}{again}"

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        options = [f"{k}={v}" for k, v in sorted(self.table.options.items())]
        keys = [f"{m.column.name}<-{m.key}" for m in self.table.metadata]
        where = () if self.where is None else (self.where.digest,)
        return (
            *options,
            *keys,
            *map(str, self.schema),
            *where,
            *(("reloaded",) if self.reloaded else ()),
        )

    column_sources = no_columns
    forwards_window = never

    @cached_property
    def changes(self) -> ModifyKindSet:
        return self.table.changes

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        known = Monotonicity.ANY if self.changes else Monotonicity.CONSTANT
        return ModifiedMonotonicity.of_all(self.schema.names, known)

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return (frozenset(self.table.primary_key),) if self.table.primary_key else ()


@dataclass(frozen=True)
class Values(LogicalPlan):
    """Constant rows; each item is a deterministic or non-deterministic expression without
    columns."""

    rows: tuple[tuple[Scalar, ...], ...]
    row_schema: Schema
    salt: str = ""

    changes = cached_property(changes_of_inputs)
    column_sources = no_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def schema(self) -> Schema:
        return self.row_schema

    @property
    def label(self) -> str:
        return f"{len(self.rows)} rows"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.salt, str(self.row_schema), *(e.digest for r in self.rows for e in r))

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        return tuple(e for row in self.rows for e in row)

    def with_expressions(self, expressions: Sequence[Scalar]) -> Self:
        width = len(self.row_schema)
        starts = range(0, len(expressions), width) if width else ()
        return replace(
            self, rows=tuple(tuple(expressions[i : i + width]) for i in starts) or self.rows
        )


@dataclass(frozen=True)
class Filter(OneInput):
    """Rows for which `predicate` is TRUE."""

    hands_on: ClassVar[bool] = True

    predicate: Scalar
    salt: str = ""

    changes = cached_property(changes_of_inputs)
    column_sources = same_columns
    forwards_window = always

    @property
    def label(self) -> str:
        return str(self.predicate)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.salt, self.predicate.digest)

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        return (self.predicate,)

    def with_expressions(self, expressions: Sequence[Scalar]) -> Self:
        return replace(self, predicate=expressions[0])

    def reads(self, outputs: Names, port: int) -> Names:
        return outputs | columns_of(self.predicate)

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        below = self.input.monotonicity
        return None if below is None else below.filtered(self.predicate)

    @property
    def nonnegative(self) -> Names:
        return self.input.nonnegative.union(kept_nonnegative(self.predicate))

    def ignores(self, columns: Names) -> bool:
        return is_deterministic(self.predicate) and not columns_of(self.predicate) & columns

    def for_each(self, columns: Schema) -> LogicalPlan:
        return self

    @cached_property
    def after_only(self) -> bool:
        """False where an update may fail the filter that its row passed before: only its -U says
        that the row is gone."""
        by_key = any(columns_of(self.predicate) <= key for key in self.input.upsert_keys)
        return (by_key or ModifyKindSet.UPDATES not in self.input.changes) and super().after_only

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.input.upsert_keys


@dataclass(frozen=True)
class Project(OneInput):
    """Computes named expressions: one row for each input row."""

    hands_on: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False

    items: tuple[tuple[str, Scalar], ...]
    salt: str = ""

    changes = cached_property(changes_of_inputs)
    forwards_window = always

    def column_sources(self, port: int) -> Mapping[str, str]:
        return {name: e.name for name, e in self.items if isinstance(e, ColumnRef)}

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple(Column(name, e.type) for name, e in self.items))

    @property
    def label(self) -> str:
        return ", ".join(n if str(e) == n else f"{e} AS {n}" for n, e in self.items)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return (
            self.salt,
            *(part for name, e in self.items for part in (name, e.digest, str(e.type))),
        )

    @cached_property
    def expressions(self) -> tuple[Scalar, ...]:
        return tuple(e for _, e in self.items)

    def with_expressions(self, expressions: Sequence[Scalar]) -> Self:
        return replace(
            self, items=tuple((n, e) for (n, _), e in zip(self.items, expressions, strict=True))
        )

    def reads(self, outputs: Names, port: int) -> Names:
        return frozenset[str]().union(*(columns_of(e) for n, e in self.items if n in outputs))

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        below = self.input.monotonicity
        return None if below is None else below.projected(self.items)

    @property
    def nonnegative(self) -> Names:
        below = self.input.nonnegative
        return frozenset(name for name, e in self.items if is_nonnegative(e, below))

    def ignores(self, columns: Names) -> bool:
        """True if it hands the columns on, but computes nothing of them."""
        return all(isinstance(e, ColumnRef) for _, e in self.items if columns_of(e) & columns)

    def handing_on(self, port: int, column: str, name: str) -> tuple[Self, str]:
        known = super().handing_on(port, column, name)
        if known is not None:
            return known
        item = (name, ColumnRef(column, self.input.schema.type(column)))
        return replace(self, items=(*self.items, item)), name

    def for_each(self, columns: Schema) -> LogicalPlan:
        return replace(
            self, items=(*self.items, *((c.name, ColumnRef(c.name, c.type)) for c in columns))
        )

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        kept = {
            column: n for n, e in reversed(self.items) if (column := same_values(e)) is not None
        }
        return renamed_keys(self.input.upsert_keys, kept)


@dataclass(frozen=True)
class TableFunction(OneInput):
    """Joins each row to the rows that a table function gives for it (Flink's Correlate).

    Output: the input's columns, then the function's `columns`, whose names are none of the input's.
    Rows for which `condition`, which reads both, is not TRUE do not count. `outer`: a row without
    any comes once, with NULL."""

    hands_on: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False

    call: Call
    columns: tuple[Column, ...]
    outer: bool = False
    salt: str = ""
    condition: Scalar | None = None

    changes = cached_property(changes_of_inputs)
    column_sources = same_columns
    forwards_window = always

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        below = self.input.monotonicity
        return None if below is None else below.unknown(self.schema.names)

    def for_each(self, columns: Schema) -> LogicalPlan:
        return self

    @cached_property
    def schema(self) -> Schema:
        made = (
            Column(c.name, c.type.with_nullable(True)) if self.outer else c for c in self.columns
        )
        return Schema((*self.input.schema.columns, *made))

    @property
    def label(self) -> str:
        names = ", ".join(c.name for c in self.columns)
        on = "" if self.condition is None else f" ON {self.condition}"
        return f"{'LEFT ' if self.outer else ''}{self.call} AS ({names}){on}"

    @property
    def parameters(self) -> tuple[str, ...]:
        on = () if self.condition is None else ("on", self.condition.digest)
        return (self.salt, str(self.outer), self.call.digest, *map(str, self.columns), *on)

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        return (self.call,) if self.condition is None else (self.call, self.condition)

    def with_expressions(self, expressions: Sequence[Scalar]) -> Self:
        call, *on = expressions
        return (
            replace(self, call=call, condition=on[0] if on else None)
            if isinstance(call, Call)
            else self
        )

    def reads(self, outputs: Names, port: int) -> Names:
        read = outputs if self.condition is None else outputs | columns_of(self.condition)
        return (read - {c.name for c in self.columns}) | columns_of(self.call)


@dataclass(frozen=True)
class AssignWatermark(OneInput):
    """Gives each row the watermark before it (per shard the greatest value of the expression so
    far, over shards the least), and makes the column a row-time attribute. `at_end`: there is none
    before the end of input, so nothing is late. `idle_ms`: the others wait no longer for a shard
    that has been silent for that time (0: they wait). `interval_ms`: a watermark that is not that
    much ahead of the one before waits for that time (0: each row has the newest). `pushed`: the
    table gives it itself, with each row, and it may lie before 1970."""

    watermark: Watermark
    at_end: bool = False
    idle_ms: int = 0
    interval_ms: int = 0
    pushed: bool = False

    changes = cached_property(changes_of_inputs)
    column_sources = same_columns
    forwards_window = never

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        below = self.input.monotonicity
        return None if below is None else below.unknown(self.schema.names)

    @property
    def nonnegative(self) -> Names:
        return self.input.nonnegative

    @cached_property
    def schema(self) -> Schema:
        return Schema(
            tuple(
                Column(c.name, c.type.as_attribute(TimeAttribute.ROWTIME))
                if c.name == self.watermark.column
                else c
                for c in self.input.schema
            )
        )

    @property
    def label(self) -> str:
        idle = f", idle after {self.idle_ms} ms" if self.idle_ms else ""
        interval = f", each {self.interval_ms} ms" if self.interval_ms else ""
        return f"{self.watermark.column} AS {self.watermark.expression}{idle}{interval}"

    @property
    def parameters(self) -> tuple[str, ...]:
        idle = (f"idle {self.idle_ms}",) if self.idle_ms else ()
        at_end = ("at end",) if self.at_end else ()
        interval = (f"each {self.interval_ms}",) if self.interval_ms else ()
        pushed = ("pushed",) if self.pushed else ()
        return (
            self.watermark.column,
            self.watermark.expression.digest,
            *at_end,
            *idle,
            *interval,
            *pushed,
        )

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(n.function for n in walk(self.watermark.expression) if isinstance(n, Call))

    def reads(self, outputs: Names, port: int) -> Names:
        return outputs | columns_of(self.watermark.expression) | {self.watermark.column}

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.input.upsert_keys


@dataclass(frozen=True)
class Union(LogicalPlan):
    """Merges the rows of all inputs (UNION ALL): columns by position, names of the first."""

    branches: tuple[LogicalPlan, ...]
    row_schema: Schema

    changes = cached_property(changes_of_inputs)
    forwards_window = always

    def column_sources(self, port: int) -> Mapping[str, str]:
        return dict(zip(self.schema.names, self.branches[port].schema.names, strict=True))

    @cached_property
    def window_properties(self) -> WindowProperties | None:
        """Windows of one kind stay windows where rows of several inputs come together: the bounds
        that are in the same place in all of them."""
        each: list[WindowProperties] = []
        for port, branch in enumerate(self.branches):
            if branch.window_properties is None:
                return None
            each.append(branch.window_properties.renamed(self.column_sources(port)))
        first, *others = each
        if not all(p.window.is_like(first.window) for p in others):
            return None
        common = {
            n: bound
            for n, bound in first.bounds.items()
            if all(p.bounds.get(n) is bound for p in others)
        }
        return WindowProperties(first.window, common)

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        readers = Readers.AGGREGATES if self.changes else Readers.ALL
        return of_union((b.monotonicity for b in self.branches), self.schema.names, readers)

    def ignores(self, columns: Names) -> bool:
        return True

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return self.branches

    @property
    def schema(self) -> Schema:
        return self.row_schema

    @property
    def parameters(self) -> tuple[str, ...]:
        return (str(self.row_schema),)

    def _over(self, inputs: Sequence[LogicalPlan]) -> Self:
        return replace(self, branches=tuple(inputs))


@dataclass(frozen=True)
class Sink(OneInput):
    """Rows of the query written to a table, or collected by the session that asked (`table` None).
    Sinks are never shared: `job` and `place` (the statement's number in the job) are part of the
    identity. `conflict`: what ON CONFLICT says, until it is settled how the rows get to the table
    (`planner.analysis.delivery`). `apart`: what writes to the table is each job's own, since it may
    fail for the rows of one."""

    hands_on: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False

    table: Table | None
    job: str = ""
    place: int = 0
    conflict: str = ""
    overwrite: bool = False
    apart: bool = False

    changes = cached_property(changes_of_inputs)
    column_sources = same_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def label(self) -> str:
        return f"{self.table.display} ({self.table.connector})" if self.table else "result"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.job, str(self.place), *self.target)

    @cached_property
    def target(self) -> tuple[str, ...]:
        """Identity of the table that is written, with its options; empty for a query's result."""
        if self.table is None:
            return ()
        options = [f"{k}={v}" for k, v in sorted(self.table.options.items())]
        how = ("overwrite",) if self.overwrite else ()
        whose = ("apart", self.job) if self.apart else ()
        return (".".join(self.table.name), *options, str(self.table.schema), *how, *whose)

    @cached_property
    def target_digest(self) -> str:
        return digest_of(*self.target)
