"""What every node of the logical plan tells of itself. Passes, merging and executors ask these
questions and know no class but those that they treat specially, so a new operation is a new class
and nothing else in the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self, TypeAlias

from parser.types import Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.movement import Movement
from planner.scalar import Call, Scalar, columns_of, digest_of, walk
from planner.tables import Table

Names: TypeAlias = frozenset[str]


@dataclass(frozen=True)
class LogicalPlan:
    """A node of the plan. Its inputs are its first fields.

    `stateful`: keeps something from batch to batch, so that a later job has a node of its own.
    `hands_on`: each row goes on with the time of its input. `whole`: takes all columns that its
    input has by its schema, whoever reads it."""

    stateful: ClassVar[bool] = False
    hands_on: ClassVar[bool] = False
    whole: ClassVar[bool] = False

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return ()

    def with_inputs(self, inputs: Sequence[LogicalPlan]) -> Self:
        """The node over other inputs; itself where they are the same objects."""
        if all(a is b for a, b in zip(self.inputs, inputs, strict=True)):
            return self
        return self._over(inputs)

    def _over(self, inputs: Sequence[LogicalPlan]) -> Self:
        raise NotImplementedError

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    @property
    def label(self) -> str:
        """What EXPLAIN prints behind the name of the operation."""
        return ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """All that tells this node from another of its class over the same inputs."""
        raise NotImplementedError

    @property
    def identity(self) -> tuple[str, ...]:
        """The class and the parameters: with the inputs, what makes two nodes one."""
        return (type(self).__name__, *self.parameters)

    @cached_property
    def digest(self) -> str:
        return digest_of(*self.identity, *(i.digest for i in self.inputs))

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        """Those that passes may rewrite, in the order in which `with_expressions` takes them."""
        return ()

    def with_expressions(self, expressions: Sequence[Scalar]) -> Self:
        """The node with these in the place of its `expressions`."""
        return self

    @property
    def functions(self) -> frozenset[str]:
        """Names of all functions that the node itself calls."""
        return frozenset(
            n.function for e in self.expressions for n in walk(e) if isinstance(n, Call)
        )

    def pruned(self, wanted: Names) -> Self:
        """The node without what nobody wants of the columns that it makes itself, where it can
        leave them out."""
        return self

    def reads(self, outputs: Names, port: int) -> Names:
        """Columns of input `port` that the node reads to give `outputs`."""
        return frozenset(self.inputs[port].schema.names)

    def needs(self, outputs: Names, port: int) -> Names:
        """Those that it `reads`, and those that go on with rows that it does not take."""
        return self.reads(outputs, port)

    def exchange(self, port: int) -> tuple[str, ...] | None:
        """The columns of input `port` by whose hash rows must come together (none: all rows); None
        where rows may stay where they are."""
        return None

    @cached_property
    def changes(self) -> ModifyKindSet:
        """What may come besides +I."""
        found = ModifyKindSet.NONE
        for source in self.inputs:
            found |= source.changes
        return found

    @cached_property
    def movement(self) -> Movement | None:
        """How the values of a row move as it is updated; None where rows may go, or nothing is
        known."""
        return None if self.changes else dict.fromkeys(self.schema.names, 0)

    def never_negative(self, column: str) -> bool:
        """Whether a column is known to have no value below zero."""
        return False

    @cached_property
    def after_only(self) -> bool:
        """Whether the -U of its updates can be left out for a reader that knows its rows by an
        upsert key."""
        return all(i.after_only for i in self.inputs if ModifyKindSet.UPDATES in i.changes)

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        """Sets of columns, each of which tells the rows of the result so far apart; () where none
        is known."""
        return ()


@dataclass(frozen=True)
class LateTarget:
    """The table that late rows go to. `items`: by input port of the operation, the values of the
    table's columns."""

    table: Table
    items: tuple[tuple[tuple[str, Scalar], ...], ...]

    @property
    def identity(self) -> tuple[str, ...]:
        items = (
            f"{port} {n} {e.digest}" for port, values in enumerate(self.items) for n, e in values
        )
        return ("late rows to", ".".join(self.table.name), *items)


@dataclass(frozen=True)
class OneInput(LogicalPlan):
    """An operation over one input, whose columns it gives unless it says otherwise."""

    input: LogicalPlan

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    def _over(self, inputs: Sequence[LogicalPlan]) -> Self:
        (only,) = inputs
        return replace(self, input=only)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class TwoInputs(LogicalPlan):
    """An operation over a left and a right input."""

    left: LogicalPlan
    right: LogicalPlan

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.left, self.right)

    def _over(self, inputs: Sequence[LogicalPlan]) -> Self:
        left, right = inputs
        return replace(self, left=left, right=right)


@dataclass(frozen=True, kw_only=True)
class Stateful(LogicalPlan):
    """An operation that keeps state. `row_by_row`: its rows come one at a time, so that no change
    is folded into another (mini-batch is off). `ttl_ms`: how long a key that nobody touches is
    kept, 0 for ever. `tells_late`: late rows become dead letters; `late`: they go to a table."""

    stateful: ClassVar[bool] = True
    # Whether what comes out depends on where a batch ends, so that `row_by_row` has a meaning.
    folds: ClassVar[bool] = True

    @cached_property
    def after_only(self) -> bool:
        """It makes its changes itself, and could make them so."""
        return True

    # Whether rows may be late: too late for what the operation waits for.
    judges_lateness: ClassVar[bool] = False

    row_by_row: bool = False
    ttl_ms: int = 0
    tells_late: bool = False
    late: LateTarget | None = None

    @property
    def drops_late(self) -> bool:
        """Whether it drops rows that come too late."""
        return self.judges_lateness

    def late_schema(self, port: int) -> Schema:
        """What is known of a late row of input `port`."""
        return self.inputs[port].schema

    def needs(self, outputs: Names, port: int) -> Names:
        read = self.reads(outputs, port)
        if self.late is None:
            return read
        told = frozenset[str]().union(*(columns_of(e) for _, e in self.late.items[port]))
        return read | (told & set(self.inputs[port].schema.names))

    @property
    def identity(self) -> tuple[str, ...]:
        extra = (
            *(("row by row",) if self.row_by_row else ()),
            *((f"ttl {self.ttl_ms}",) if self.ttl_ms else ()),
        )
        late = (
            self.late.identity
            if self.late is not None
            else ("late rows",)
            if self.tells_late
            else ()
        )
        return (*super().identity, *extra, *late)


def keys_within(keys: tuple[Names, ...], by: Names) -> tuple[Names, ...]:
    """Those keys that hold all columns by which rows come together: rows of any other key may come
    from several places, and are in no order among each other."""
    return tuple(key for key in keys if key >= by)


def renamed_keys(keys: tuple[Names, ...], names: Mapping[str, str]) -> tuple[Names, ...]:
    """Keys of an input as its reader calls them, by the input's names; those of which it lacks a
    column are lost."""
    return tuple(frozenset(names[n] for n in key) for key in keys if all(n in names for n in key))
