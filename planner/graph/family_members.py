"""Members of families: operations of one job, or of jobs deployed together, that may run with those
of others.

See `families.py`, which makes families of those that are equal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Final

from parser.types import BIGINT, BOOLEAN, Column, Schema
from planner.graph.physical import PhysicalNode
from planner.graph.rule_sets import PlannedRule
from planner.logical import LogicalPlan, Project
from planner.logical.monotonicity import ModifiedMonotonicity, Monotonicity
from planner.logical.node import Names, after_only_of_inputs, always, changes_of_inputs
from planner.rewrite import references
from planner.scalar import ColumnRef, Literal

# The column with the member's number. No column of a user has such a name.
MEMBER: Final = "$member"
# The names of families, and of their nodes, begin so.
FAMILY: Final = "family:"
_NUMBER: Final = BIGINT.with_nullable(False)
ALWAYS: Final = Literal(True, BOOLEAN.with_nullable(False))
# The rule of rows that no filter selects, and of those that members do not tell apart.
EVERY_ROW: Final = ""
COMMON: Final = "common"
_CONSTANT: Final = re.compile(re.escape(MEMBER) + r"(\d*)(?:\.(\d+))?")


def numbers_of(port: int) -> Schema:
    """Returns the column with the member's number in the rows of an input: no name is in both
    inputs of a join."""
    return Schema((Column(f"{MEMBER}{port or ''}", _NUMBER),))


MEMBERS: Final = numbers_of(0)


def parameter_name(port: int, number: int) -> str:
    """Returns the column with a parameter of members, in the rows of an input."""
    return f"{MEMBER}{port or ''}.{number}"


def member_columns(names: Iterable[str]) -> list[str]:
    """Returns the columns that hold the number of a member or its parameters, in rows or in state,
    which may name a column of its rows otherwise (`#name`, `name@0`)."""
    return [name for name in names if MEMBER in name]


def number_columns(names: Iterable[str]) -> list[str]:
    """Returns the columns that hold the number of a member, see `member_columns`."""
    return [name for name in member_columns(names) if "." not in name.partition(MEMBER)[2]]


@dataclass(frozen=True)
class MemberRows(Project):
    """The rows of one input of a member, with its number: what operations of a family see below."""

    forwards_window = always
    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)

    def column_sources(self, port: int) -> Mapping[str, str]:
        return super().column_sources(port)

    @property
    def _number(self) -> str:
        return self.items[0][0]

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        below = super().monotonicity
        if below is None:
            return None
        return replace(below, columns={**below.columns, self._number: Monotonicity.CONSTANT})

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return tuple(key | {self._number} for key in super().upsert_keys)


@dataclass(frozen=True)
class Entry:
    """Rows on their way to one input of a member's first operation with state: those of the filter
    `rule` of the set of rules `head`, or all that come out of the node `head`, through `nodes`,
    which may be shared with other operations. With the rule COMMON they have no numbers."""

    head: str
    rule: str
    nodes: tuple[PhysicalNode, ...]

    def rows(self, port: int, first: LogicalPlan) -> LogicalPlan:
        """Returns the rows with a number as operations see them; `first` is the first operation
        with state."""
        if self.rule == COMMON:
            return first.inputs[port]
        plan = operation_of(self.nodes[0]) if self.nodes else first
        below = plan.inputs[0 if self.nodes else port]
        (number,) = numbers_of(port)
        named: tuple[str, Literal | ColumnRef] = (number.name, Literal(0, number.type))
        return MemberRows(below, (named, *references(below.schema, below.schema.names)))


@dataclass(frozen=True)
class Member:
    """Operations of one job: rows of `entries`, one for each input, go through `chain`, which
    begins with an operation with state, to the rules of the `tail`, those of the node `behind` if
    there is one. `states`: the nodes with state among the chain; `number`: the same wherever the
    first of them is; `shape`: of all members of one family. `parameters`: the literals of each
    input that are columns of its rows in a family; those of the chain are among the first one's,
    `counts` how many these are up to each operation of it."""

    number: int
    shape: str
    entries: tuple[Entry, ...]
    chain: tuple[PhysicalNode, ...]
    parameters: tuple[tuple[Literal, ...], ...]
    counts: tuple[int, ...]
    tail: Mapping[str, PlannedRule]
    behind: PhysicalNode | None = None

    @cached_property
    def states(self) -> tuple[str, ...]:
        return tuple(node.id for node in self.chain if has_state(node))

    def constant(self, column: str) -> Literal:
        """Returns the value of a column that is the same in all rows and all state of the member
        (`member_columns`)."""
        found = _CONSTANT.search(column)
        assert found is not None, column
        port, number = found.groups()
        if number is None:
            return Literal(self.number, _NUMBER)
        return self.parameters[int(port or 0)][int(number)]

    def in_front(self, port: int) -> range:
        """Returns which parameters of an input are columns of its rows already in front of the
        first state."""
        return range(len(self.parameters[port]) if port else self.counts[0])

    def before(self, place: int) -> range:
        """Returns which parameters of the first input come to the rows right before an operation of
        the chain behind the first one."""
        return range(self.counts[place - 1], self.counts[place])

    @property
    def jobs(self) -> frozenset[str]:
        """The jobs that share the state."""
        return self.chain[0].jobs

    @property
    def own(self) -> tuple[PhysicalNode, ...]:
        """The nodes of the plan that nothing else has: from the first one with state on."""
        return self.chain if self.behind is None else (*self.chain, self.behind)

    @property
    def nodes(self) -> Iterator[PhysicalNode]:
        """All nodes in front of the tail, those in front of the state first."""
        for entry in self.entries:
            yield from entry.nodes
        yield from self.chain


def operation_of(node: PhysicalNode) -> LogicalPlan:
    """Returns the operation of a node that is no set of rules."""
    assert isinstance(node.plan, LogicalPlan), node.id
    return node.plan


def has_state(node: PhysicalNode) -> bool:
    """True if the node is an operation that keeps state."""
    return isinstance(node.plan, LogicalPlan) and node.plan.stateful


def number_of(node: str) -> int:
    """Returns the number of the member whose first state belongs to a node: the same after a
    restart, and in each process."""
    return int.from_bytes(blake2b(node.encode(), digest_size=8).digest()) >> 1
