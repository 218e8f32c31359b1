"""Joins of two streams: what both sides hold is state, and every change of one side changes the
result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import ClassVar, Self

from parser.types import BOOLEAN, Column, Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.monotonicity import ModifiedMonotonicity, Monotonicity, Readers
from planner.logical.node import LogicalPlan, Names, Stateful, TwoInputs, never, same_columns
from planner.scalar import (
    Call,
    ColumnRef,
    Scalar,
    columns_of,
    conjuncts_of,
    is_deterministic,
)

_EQUALITIES = {"=": False, "IS NOT DISTINCT FROM": True}


class JoinKind(Enum):
    """SEMI: left rows that have a match; ANTI: those that have none."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"
    ANTI = "ANTI"

    def keeps(self, port: int) -> bool:
        """True if rows of that side come out without a match, too."""
        return self is JoinKind.FULL or self is (JoinKind.LEFT, JoinKind.RIGHT)[port]

    @property
    def is_semi(self) -> bool:
        """True if only the left side's columns come out."""
        return self in (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True)
class Equality:
    """A column of the left side equals one of the right; `null_safe`: NULL equals NULL."""

    left: str
    right: str
    null_safe: bool = False

    @property
    def sides(self) -> tuple[str, str]:
        return self.left, self.right


@dataclass(frozen=True)
class BinaryJoin(TwoInputs, Stateful, abstract=True):
    """Joins a left and a right row for which `condition` is TRUE. No name is in both inputs."""

    reads_all_columns: ClassVar[bool] = True
    folds: ClassVar[bool] = False
    # Whether what is said above an inner join of both sides may be part of its condition.
    moves_conditions: ClassVar[bool] = True

    kind: JoinKind
    condition: Scalar

    column_sources = same_columns

    @cached_property
    def schema(self) -> Schema:
        left = self._columns(self.left, self.kind.keeps(1))
        return Schema(
            left if self.kind.is_semi else (*left, *self._columns(self.right, self.kind.keeps(0)))
        )

    def _columns(self, side: LogicalPlan, padded: bool) -> tuple[Column, ...]:
        """A side's columns in the result; where the other side is kept whole, they are NULL at
        times."""
        return tuple(
            Column(c.name, c.type.with_nullable(c.type.nullable or padded)) for c in side.schema
        )

    def filters(self, port: int) -> bool:
        """True if a filter on that side's columns may stand below the join as well as above it."""
        return True

    @property
    def label(self) -> str:
        return f"{self.kind.value} ON {self.condition}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.kind.value, self.condition.digest)

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        return (self.condition,)

    def with_expressions(self, expressions: Sequence[Scalar]) -> Self:
        return replace(self, condition=expressions[0])

    def reads(self, outputs: Names, port: int) -> Names:
        return (outputs | columns_of(self.condition)) & frozenset(self.inputs[port].schema.names)

    @cached_property
    def conditions(self) -> tuple[tuple[Equality, ...], tuple[Scalar, ...]]:
        """The conjuncts of the condition: equalities of the two sides' columns, and all others."""
        equalities: dict[Equality, None] = {}
        others = []
        for part in conjuncts_of(self.condition):
            found = self._equality(part)
            if found is None:
                others.append(part)
            else:
                equalities[found] = None
        return tuple(equalities), tuple(others)

    def _equality(self, part: Scalar) -> Equality | None:
        if not isinstance(part, Call) or part.function not in _EQUALITIES:
            return None
        a, b = part.args
        if (
            not isinstance(a, ColumnRef)
            or not isinstance(b, ColumnRef)
            or not a.type.same_as(b.type)
        ):
            return None
        null_safe = _EQUALITIES[part.function]
        if a.name in self.left.schema and b.name in self.right.schema:
            return Equality(a.name, b.name, null_safe)
        if b.name in self.left.schema and a.name in self.right.schema:
            return Equality(b.name, a.name, null_safe)
        return None

    @property
    def equalities(self) -> tuple[Equality, ...]:
        return self.conditions[0]

    def keys(self, port: int) -> tuple[str, ...]:
        """The columns of one side that must equal those of the other."""
        return tuple(e.sides[port] for e in self.equalities)

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.keys(port)

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        """None where rows of the right side come out alone: they have not the left one's
        columns."""
        if self.kind.keeps(1):
            return None
        sides = tuple(ColumnRef(c.name, c.type) for side in numbers for c in side)
        same = Call("=", sides, BOOLEAN.with_nullable(False))
        nullable = self.condition.type.nullable
        parts = (*conjuncts_of(self.condition), same)
        deterministic = is_deterministic(self.condition)
        both = Call("AND", parts, BOOLEAN.with_nullable(nullable), deterministic)
        return replace(self, condition=both)


@dataclass(frozen=True)
class Join(BinaryJoin):
    """Joins all rows that have ever come, and retracts. Time attributes are plain times behind it.

    `ttls_ms`: the time to live of each side's rows (None: `ttl_ms`)."""

    ttls_ms: tuple[int | None, int | None] = (None, None)

    forwards_window = never

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        left, right = (i.monotonicity for i in self.inputs)
        if self.kind is JoinKind.ANTI or left is None or right is None:
            return None
        if not (left.is_constant(self.keys(0)) and right.is_constant(self.keys(1))):
            return None
        if self.conditions[1] and (left.is_updated or right.is_updated):
            return None
        readers = Readers.AGGREGATES if self.changes else Readers.ALL
        return left.joined(right, self.schema.names, readers)

    def _columns(self, side: LogicalPlan, padded: bool) -> tuple[Column, ...]:
        columns = super()._columns(side, padded)
        return tuple(Column(c.name, c.type.made_from(c.type)) for c in columns)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*super().parameters, *(str(t) for t in self.ttls_ms if t is not None))

    def ttl_of(self, port: int) -> int:
        """Returns the time to live of a side's rows in ms; 0 for ever."""
        own = self.ttls_ms[port]
        return self.ttl_ms if own is None else own

    @cached_property
    def changes(self) -> ModifyKindSet:
        found = self.left.changes | self.right.changes
        if self.kind is JoinKind.INNER or (self.kind is JoinKind.SEMI and not found):
            return found
        return found | ModifyKindSet.DELETES

    @cached_property
    def after_only(self) -> bool:
        """True if the updated rows of a side stay with the same rows of the other side."""
        sides = [port for port in (0, 1) if ModifyKindSet.UPDATES in self.inputs[port].changes]
        return all(self._upsert_keys(port) and self.inputs[port].after_only for port in sides)

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        """A side's key tells the rows apart if the other side has at most one row for each of its
        keys; keys of both sides together always do. All must have the columns by which rows come
        together."""
        left, right = (self._upsert_keys(port) for port in (0, 1))
        if self.kind.is_semi:
            return tuple(left)
        found = [a | b for a in left for b in right]
        if left and self._is_unique(1) and not self.kind.keeps(1):
            found += left
        if right and self._is_unique(0) and not self.kind.keeps(0):
            found += right
        return tuple(dict.fromkeys(found))

    def _upsert_keys(self, port: int) -> list[Names]:
        by = frozenset(self.keys(port))
        return [key for key in self.inputs[port].upsert_keys if key >= by]

    def _is_unique(self, port: int) -> bool:
        by = frozenset(self.keys(port))
        return any(key <= by for key in self.inputs[port].upsert_keys)

    def row_key(self, port: int) -> Names | None:
        """Returns the columns that tell the rows of a side apart.

        None where only all columns do, or where the side is insert-only: then a declared key
        changes nothing."""
        keys = self.inputs[port].upsert_keys if self.inputs[port].changes else ()
        return min(
            keys, key=lambda k: (not k <= set(self.keys(port)), len(k), sorted(k)), default=None
        )


@dataclass(frozen=True)
class IntervalJoin(BinaryJoin):
    """Joins rows whose times are near: the left time minus the right one is from `lower_ms` to
    `upper_ms`, both included.

    Rows are kept only as long as others may match them. Time attributes stay such; `proctime`: the
    times are those of arrival, not of the columns. `cleanup_ms`: how much longer rows are kept, so
    that they are deleted together; the result's watermark does not wait for it, as in Flink."""

    left_time: str
    right_time: str
    lower_ms: int
    upper_ms: int
    proctime: bool = False
    cleanup_ms: int = 0

    forwards_window = never

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        return ModifiedMonotonicity.of_all(self.schema.names, Monotonicity.CONSTANT)

    @property
    def label(self) -> str:
        return (
            f"{super().label}, {self.left_time} - {self.right_time} FROM {self.lower_ms} TO"
            f" {self.upper_ms} ms"
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        bounds = (str(self.lower_ms), str(self.upper_ms), str(self.proctime), str(self.cleanup_ms))
        return (*super().parameters, self.left_time, self.right_time, *bounds)

    def reads(self, outputs: Names, port: int) -> Names:
        return super().reads(outputs, port) | {(self.left_time, self.right_time)[port]}

    @cached_property
    def changes(self) -> ModifyKindSet:
        return ModifyKindSet.NONE

    def held_ms(self, port: int) -> int:
        """Returns how long after its time (ms) a row of a side can match rows of the other side
        that are not late."""
        return -self.lower_ms if port == 0 else self.upper_ms

    @property
    def delay_ms(self) -> int:
        """The delay of the result's watermark behind that of the inputs, in ms."""
        return max(self.held_ms(0), self.held_ms(1), 0)

    @property
    def patience_ms(self) -> int:
        """The time in ms that rows are kept longer than they can match rows that are not late."""
        return self.cleanup_ms + 1
