"""Rows by their rank in an order: Top-N, deduplication, LIMIT, and sorting by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final, Self

from parser.types import BIGINT, Column, Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.monotonicity import ModifiedMonotonicity, Monotonicity, Readers
from planner.logical.node import (
    LogicalPlan,
    Names,
    OneInput,
    Stateful,
    changes_of_inputs,
    constant_if_insert_only,
    keys_within,
    never,
    same_columns,
)

# The last rank where nothing bounds them.
MAX_RANK: Final = 2**31 - 1


@dataclass(frozen=True)
class SortKey:
    """A column to sort by. NULL is smaller than everything unless `nulls_first` says otherwise."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        nulls = (
            ""
            if self.nulls_first is not self.descending
            else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        )
        return f"{self.column}{' DESC' if self.descending else ''}{nulls}"


@dataclass(frozen=True)
class Rank(OneInput, Stateful):
    """Keeps the rows of each `partition` that have the ranks `start` to `end` in the order of
    `order` (Top-N).

    Ranks are counted from 1; rows that are equal in the order are ranked as they arrived.
    `rank_name` is the column with the rank behind the input's columns; None where nobody reads it,
    unless it `keeps_name`: then rows are emitted by their rank though nobody reads that.

    With `end_column` a partition has as many ranks as the first of its rows, in order of arrival,
    says there, less `end_cut`: none for NULL.

    Where the order is one time attribute, only the first row is wanted and the input is
    insert-only, it is *deduplication*: of rows with the same time the first counts, and descending
    the last. LIMIT (`limits`) never is: it takes late rows, and of rows with the same time the
    first."""

    whole: ClassVar[bool] = True

    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    start: int
    end: int
    rank_name: str | None = None
    keeps_name: bool = False
    end_column: str | None = None
    end_cut: int = 0
    limits: bool = False

    forwards_window = never

    def column_sources(self, port: int) -> Mapping[str, str]:
        return {n: n for n in self.input.schema.names}

    def for_each(self, columns: Schema) -> LogicalPlan:
        return replace(self, partition=(*self.partition, *columns.names))

    @cached_property
    def schema(self) -> Schema:
        rank = (
            () if self.rank_name is None else (Column(self.rank_name, BIGINT.with_nullable(False)),)
        )
        return Schema((*self.input.schema.columns, *rank))

    @property
    def label(self) -> str:
        by = f" of each {', '.join(self.partition)}" if self.partition else ""
        order = f" by {', '.join(map(str, self.order))}" if self.order else ""
        rank = f" AS {self.rank_name}" if self.rank_name else ""
        return f"{self.start} to {self._last}{by}{order}{rank}"

    @property
    def _last(self) -> str:
        cut = f" - {self.end_cut}" if self.end_cut else ""
        return str(self.end) if self.end_column is None else f"{self.end_column}{cut}"

    @property
    def parameters(self) -> tuple[str, ...]:
        kind = "LIMIT" if self.limits else str(self.rank_name)
        return (*self.partition, "|", *map(str, self.order), "|", str(self.start), self._last, kind)

    def pruned(self, wanted: Names) -> Self:
        return (
            self if self.keeps_name or self.rank_name in wanted else replace(self, rank_name=None)
        )

    def reads(self, outputs: Names, port: int) -> Names:
        keys = {*self.partition, *self.row_key, *(k.column for k in self.order)}
        ends = set() if self.end_column is None else {self.end_column}
        return (outputs - {self.rank_name or ""}) | keys | ends

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.partition

    @cached_property
    def deduplicates(self) -> bool:
        """True if it is deduplication."""
        first_alone = self.start == self.end == len(self.order) == 1 and self.rank_name is None
        if not first_alone or self.limits or self.input.changes:
            return False
        kind = self.input.schema.type(self.order[0].column)
        return kind.is_rowtime or kind.is_proctime

    @property
    def keeps_first(self) -> bool:
        """True if a row that came out once stays: the first row by time, or the first rows in no
        order."""
        if self.input.changes:
            return False
        return not self.order or (self.deduplicates and not self.order[0].descending)

    @property
    def waits_for_time(self) -> bool:
        """True if it is deduplication that keeps the first row by event time, which the watermark
        decides."""
        first = self.deduplicates and not self.order[0].descending
        return first and self.input.schema.type(self.order[0].column).is_rowtime

    @property
    def drops_late(self) -> bool:
        return self.judges_lateness or self.waits_for_time

    @cached_property
    def row_key(self) -> tuple[str, ...]:
        """The columns that identify a row within its partition where rows are only updated and only
        rise (Flink's UpdateFastStrategy); () elsewhere.

        A row that falls behind the last wanted rank then comes back by its own update, so that no
        more rows are kept than are shown."""
        keys = keys_within(self.input.upsert_keys, frozenset(self.partition))
        updates = self.input.changes == ModifyKindSet.UPDATES and self.input.after_only
        if not updates or not keys or not self.order or self.end_column is not None:
            return ()
        if not self._only_rises():
            return ()
        shortest = min(keys, key=lambda k: (len(k), sorted(k)))
        return tuple(
            n for n in self.input.schema.names if n in shortest and n not in self.partition
        )

    def _only_rises(self) -> bool:
        """True if no update gives a row a greater rank."""
        known = self.input.monotonicity
        columns = {} if known is None else known.known_to(Readers.RANKS)
        rising = (
            Monotonicity.INCREASING if k.descending else Monotonicity.DECREASING for k in self.order
        )
        return all(
            columns.get(k.column) in (Monotonicity.CONSTANT, way)
            for k, way in zip(self.order, rising, strict=True)
        )

    @property
    def may_fall(self) -> bool:
        """True if a row with a `row_key` can fall after all: from NULL to the first value."""
        kinds = self.input.schema
        return any(
            not k.descending and k.nulls_first and kinds.type(k.column).nullable for k in self.order
        )

    @property
    def by_rank(self) -> bool:
        """True if a row that takes another one's place is emitted as an update of that."""
        only_first = self.end == 1 and (not self.input.changes or bool(self.row_key))
        return self.rank_name is not None or self.start > 1 or only_first

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        """Deduplication keeps the partition's columns constant; all other ranks delete rows."""
        if not self.changes:
            return constant_if_insert_only(self)
        if self.start != 1 or self.end != 1 or self.input.changes:
            return None
        columns = {
            n: Monotonicity.CONSTANT if n in self.partition else Monotonicity.ANY
            for n in self.schema.names
        }
        return ModifiedMonotonicity(columns, Readers.RANKS)

    @cached_property
    def changes(self) -> ModifyKindSet:
        if self.keeps_first:
            return ModifyKindSet.NONE
        if self.start == self.end == 1 and (not self.input.changes or self.row_key):
            return ModifyKindSet.UPDATES
        if self.row_key:
            return ModifyKindSet.ALL
        return ModifyKindSet.ALL if self.by_rank else ModifyKindSet.DELETES

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        if self.start == self.end:
            return (frozenset(self.partition),)
        own = () if self.rank_name is None else (frozenset((*self.partition, self.rank_name)),)
        return (*own, *keys_within(self.input.upsert_keys, frozenset(self.partition)))


@dataclass(frozen=True)
class TemporalSort(OneInput, Stateful):
    """Sorts rows by `order`, whose first column is a time attribute, ascending.

    By event time, rows come out once the watermark has passed them."""

    whole: ClassVar[bool] = True
    folds: ClassVar[bool] = False

    order: tuple[SortKey, ...]

    changes = cached_property(changes_of_inputs)
    column_sources = same_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def label(self) -> str:
        return f"by {', '.join(map(str, self.order))}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(map(str, self.order))

    @property
    def drops_late(self) -> bool:
        return self.input.schema.type(self.order[0].column).is_rowtime

    def reads(self, outputs: Names, port: int) -> Names:
        return outputs | {k.column for k in self.order}

    def exchange(self, port: int) -> tuple[str, ...]:
        return ()

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.input.upsert_keys


@dataclass(frozen=True)
class Materialize(OneInput, Stateful):
    """Emits, at the end of input, the rows that its changes have left, in the order of `order`.

    Rows that are equal in it, and all without an order, come as they arrived. Only the rows
    numbered `start` to `end` come out (from 1; None: to the last)."""

    whole: ClassVar[bool] = True
    folds: ClassVar[bool] = False

    order: tuple[SortKey, ...] = ()
    start: int = 1
    end: int | None = None

    column_sources = same_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    def for_each(self, columns: Schema) -> LogicalPlan:
        """The first rows of each value; an order alone says nothing of the rows."""
        if (self.start, self.end) == (1, None):
            return self.input
        last = MAX_RANK if self.end is None else self.end
        return Rank(self.input, columns.names, self.order, self.start, last)

    @property
    def label(self) -> str:
        order = f"by {', '.join(map(str, self.order))}" if self.order else ""
        some = (
            f"{self.start} to {self.end or 'the last'}"
            if (self.start, self.end) != (1, None)
            else ""
        )
        return " ".join(filter(None, (some, order)))

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*map(str, self.order), "|", str(self.start), str(self.end))

    def reads(self, outputs: Names, port: int) -> Names:
        return frozenset(self.schema.names)

    def exchange(self, port: int) -> tuple[str, ...]:
        return ()

    @cached_property
    def changes(self) -> ModifyKindSet:
        return ModifyKindSet.NONE

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.input.upsert_keys
