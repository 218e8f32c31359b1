"""Keeps ticks from operators behind a set of rules that have nothing to do before their time.

A batch that has no row for a branch reaches it as a tick, for windows that are due. With thousands
of filters nearly all branches have no row and nothing due in nearly every batch: such a tick is not
even made.

A watermark that a branch does not see must be missed by nobody: a branch rests only where its
operators say when they need one (`Rests`), and where it ends in sinks. Where it meets others on its
way, all of these must begin at sets of rules over the watermarks of a table. Others get every
tick."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar, Protocol, TypeAlias

from planner.graph.physical import Edge, PhysicalNode, source_of
from planner.graph.rule_sets import RulesPlan
from planner.logical import IntervalJoin, LogicalPlan
from sqlengine.executors.ticks.branches import (
    Branch,
    Group,
    Joint,
    Meeting,
    Missed,
    Moment,
    Ticks,
)
from sqlengine.operators.base import Operator, Rests
from sqlengine.operators.rules import RulesOperator
from sqlengine.operators.scan import ScanOperator
from sqlengine.operators.watermark import WatermarkOperator

# Where a branch begins: a set of rules and its port.
Place: TypeAlias = tuple[str, int]


class Running(Protocol):
    """An operator that runs, with its node."""

    @property
    def node(self) -> PhysicalNode: ...

    @property
    def operator(self) -> Operator: ...


@dataclass
class _Walk:
    """The finds behind a port: the operators before the first joint, and from there on by node,
    with the least delay of watermarks (ms) on the way there; the inputs of joints that the branch
    leads to, and whether there is anything that needs every tick."""

    operators: list[Rests] = field(default_factory=list)
    behind: dict[str, tuple[Rests, int]] = field(default_factory=dict)
    inputs: set[tuple[str, int]] = field(default_factory=set)
    rests: bool = True

    def add(self, name: str, operator: Rests, *, joined: bool, delay_ms: int) -> None:
        """Adds an operator; `joined`: it is a joint, or behind one."""
        if not joined:
            self.operators.append(operator)
        elif name not in self.behind or self.behind[name][1] > delay_ms:
            self.behind[name] = operator, delay_ms


class Resting:
    """The branches of one graph, whose operators are `running`. `missed`: ticks that branches must
    be told before anything else goes on. `enabled`: False gives every operator every tick, from the
    next change on."""

    enabled: ClassVar[bool] = True

    def __init__(self, running: Mapping[str, Running]) -> None:
        self.missed: list[Missed] = []
        self._running = running
        self._sets: dict[str, Ticks] = {}
        # The branches through a node; what was found behind each place; the places that lead to
        # each joint.
        self._places_of: dict[str, set[Place]] = {}
        self._walks: dict[Place, _Walk] = {}
        self._leading_to: dict[str, set[Place]] = {}

    # ---- changes of the plan ---------------------------------------------------------------------

    def change(self, names: Collection[str]) -> None:
        """Follows a change of the plan in these nodes: new ones, gone ones, and those with other
        edges or operators."""
        changed = {place for n in names for place in self._places_of.pop(n, ())}
        for name in names:
            changed |= self._change_set(name)
        changed = {place for place in changed if self._exists(place)}
        for place in changed:
            self._walk(place)
        for places in self._met(changed):
            self._put(places)

    def before_change(self, nodes: Mapping[str, PhysicalNode], names: Collection[str]) -> None:
        """Has groups told what they have missed where these `names` of nodes are about to be those
        of other `nodes`, or gone."""
        if not self.enabled:
            return
        through = (self._places_of.get(n, ()) for n in names if n not in self._sets)
        changed = set(filter(self._exists, chain.from_iterable(through)))
        for name in self._sets.keys() & names:
            edges = nodes[name].edges if name in nodes else {}
            for port, branch in self._sets[name].branches.items():
                if branch.group is not None and edges.get(port) != branch.edges:
                    changed.add((name, port))
        groups = {g for n, p in changed if (g := self._sets[n].branches[p].group) is not None}
        for ticks, port in dict.fromkeys(m for group in groups for m in group.members):
            ticks.tell(port)

    def _exists(self, place: Place) -> bool:
        return place[0] in self._sets and place[1] in self._sets[place[0]].branches

    def _change_set(self, name: str) -> set[Place]:
        """Follows a change of a set of rules. Returns its new and changed branches."""
        running = self._running.get(name)
        if running is None or not isinstance(running.operator, RulesOperator):
            for port in self._sets.pop(name).branches if name in self._sets else ():
                self._leave((name, port))
            return set()
        ticks = self._ticks(name)
        running.operator.ticks = ticks if self.enabled else None
        plan, edges = running.node.plan, running.node.edges
        assert isinstance(plan, RulesPlan)
        ports = {*plan.onward.values(), *running.operator.family_ports}
        for port in ticks.branches.keys() - ports:
            self._leave((name, port))
            ticks.put(port, None)
        known = {port: branch.edges for port, branch in ticks.branches.items()}
        new = {p for p in ports if known.get(p) != edges.get(p, ())}
        for port in new:
            ticks.put(port, Branch(edges.get(port, ())))
        return {(name, port) for port in new}

    def _ticks(self, name: str) -> Ticks:
        if name not in self._sets:
            self._sets[name] = Ticks(name, self.missed)
        return self._sets[name]

    def _leave(self, place: Place) -> None:
        """Forgets what is behind a place."""
        for joint, _ in self._walks.pop(place, _Walk()).inputs:
            self._leading_to.get(joint, set()).discard(place)

    # ---- what is behind a port -------------------------------------------------------------------

    def _walk(self, place: Place) -> None:
        """Finds what is behind a place."""
        self._leave(place)
        found = self._walks[place] = _Walk()
        left = [(edge, False, 0) for edge in self._edges(place)]
        while left:
            edge, joined, delay_ms = left.pop()
            running = self._running.get(edge.target)
            if running is None:  # a sink
                continue
            self._places_of.setdefault(edge.target, set()).add(place)
            operator = running.operator
            if isinstance(operator, RulesOperator):
                ticks = self._ticks(edge.target)
                found.add(edge.target, ticks, joined=joined, delay_ms=delay_ms)
                continue
            if not _may_rest(running):
                found.rests = False
                continue
            assert isinstance(operator, Rests)
            if _is_joint(running):
                joined = True
                found.inputs.add((edge.target, edge.target_port))
                self._leading_to.setdefault(edge.target, set()).add(place)
            found.add(edge.target, operator, joined=joined, delay_ms=delay_ms)
            delay_ms += _delay_ms(running.node)
            left += ((e, joined, delay_ms) for e in running.node.outgoing)

    def _edges(self, place: Place) -> tuple[Edge, ...]:
        return self._running[place[0]].node.edges.get(place[1], ())

    def _met(self, changed: Iterable[Place]) -> Iterator[set[Place]]:
        """Yields the places that meet with each of these, once."""
        done: set[Place] = set()
        for place in changed:
            if place in done:
                continue
            met, left = {place}, [place]
            while left:
                for joint, _ in self._walks[left.pop()].inputs:
                    new = self._leading_to[joint] - met
                    met |= new
                    left += new
            done |= met
            yield met

    def _put(self, places: set[Place]) -> None:
        """Sets the branches at these places, which are all that meet."""
        walks = [self._walks[place] for place in sorted(places)]
        joints = {name for walk in walks for name, _ in walk.inputs}
        group, rests = None, all(walk.rests for walk in walks)
        if joints and (rests := rests and self._has_watermarks(places, joints)):
            group = Group(
                tuple((self._sets[name], port) for name, port in sorted(places)),
                self._meetings(places),
                tuple(self._joint(name) for name in sorted(joints)),
            )
        for place, walk in zip(sorted(places), walks, strict=True):
            name, port = place
            branch = Branch(self._edges(place), tuple(walk.operators), rests, group)
            self._sets[name].put(port, branch)

    def _joint(self, name: str) -> tuple[Joint, Mapping[int, Sequence[Ticks]]]:
        """Returns an operator with several inputs, and the sets of rules that lead to each."""
        operator = self._running[name].operator
        assert isinstance(operator, Joint)
        sets: dict[int, list[Ticks]] = {}
        for place in sorted(self._leading_to[name]):
            for joint, port in sorted(self._walks[place].inputs):
                if joint == name:
                    sets.setdefault(port, []).append(self._sets[place[0]])
        return operator, sets

    def _meetings(self, places: Iterable[Place]) -> tuple[Meeting, ...]:
        """Returns the operators at and behind the places where these branches meet."""
        found: dict[str, Meeting] = {}
        for place in sorted(places):
            for name, (operator, delay_ms) in self._walks[place].behind.items():
                known = found.get(name, Meeting(operator, delay_ms, ()))
                sets = dict.fromkeys((*known.sets, self._sets[place[0]]))
                found[name] = Meeting(operator, min(delay_ms, known.delay_ms), tuple(sets))
        return tuple(found.values())

    def _has_watermarks(self, places: Iterable[Place], joints: Collection[str]) -> bool:
        """True if these joints get all they get by these places, whose sets of rules are right
        behind the watermarks of tables; notes where these are."""
        for joint in joints:
            plan = self._running[joint].node.plan
            assert isinstance(plan, LogicalPlan)
            inputs = (self._walks[place].inputs for place in self._leading_to[joint])
            found = {port for of_place in inputs for name, port in of_place if name == joint}
            if len(found) < len(plan.inputs):
                return False
        for name in {name for name, _ in places}:
            if (moment := self._moment_before(name)) is None:
                return False
            if not self._sets[name].known:
                self._sets[name].moment = moment
        return True

    def _moment_before(self, name: str) -> Moment | None:
        """Returns the time of what a set of rules reads; None where that is not a table."""
        source = self._running.get(source_of(name))
        if source is None or self._places_of.get(name):
            return None
        operator = source.operator
        if isinstance(operator, WatermarkOperator):
            return Moment(operator.watermark, operator.idle)
        return Moment() if isinstance(operator, ScanOperator) else None


def _may_rest(running: Running) -> bool:
    plan = running.node.plan
    if running.node.buffers_epoch or not isinstance(running.operator, Rests):
        return False
    return isinstance(plan, RulesPlan) or len(plan.inputs) == 1 or _is_joint(running)


def _is_joint(running: Running) -> bool:
    plan = running.node.plan
    several = not isinstance(plan, RulesPlan) and len(plan.inputs) > 1
    return several and isinstance(running.operator, Joint)


def _delay_ms(node: PhysicalNode) -> int:
    """Returns by how much what comes out of a node is behind the watermark of its input."""
    plan = node.plan
    return plan.delay_ms if isinstance(plan, IntervalJoin) and not plan.proctime else 0
