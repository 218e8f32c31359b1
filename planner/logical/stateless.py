"""Operations without state: filters, projections, table functions and unions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from parser.types import Column, Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.monotonicity import (
    ModifiedMonotonicity,
    Readers,
    is_nonnegative,
    kept_nonnegative,
    of_union,
)
from planner.logical.node import (
    LogicalPlan,
    Names,
    OneInput,
    after_only_of_inputs,
    always,
    changes_of_inputs,
    renamed_keys,
    same_columns,
)
from planner.logical.window_properties import WindowProperties
from planner.scalar import (
    Call,
    ColumnRef,
    Scalar,
    columns_of,
    is_deterministic,
    is_deterministic_per_epoch,
    same_values,
)


@dataclass(frozen=True)
class Filter(OneInput):
    """Rows for which `predicate` is TRUE."""

    forwards_row_time: ClassVar[bool] = True

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
        """False if an update may fail the filter that its row passed before.

        Only the -U then says that the row is gone."""
        by_key = any(columns_of(self.predicate) <= key for key in self.input.upsert_keys)
        return (by_key or ModifyKindSet.UPDATES not in self.input.changes) and after_only_of_inputs(
            self
        )

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.input.upsert_keys


@dataclass(frozen=True)
class Project(OneInput):
    """Computes named expressions: one row for each input row."""

    forwards_row_time: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False

    items: tuple[tuple[str, Scalar], ...]
    salt: str = ""

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
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

    def content(self, outputs: Names) -> tuple[str, ...]:
        items = tuple((name, e) for name, e in self.items if name in outputs)
        return replace(self, items=items).identity

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
        """True if it forwards the columns, but computes nothing from them."""
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

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        if not all(map(is_deterministic_per_epoch, self.expressions)):
            return None  # each job has random values of its own
        first = tuple((c.name, ColumnRef(c.name, c.type)) for c in numbers[0])
        return replace(self, items=(*first, *self.items))

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        kept = {
            column: n for n, e in reversed(self.items) if (column := same_values(e)) is not None
        }
        return renamed_keys(self.input.upsert_keys, kept)


@dataclass(frozen=True)
class TableFunction(OneInput):
    """Joins each row to the rows that a table function returns for it (StreamPhysicalCorrelate).

    Output: the input's columns, then the function's `columns`, whose names differ from those of the
    input. `condition` reads both; only rows for which it is TRUE are joined. `outer`: a row without
    any match is emitted once, padded with NULL."""

    forwards_row_time: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False

    call: Call
    columns: tuple[Column, ...]
    outer: bool = False
    salt: str = ""
    condition: Scalar | None = None

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    column_sources = same_columns
    forwards_window = always

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        below = self.input.monotonicity
        return None if below is None else below.unknown(self.schema.names)

    def for_each(self, columns: Schema) -> LogicalPlan:
        return self

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        return self if all(map(is_deterministic_per_epoch, self.expressions)) else None

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
class Union(LogicalPlan):
    """Merges the rows of all inputs (UNION ALL): columns by position, names of the first."""

    branches: tuple[LogicalPlan, ...]
    row_schema: Schema

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    forwards_window = always

    def column_sources(self, port: int) -> Mapping[str, str]:
        return dict(zip(self.schema.names, self.branches[port].schema.names, strict=True))

    @cached_property
    def window_properties(self) -> WindowProperties | None:
        """The window that all branches have, with the bounds that are at the same position in all.

        None if a branch has no window, or a window of another kind or length."""
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
