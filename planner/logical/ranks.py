"""Top-N, deduplication, LIMIT, and sorting: rows by their rank in an order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

# The greatest rank: the end where none is given.
MAX_RANK: Final = 2**31 - 1


@dataclass(frozen=True)
class SortKey:
    """A column to sort by. NULL is the least value unless `nulls_first` differs from that."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        is_default = self.nulls_first is not self.descending
        nulls = "" if is_default else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return f"{self.column}{' DESC' if self.descending else ''}{nulls}"


@dataclass(frozen=True)
class Rank(OneInput, Stateful):
    """Keeps the rows of each `partition` with the ranks `start` to `end` by `order` (Top-N).

    Ranks are counted from 1; ties are ranked in order of arrival. `rank_name` is the column with
    the rank after the input's columns; None if nobody reads it. With `keeps_name` the column stays
    though nobody reads it, so that rows are emitted by their rank.

    With `end_column`, the end rank of a partition is the value of this column in the first row that
    arrives, less `end_cut`; NULL keeps no row. With `end_by` it is the value of that column, the
    same in all rows of a partition.

    It is a *deduplication* if the order is one time attribute, only rank 1 is kept and the input is
    insert-only: ascending it keeps the first of rows with the same time, descending the last. LIMIT
    (`limits`) is never one: it takes late rows, and keeps the first of rows with the same time."""

    reads_all_columns: ClassVar[bool] = True

    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    start: int
    end: int
    rank_name: str | None = None
    keeps_name: bool = False
    end_column: str | None = None
    end_cut: int = 0
    limits: bool = False
    end_by: str | None = None

    forwards_window = never

    def column_sources(self, port: int) -> Mapping[str, str]:
        return {n: n for n in self.input.schema.names}

    def for_each(self, columns: Schema) -> LogicalPlan:
        return replace(self, partition=(*self.partition, *columns.names))

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        return self.for_each(numbers[0])

    @cached_property
    def schema(self) -> Schema:
        columns = self.input.schema.columns
        if self.rank_name is None:
            return Schema(columns)
        return Schema((*columns, Column(self.rank_name, BIGINT.with_nullable(False))))

    @property
    def label(self) -> str:
        by = f" of each {', '.join(self.partition)}" if self.partition else ""
        order = f" by {', '.join(map(str, self.order))}" if self.order else ""
        rank = f" AS {self.rank_name}" if self.rank_name else ""
        return f"{self.start} to {self._last}{by}{order}{rank}"

    @property
    def _last(self) -> str:
        cut = f" - {self.end_cut}" if self.end_cut else ""
        if self.end_by is not None:
            return f"by {self.end_by}"
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
        ends = {n for n in (self.end_column, self.end_by) if n is not None}
        return (outputs - {self.rank_name or ""}) | keys | ends

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.partition

    @cached_property
    def deduplicates(self) -> bool:
        """True if it is a deduplication (StreamPhysicalDeduplicate of Flink)."""
        first_alone = self.start == self.end == len(self.order) == 1 and self.rank_name is None
        if not first_alone or self.limits or self.input.changes:
            return False
        kind = self.input.schema.type(self.order[0].column)
        return kind.is_rowtime or kind.is_proctime

    @property
    def keeps_first(self) -> bool:
        """True if an emitted row is never retracted.

        That is so for the first row by time, and for a LIMIT without an order."""
        if self.input.changes:
            return False
        return not self.order or (self.deduplicates and not self.order[0].descending)

    @property
    def waits_for_time(self) -> bool:
        """True if it keeps the first row by event time: it is emitted when the watermark passes."""
        first = self.deduplicates and not self.order[0].descending
        return first and self.input.schema.type(self.order[0].column).is_rowtime

    @property
    def drops_late(self) -> bool:
        return self.judges_lateness or self.waits_for_time

    @cached_property
    def row_key(self) -> tuple[str, ...]:
        """The columns that identify a row of a partition, for Flink's UpdateFastStrategy; else ().

        The strategy applies if rows are only updated, and only to better ranks. A row that drops
        below the end rank then returns by its own update, so state holds just the emitted rows."""
        keys = keys_within(self.input.upsert_keys, frozenset(self.partition))
        updates = self.input.changes == ModifyKindSet.UPDATES and self.input.after_only
        if not updates or not keys or not self.order or self.end_column is not None:
            return ()
        if not self._never_gets_worse():
            return ()
        shortest = min(keys, key=lambda k: (len(k), sorted(k)))
        return tuple(
            n for n in self.input.schema.names if n in shortest and n not in self.partition
        )

    def _never_gets_worse(self) -> bool:
        """True if no update moves a row to a worse (greater) rank."""
        known = self.input.monotonicity
        columns = {} if known is None else known.known_to(Readers.RANKS)
        rising = (
            Monotonicity.INCREASING if k.descending else Monotonicity.DECREASING for k in self.order
        )
        return all(
            columns.get(k.column) in (Monotonicity.CONSTANT, direction)
            for k, direction in zip(self.order, rising, strict=True)
        )

    @property
    def takes_ends(self) -> bool:
        """True if it does the same for any last rank, so that partitions may have others."""
        constant = self.end_column is None and self.end_by is None
        return constant and self.start < self.end < MAX_RANK and not self.row_key

    @property
    def may_fall(self) -> bool:
        """True if a row with a `row_key` can get worse after all: from NULL to its first value."""
        kinds = self.input.schema
        return any(
            not k.descending and k.nulls_first and kinds.type(k.column).nullable for k in self.order
        )

    @property
    def by_rank(self) -> bool:
        """True if a row that displaces another is emitted as an update of that row."""
        only_first = self.end == 1 and (not self.input.changes or bool(self.row_key))
        return self.rank_name is not None or self.start > 1 or only_first

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        """A rank of one row updates all but the partition's columns; other ranks delete rows."""
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

    By event time, rows are emitted once the watermark has passed them (StreamPhysicalTemporalSort
    of Flink)."""

    reads_all_columns: ClassVar[bool] = True
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
    """Emits at the end of input the rows that remain after all changes, sorted by `order`.

    Ties, and all rows without an order, are emitted in order of arrival. Only the rows numbered
    `start` to `end` are emitted (from 1; None: to the last)."""

    reads_all_columns: ClassVar[bool] = True
    folds: ClassVar[bool] = False

    order: tuple[SortKey, ...] = ()
    start: int = 1
    end: int | None = None

    column_sources = same_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    def for_each(self, columns: Schema) -> LogicalPlan:
        """Keeps the first rows of each value; a sort without a limit is dropped."""
        if (self.start, self.end) == (1, None):
            return self.input
        last = MAX_RANK if self.end is None else self.end
        return Rank(self.input, columns.names, self.order, self.start, last)

    @property
    def label(self) -> str:
        order = f"by {', '.join(map(str, self.order))}" if self.order else ""
        limited = (self.start, self.end) != (1, None)
        numbers = f"{self.start} to {self.end or 'the last'}" if limited else ""
        return " ".join(filter(None, (numbers, order)))

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
