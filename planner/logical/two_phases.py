"""An aggregate in two steps: of the rows of a batch one for each key, before they are exchanged,
and the results behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from parser.types import BIGINT, Column, Schema
from planner.logical.aggregates import GroupAggregate
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.monotonicity import ModifiedMonotonicity
from planner.logical.node import Names, OneInput, after_only_of_inputs, changes_of_inputs, never
from planner.logical.windows import AggregateCall, WindowAggregate
from udf.aggregates.registry import bind_aggregate

# How many rows stand behind one of these.
ROWS: Final = "#rows"


def parts_of(aggregates: tuple[AggregateCall, ...]) -> tuple[Column, ...]:
    """Returns the columns of the accumulators of calls, call by call."""
    return tuple(
        Column(f"{i}#{name}", kind)
        for i, call in enumerate(aggregates)
        for name, kind in bind_aggregate(
            call.function,
            () if call.argument_type is None else (call.argument_type,),
            retract=False,
        ).accumulators
    )


@dataclass(frozen=True)
class LocalAggregate(OneInput):
    """Pre-aggregates a batch before the exchange: one row for each value of `keys` (Flink's local
    aggregate).

    The row holds the keys, the number of rows, and the columns of the accumulators of `aggregates`,
    call by call (`parts`)."""

    keys: tuple[str, ...]
    aggregates: tuple[AggregateCall, ...]

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    forwards_window = never

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        return None  # its rows are parts of results

    def column_sources(self, port: int) -> Mapping[str, str]:
        return {k: k for k in self.keys}

    @cached_property
    def parts(self) -> tuple[Column, ...]:
        return parts_of(self.aggregates)

    @cached_property
    def schema(self) -> Schema:
        rows = Column(ROWS, BIGINT.with_nullable(False))
        return Schema((*self.input.schema.select(self.keys), rows, *self.parts))

    @property
    def label(self) -> str:
        return (
            f"by {', '.join(self.keys) or 'nothing'}:"
            f" {', '.join(map(str, self.aggregates)) or 'distinct'}"
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.keys, "|", *(f"{a} {a.type}" for a in self.aggregates))

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(a.function for a in self.aggregates)

    def reads(self, outputs: Names, port: int) -> Names:
        return frozenset(self.keys).union(*(a.columns for a in self.aggregates))


@dataclass(frozen=True)
class GlobalAggregate(GroupAggregate):
    """The aggregate over the rows of a `LocalAggregate`."""

    reads_all_columns: ClassVar[bool] = True

    forwards_window = never

    def column_sources(self, port: int) -> Mapping[str, str]:
        return super().column_sources(port)

    @cached_property
    def changes(self) -> ModifyKindSet:
        return super().changes

    def exchange(self, port: int) -> tuple[str, ...]:
        return super().exchange(port)

    @property
    def local(self) -> LocalAggregate:
        assert isinstance(self.input, LocalAggregate)
        return self.input

    @cached_property
    def as_one(self) -> GroupAggregate:
        """The aggregate in one step, without its `LocalAggregate`."""
        return GroupAggregate(
            self.local.input, self.keys, self.aggregates, self.always, ttl_ms=self.ttl_ms
        )

    def reads(self, outputs: Names, port: int) -> Names:
        return frozenset(self.local.schema.names)

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        return self.as_one.monotonicity


@dataclass(frozen=True)
class LocalWindowAggregate(OneInput):
    """Pre-aggregates a batch before the exchange to `whole`: one row for each key and window (or
    slice), and for each set of rows that are late or not together.

    The row holds the keys, the bounds of the window, the number of rows, and the accumulators
    (`parts`)."""

    whole: WindowAggregate

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    forwards_window = never

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        return None  # its rows are parts of results

    def column_sources(self, port: int) -> Mapping[str, str]:
        return {n: n for n in (*self.whole.keys, *self.whole.window_columns)}

    @cached_property
    def parts(self) -> tuple[Column, ...]:
        return parts_of(self.whole.aggregates)

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns of the input that its rows have, too."""
        return (*self.whole.keys, *self.whole.window_columns)

    @cached_property
    def schema(self) -> Schema:
        rows = Column(ROWS, BIGINT.with_nullable(False))
        return Schema((*self.input.schema.select(self.kept), rows, *self.parts))

    @property
    def label(self) -> str:
        return self.whole.label

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.whole.parameters

    @property
    def functions(self) -> frozenset[str]:
        return self.whole.functions

    def reads(self, outputs: Names, port: int) -> Names:
        return self.whole.reads(outputs, port)


@dataclass(frozen=True)
class GlobalWindowAggregate(WindowAggregate):
    """The aggregate over the rows of a `LocalWindowAggregate`."""

    reads_all_columns: ClassVar[bool] = True

    forwards_window = never

    def column_sources(self, port: int) -> Mapping[str, str]:
        return super().column_sources(port)

    def exchange(self, port: int) -> tuple[str, ...]:
        return super().exchange(port)

    @property
    def local(self) -> LocalWindowAggregate:
        assert isinstance(self.input, LocalWindowAggregate)
        return self.input

    def reads(self, outputs: Names, port: int) -> Names:
        return frozenset(self.local.schema.names)

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        return self.local.whole.monotonicity

    @cached_property
    def changes(self) -> ModifyKindSet:
        return super().changes
