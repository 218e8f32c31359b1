"""Parameters of families: literals in which the operations of its members differ, as columns of
their rows.

    WHERE metric = 'm1' … SUM(v * 2)  \\
    WHERE metric = 'm2' … SUM(v * 3)  > … SUM(v * "$member.0") over rows with 2, 3 … in that column
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, TypeAlias, TypeVar

from parser.types import BIGINT, Column, Schema
from planner.graph.family_members import Entry, member_columns, operation_of, parameter_name
from planner.graph.physical import PhysicalNode
from planner.logical import (
    AlignedWindow,
    BinaryJoin,
    Frame,
    LogicalPlan,
    MatchRecognize,
    Over,
    Project,
    Rank,
    Session,
    SessionAssign,
    Window,
    WindowAggregate,
    WindowAssign,
)
from planner.logical.monotonicity import ModifiedMonotonicity, Monotonicity, is_nonnegative
from planner.logical.node import (
    Names,
    OneInput,
    after_only_of_inputs,
    always,
    changes_of_inputs,
    same_columns,
)
from planner.logical.ranks import MAX_RANK
from planner.rewrite import with_args
from planner.scalar import COMPARISONS, Call, ColumnRef, Literal, Scalar, columns_of, conjuncts_of

# Functions whose kernels take a column wherever they take a literal.
_TAKE_COLUMNS: Final = COMPARISONS | {"+", "-", "*", "/", "AND", "OR", "NOT"}
_EQUALITIES: Final = ("=", "IS NOT DISTINCT FROM")
# The column of the nth parameter.
Name: TypeAlias = Callable[[int], str]
W = TypeVar("W", bound=Window)


def without_literals(expression: Scalar, name: Name, found: list[Literal]) -> Scalar:
    """Returns the expression with columns in the place of literals in comparisons and sums, and
    adds these literals to `found`: the column of the nth is `name(n)`."""

    def visit(node: Scalar) -> Scalar:
        if not isinstance(node, Call):
            return node
        change = parameter if node.function in _TAKE_COLUMNS else visit
        return with_args(node, tuple(map(change, node.args)))

    def parameter(node: Scalar) -> Scalar:
        if not isinstance(node, Literal) or node.value is None:
            return visit(node)
        found.append(node)
        return ColumnRef(name(len(found) - 1), node.type, node.position)

    return visit(expression)


@dataclass(frozen=True)
class WithoutLiterals:
    """The operations of a member with columns in the place of literals: those in front of each
    input, and its chain. `literals`: the values of the columns of each input; those of the chain
    are among the first one's, `counts` how many these are up to each operation of the chain."""

    inputs: tuple[tuple[LogicalPlan, ...], ...]
    chain: tuple[LogicalPlan, ...]
    literals: tuple[tuple[Literal, ...], ...]
    counts: tuple[int, ...]


def without_parameters(entries: Sequence[Entry], chain: Sequence[PhysicalNode]) -> WithoutLiterals:
    """Returns a member's operations with columns in the place of literals."""
    inputs = [_Input(port) for port in range(len(entries))]
    in_front = tuple(
        tuple(found.without(operation_of(node)) for node in entry.nodes)
        for found, entry in zip(inputs, entries, strict=True)
    )
    plans, counts = [], []
    for node in chain:
        plans.append(inputs[0].without(operation_of(node)))
        counts.append(len(inputs[0].literals))
    literals = tuple(tuple(found.literals) for found in inputs)
    return WithoutLiterals(in_front, tuple(plans), literals, tuple(counts))


def has_parameters(plan: LogicalPlan) -> bool:
    """True if an operation has literals that can be parameters."""
    found = _Input(0)
    found.without(plan)
    return bool(found.literals)


class _Input:
    """The literals in the operations over one input of a member, from below."""

    def __init__(self, port: int) -> None:
        self.literals: list[Literal] = []
        self._name = partial(parameter_name, port)
        # The columns with the lengths of the windows that rows are in.
        self._lengths: tuple[str, ...] = ()

    def without(self, plan: LogicalPlan) -> LogicalPlan:
        """Returns an operation with columns in the place of literals, which are added to those of
        the input."""
        changed = self._without(plan)
        if plan.stateful:
            self._lengths = ()  # its rows have its own columns
        return changed

    def _without(self, plan: LogicalPlan) -> LogicalPlan:
        match plan:
            case Project():
                items = (self._item(e) for e in plan.expressions)
                return plan.with_expressions(tuple(items))
            case MatchRecognize():
                changed = [without_literals(e, self._name, self.literals) for e in plan.expressions]
                return plan.with_expressions(changed)
            case BinaryJoin():
                return replace(plan, condition=_of_pairs(plan, self._name, self.literals))
            case Rank() if plan.takes_ends:
                return replace(plan, end=MAX_RANK, end_by=self._add(plan.end))
            case Over(frame=Frame(preceding=int() as rows) as frame) if plan.in_time:
                return replace(plan, frame=replace(frame, preceding_in=self._add(rows)))
            case WindowAssign():
                return replace(plan, window=self._without_lengths(plan.window))
            case SessionAssign():
                return replace(plan, window=self._without_lengths(plan.window))
            case WindowAggregate(session=Session() as session):
                return replace(plan, session=self._without_lengths(session))
            case WindowAggregate(shared=AlignedWindow() as shared) if self._lengths:
                return replace(plan, shared=shared.with_lengths_in(self._lengths))
        return plan

    def _item(self, expression: Scalar) -> Scalar:
        if not isinstance(expression, Literal) or expression.value is None:
            return without_literals(expression, self._name, self.literals)
        self.literals.append(expression)
        return ColumnRef(self._name(len(self.literals) - 1), expression.type, expression.position)

    def _without_lengths(self, window: W) -> W:
        self._lengths = tuple(map(self._add, window.lengths))
        return window.with_lengths_in(self._lengths)

    def _add(self, value: int) -> str:
        self.literals.append(Literal(value, BIGINT.with_nullable(False)))
        return self._name(len(self.literals) - 1)


def _of_pairs(join: BinaryJoin, name: Name, found: list[Literal]) -> Scalar:
    """Returns the condition of a join. An equality of a column and a literal stays what it is, for
    one of two columns is a key."""
    condition = join.condition
    parts = [
        part
        if isinstance(part, Call) and part.function in _EQUALITIES
        else without_literals(part, name, found)
        for part in conjuncts_of(condition)
    ]
    if not isinstance(condition, Call) or condition.function != "AND":
        return parts[0] if parts else condition
    return replace(condition, args=tuple(parts))


def columns_for(port: int, found: Sequence[Literal], among: range) -> Schema:
    """Returns the columns of some of the parameters of an input, by their numbers."""
    return Schema(tuple(Column(parameter_name(port, n), found[n].type) for n in among))


def parameters_read(plan: LogicalPlan) -> Names:
    """Returns the parameters that an operation reads."""
    names = frozenset[str]().union(*map(columns_of, plan.expressions))
    match plan:
        case Rank(end_by=str() as end):
            names |= {end}
        case Over(frame=Frame(preceding_in=str() as bound)):
            names |= {bound}
        case WindowAssign() | SessionAssign():
            names |= {*plan.window.lengths_in}
        case WindowAggregate():
            window = plan.shared or plan.session
            names |= {*(() if window is None else window.lengths_in)}
    return frozenset(names.intersection(member_columns(names)))


@dataclass(frozen=True)
class WithParameters(OneInput):
    """Adds the parameters of its member to each row: `columns`, whose `values` are by number; the
    number is in the column `number`."""

    number: str
    columns: Schema
    values: Mapping[int, tuple[Literal, ...]]

    forwards_row_time = True
    selects_rows = False

    forwards_window = always
    column_sources = same_columns
    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)

    @cached_property
    def schema(self) -> Schema:
        return Schema((*self.input.schema, *self.columns))

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.number, *map(str, self.columns))

    def reads(self, outputs: Names, port: int) -> Names:
        return outputs - frozenset(self.columns.names) | {self.number}

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        below = self.input.monotonicity
        if below is None:
            return None
        constant = dict.fromkeys(self.columns.names, Monotonicity.CONSTANT)
        return replace(below, columns={**below.columns, **constant})

    @cached_property
    def nonnegative(self) -> Names:
        by_column = zip(*self.values.values(), strict=True)
        found = (
            column.name
            for column, values in zip(self.columns, by_column, strict=True)
            if all(is_nonnegative(value, frozenset()) for value in values)
        )
        return self.input.nonnegative.union(found)

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.input.upsert_keys
