"""The nodes of families, which run instead of those of their members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.graph.chunked import Chunked
from planner.graph.family_members import Member, member_columns, numbers_of
from planner.graph.family_search import EVERY_ROW
from planner.graph.physical import Edge, PhysicalNode, PhysicalPlan
from planner.graph.rule_sets import RulesPlan, Target
from planner.logical import LogicalPlan


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
    """Returns which of its family's states a node has, by its name."""
    return int(node.rpartition(":state")[2])


def family_of(name: str, members: list[Member]) -> Family:
    """Returns the family of these members."""
    entries = enumerate(members[0].entries)
    heads = tuple(rows_node(name, p) if e.rule == EVERY_ROW else e.head for p, e in entries)
    states = tuple(state_node(name, n) for n in range(len(members[0].states)))
    return Family(name, heads, states, {m.number: m for m in members})


def rows_node(family: str, port: int) -> str:
    """Returns the name of the node that numbers all rows of another for an input of a family."""
    return f"{family}:rows{port}"


def nodes_of(plan: PhysicalPlan, family: Family, members: list[Member]) -> list[PhysicalNode]:
    """Returns the nodes of a family: those of the oldest member, over rows with numbers, what
    numbers rows that no filter does in front, and the tail behind."""
    jobs = frozenset[str]().union(*(m.jobs for m in members))
    oldest, names = members[0], _chain_names(family.id, members[0])
    made: list[PhysicalNode] = []
    sources: list[LogicalPlan] = []
    for port, entry in enumerate(oldest.entries):
        assert isinstance(oldest.chain[0].plan, LogicalPlan)
        source: LogicalPlan = entry.rows(port, oldest.chain[0].plan)
        before = [f"{family.id}:{port}.{place}" for place in range(len(entry.nodes))]
        targets = [*map(Edge, before[1:]), Edge(names[0], port)]
        if entry.rule == EVERY_ROW:
            made.append(_rows_of(family, members, plan.nodes[entry.head], port, targets[0], jobs))
        for name, node, target in zip(before, entry.nodes, targets, strict=True):
            made.append(_of_all(node, name, [source], [port], target, family, jobs))
            assert isinstance(made[-1].plan, LogicalPlan)
            source = made[-1].plan
        sources.append(source)
    targets = [Edge(name) for name in (*names[1:], f"{family.id}:tail")]
    for name, node, target in zip(names, oldest.chain, targets, strict=True):
        made.append(_of_all(node, name, sources, range(len(sources)), target, family, jobs))
        assert isinstance(made[-1].plan, LogicalPlan)
        sources = [made[-1].plan]
    return [*made, _tail_of(family, members, made[-1], jobs)]


def _chain_names(family: str, member: Member) -> list[str]:
    nth = {name: n for n, name in enumerate(member.states)}
    return [
        state_node(family, nth[node.id]) if node.id in nth else f"{family}:{place}"
        for place, node in enumerate(member.chain)
    ]


def _of_all(
    node: PhysicalNode,
    name: str,
    sources: Sequence[LogicalPlan],
    ports: Iterable[int],
    target: Edge,
    family: Family,
    jobs: frozenset[str],
) -> PhysicalNode:
    """Returns the operation of a member for all of them. `ports`: those whose number the rows of
    each of its inputs have."""
    assert isinstance(node.plan, LogicalPlan)
    plan = node.plan.with_inputs(sources).with_member([numbers_of(port) for port in ports])
    assert plan is not None, f"{name} cannot be that of several jobs"
    wanted = {*node.columns, *member_columns(plan.schema.names)}
    return replace(
        node,
        id=name,
        plan=plan,
        columns=tuple(n for n in plan.schema.names if n in wanted),
        edges={0: (target,)},
        jobs=jobs,
        family=family.id,
    )


def _rows_of(
    family: Family,
    members: list[Member],
    source: PhysicalNode,
    port: int,
    target: Edge,
    jobs: frozenset[str],
) -> PhysicalNode:
    """Returns the node that numbers all rows of another one for an input of a family."""
    numbers = tuple((0, m.number) for m in members)
    (name,) = numbers_of(port).names
    rows = FamilyRows(ports=1, members={EVERY_ROW: numbers}, numbers={0: name})
    return PhysicalNode(
        rows_node(family.id, port),
        rows,
        source.columns,
        {0: (target,)},
        jobs,
        source.rank + 1,  # as its members had these rows: before the rules over the same node
        family=family.id,
    )


def _tail_of(
    family: Family, members: list[Member], last: PhysicalNode, jobs: frozenset[str]
) -> PhysicalNode:
    rules = {name: rule for m in members for name, rule in m.tail.items()}
    routes = [route.target for rule in rules.values() for route in rule.routes]
    counts = Counter(routes)
    targets = {name: Target(port, counts[name]) for port, name in enumerate(sorted(counts))}
    tail = FamilyTail(
        Chunked(rules),
        Chunked(targets),
        ports=len(targets),
        of={m.number: tuple(m.tail) for m in members},
    )
    edges = {target.port: (Edge(name),) for name, target in targets.items()}
    name, rank = f"{family.id}:tail", last.rank + 1
    return PhysicalNode(name, tail, last.columns, edges, jobs, rank, family=family.id)


def first_node(family: str, oldest: Member, port: int) -> tuple[str, int]:
    """Returns the node of a family to which the rows of an input go, and the port there."""
    if oldest.entries[port].nodes:
        return f"{family}:{port}.0", 0
    return _chain_names(family, oldest)[0], port
