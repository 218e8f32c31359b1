"""The nodes of families, which run instead of those of their members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from parser.types import Schema
from planner.graph.family_members import (
    COMMON,
    EVERY_ROW,
    Member,
    has_state,
    member_columns,
    number_columns,
    numbers_of,
    operation_of,
)
from planner.graph.family_parameters import (
    WithParameters,
    columns_for,
    parameters_read,
    without_parameters,
)
from planner.graph.physical import Edge, PhysicalNode, PhysicalPlan
from planner.graph.rule_sets import PlannedRule, RulesPlan
from planner.logical import LogicalPlan
from planner.scalar import Literal

# How names of nodes end that add parameters.
_PARAMETERS: Final = ".parameters"


@dataclass(frozen=True)
class FamilyTail(RulesPlan):
    """The conditions and projections behind a family: `of` has the names of each member's rules, by
    number."""

    of: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class FamilyRows(RulesPlan):
    """The rows of a node whose members take all of them: each row once for each of its `members`,
    which are under the name EVERY_ROW."""


@dataclass(frozen=True)
class Family:
    """Members that run as one, by number, the oldest first. `heads`: the nodes that number the rows
    of each input; `states`: those in which the members' states are, in the order of these."""

    id: str
    heads: tuple[str, ...]
    states: tuple[str, ...]
    members: Mapping[int, Member]


def state_node(family: str, nth: int) -> str:
    """Returns the name of the node with the nth state of a family."""
    return f"{family}:state{nth}"


def nth_state(node: str) -> int:
    """Returns which of its family's states a node has, by its name; others than these are names
    of families with one."""
    number = node.rpartition(":state")[2]
    return int(number) if number.isdigit() else 0


def family_of(name: str, members: Sequence[Member]) -> Family:
    """Returns the family of these members."""
    entries = enumerate(members[0].entries)
    heads = tuple(rows_node(name, p) if e.rule == EVERY_ROW else e.head for p, e in entries)
    states = tuple(state_node(name, n) for n in range(len(members[0].states)))
    return Family(name, heads, states, {m.number: m for m in members})


def rows_node(family: str, port: int) -> str:
    """Returns the name of the node that numbers all rows of another for an input of a family."""
    return f"{family}:rows{port}"


@dataclass(frozen=True)
class MadeNodes:
    """The nodes of a family as it was with these `members`, the tail last."""

    members: Mapping[int, Member]
    nodes: Sequence[PhysicalNode]


def nodes_of(
    plan: PhysicalPlan, family: Family, before: MadeNodes | None = None
) -> list[PhysicalNode]:
    """Returns the nodes of a family: those of the oldest member, over rows with numbers; in front
    what numbers rows that no filter does, and what adds parameters to them; and the tail behind.
    What is known of members that it had `before` is taken over."""
    return _Builder(plan, family, before or MadeNodes({}, ())).made


class _Builder:
    """Makes the nodes of one family, which are `made`."""

    def __init__(self, plan: PhysicalPlan, family: Family, before: MadeNodes) -> None:
        self.made: list[PhysicalNode] = []
        self._plan = plan
        self._family = family
        self._members = list(family.members.values())
        old, new = before.members, family.members
        self._come = [m for m in self._members if old.get(m.number) is not m]
        self._gone = [m for n, m in old.items() if new.get(n) is not m]
        self._before = {node.id: node.plan for node in before.nodes}
        self._oldest = self._members[0]
        self._plans = without_parameters(self._oldest.entries, self._oldest.chain)
        self._jobs = frozenset[str]().union(*(m.jobs for m in self._members))
        inputs = [self._add_input(port) for port in range(len(self._oldest.entries))]
        self._add_chain(inputs)
        self._add_tail()

    def _add_input(self, port: int) -> LogicalPlan:
        """Adds the nodes up to an input of the first state; returns the last operation."""
        entry, oldest = self._oldest.entries[port], self._oldest
        first = operation_of(oldest.chain[0])
        source: LogicalPlan = entry.rows(port, first)
        names = _entry_names(self._family.id, oldest, port)
        targets = [
            *(Edge(name) for name in names[1:]),
            Edge(_chain_names(self._family.id, oldest)[0], port),
        ]
        if entry.rule == COMMON:
            return source
        if entry.rule == EVERY_ROW:
            target = first_node(self._family.id, oldest, port)
            self._add_rows(self._plan.nodes[entry.head], port, Edge(*target))
        plans = self._plans.inputs[port]
        if numbers := oldest.in_front(port):
            # Before all that is behind the same node, as if the rows came from there.
            rank = self._plan.nodes[entry.head].rank + (2 if entry.rule == EVERY_ROW else 1)
            columns = columns_for(port, oldest.parameters[port], numbers)
            source = self._add_parameters(source, columns, names.pop(0), targets.pop(0), rank)
        for place, (node, plan) in enumerate(zip(entry.nodes, plans, strict=True)):
            passed = self._passed(source, port, (*plans[place + 1 :], self._plans.chain[0]))
            source = self._add(node, plan, names[place], [source], [passed], targets[place])
        return source

    def _add_chain(self, sources: list[LogicalPlan]) -> None:
        oldest = self._oldest
        names = _chain_names(self._family.id, oldest)
        for place, (node, plan) in enumerate(zip(oldest.chain, self._plans.chain, strict=True)):
            if place and (numbers := oldest.before(place)):
                name = f"{names[place]}{_PARAMETERS}"
                columns = columns_for(0, oldest.parameters[0], numbers)
                target, rank = Edge(names[place]), node.rank - 1
                sources = [self._add_parameters(sources[0], columns, name, target, rank)]
            added = [numbers_of(port) for port in range(len(sources))]
            if not has_state(node):
                added = [self._passed(sources[0], 0, self._plans.chain[place + 1 :])]
            following = Edge(_target(self._family.id, oldest, place + 1))
            sources = [self._add(node, plan, names[place], sources, added, following)]

    def _passed(self, source: LogicalPlan, port: int, following: Sequence[LogicalPlan]) -> Schema:
        """Returns the columns of members that an operation passes on for the following ones."""
        later = frozenset[str]().union(*map(parameters_read, following))
        parameters = source.schema.select(tuple(n for n in source.schema.names if n in later))
        return Schema((*numbers_of(port), *parameters))

    def _add(
        self,
        node: PhysicalNode,
        single: LogicalPlan,
        name: str,
        sources: Sequence[LogicalPlan],
        columns: Sequence[Schema],
        target: Edge,
    ) -> LogicalPlan:
        """Adds the operation of a member, which is `single` without parameters, for all of them;
        `columns`: what rows of each input have besides those that the operation knows, and that go
        on."""
        plan = single.with_inputs(sources).with_member(columns)
        assert plan is not None, f"{name} cannot be that of several jobs"
        wanted = {*node.columns, *member_columns(plan.schema.names)}
        made = replace(
            node,
            id=name,
            plan=plan,
            columns=tuple(n for n in plan.schema.names if n in wanted),
            edges={0: (target,)},
            jobs=self._jobs,
            family=self._family.id,
        )
        self.made.append(made)
        return plan

    def _add_rows(self, source: PhysicalNode, port: int, target: Edge) -> None:
        """Adds the node that numbers all rows of another one for an input."""
        numbers = tuple((0, m.number) for m in self._members)
        (name,) = numbers_of(port).names
        rows = FamilyRows(ports=1, members={EVERY_ROW: numbers}, numbers={0: name})
        # Before the rules over the same node, as its members had these rows.
        rank = source.rank + 1
        self._append(rows_node(self._family.id, port), rows, source.columns, {0: (target,)}, rank)

    def _add_parameters(
        self, source: LogicalPlan, columns: Schema, name: str, target: Edge, rank: int
    ) -> LogicalPlan:
        """Adds the node that gives rows these parameters."""
        number = number_columns(source.schema.names)[0]
        old = self._before.get(name)
        values: dict[int, tuple[Literal, ...]] = {}
        come = self._members
        if isinstance(old, WithParameters) and old.columns == columns:
            values, come = dict(old.values), self._come
        for member in self._gone:
            values.pop(member.number, None)
        for member in come:
            values[member.number] = tuple(map(member.constant, columns.names))
        plan = WithParameters(source, number, columns, values)
        self._append(name, plan, plan.schema.names, {0: (target,)}, rank)
        return plan

    def _add_tail(self) -> None:
        name = _tail_name(self._family.id)
        old = self._before.get(name)
        tail = old if isinstance(old, FamilyTail) else FamilyTail()
        rules: dict[str, PlannedRule | None] = {n: None for m in self._gone for n in m.tail}
        rules |= {n: rule for m in self._come for n, rule in m.tail.items()}
        of = {n: names for n, names in tail.of.items() if n in self._family.members}
        of |= {m.number: tuple(m.tail) for m in self._come}
        plan = tail.changed(rules)
        tail = FamilyTail(plan.rules, plan.targets, ports=plan.ports, of=of)
        edges = {target.port: (Edge(sink),) for sink, target in plan.targets.items()}
        last = self.made[-1]
        self._append(name, tail, last.columns, edges, last.rank + 1)

    def _append(
        self,
        name: str,
        plan: LogicalPlan | RulesPlan,
        columns: tuple[str, ...],
        edges: Mapping[int, tuple[Edge, ...]],
        rank: int,
    ) -> None:
        node = PhysicalNode(name, plan, columns, edges, self._jobs, rank, family=self._family.id)
        self.made.append(node)


def first_node(family: str, oldest: Member, port: int) -> tuple[str, int]:
    """Returns the node of a family to which the rows of an input go, and the port there."""
    names = _entry_names(family, oldest, port)
    return (names[0], 0) if names else (_chain_names(family, oldest)[0], port)


def node_of_member(family: Family, member: Member, name: str) -> PhysicalNode | None:
    """Returns the node of a member that a node of its family stands for; None for those that no
    member has alone."""
    ports = range(len(member.entries))
    names = [n for port in ports for n in _entry_names(family.id, member, port)]
    made = [n for n in names if not n.endswith(_PARAMETERS)]
    made += _chain_names(family.id, member)
    return dict(zip(made, member.nodes, strict=True)).get(name)


def _entry_names(family: str, oldest: Member, port: int) -> list[str]:
    """Returns the names of the nodes up to an input of the first state."""
    parameters = [f"{family}:{port}{_PARAMETERS}"] if oldest.in_front(port) else []
    count = len(oldest.entries[port].nodes)
    return [*parameters, *(f"{family}:{port}.{place}" for place in range(count))]


def _tail_name(family: str) -> str:
    return f"{family}:tail"


def _target(family: str, oldest: Member, place: int) -> str:
    """Returns the name of the node to which the rows in front of an operation of the chain go, or
    those behind the last one."""
    if place == len(oldest.chain):
        return _tail_name(family)
    name = _chain_names(family, oldest)[place]
    return f"{name}{_PARAMETERS}" if oldest.before(place) else name


def _chain_names(family: str, member: Member) -> list[str]:
    nth = {name: n for n, name in enumerate(member.states)}
    return [
        state_node(family, nth[node.id]) if node.id in nth else f"{family}:{place}"
        for place, node in enumerate(member.chain)
    ]
