"""Keeps ticks from operators behind a set of rules that have nothing to do before their time.

A branch is what is behind one port of a set of rules: the readers of one filter. A batch that has
no row for a branch reaches it as a tick, for windows that are due. With thousands of filters nearly
all branches have no row and nothing due in nearly every batch: such a tick is not even made.

A watermark that a branch does not see must be missed by nobody: a branch rests only where its
operators say when they need one (`Rests`), and where it ends in sinks, without meeting another
input on its way. All others get every tick.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from planner.graph.physical import Edge, PhysicalNode
from planner.graph.rule_sets import RulesPlan
from sqlengine.batch import MAX_WATERMARK, Batch
from sqlengine.executors.ticks.earliest import Earliest
from sqlengine.operators.base import EVERY_TICK, NO_TICK, Operator, Rest, Rests
from sqlengine.operators.rules import RulesOperator


class Running(Protocol):
    """An operator that runs, with its node."""

    @property
    def node(self) -> PhysicalNode: ...

    @property
    def operator(self) -> Operator: ...


@dataclass(frozen=True)
class Branch:
    """The readers of one filter: operators up to further sets of rules, and these. `rests`: False
    if it needs every tick."""

    edges: tuple[Edge, ...]
    operators: tuple[Rests, ...]
    sets: tuple[Ticks, ...]
    rests: bool

    def rest(self) -> Rest:
        """Returns until when nothing in the branch needs a tick."""
        rests = [operator.rest() for operator in self.operators]
        return min_rest([*rests, *(ticks.rest() for ticks in self.sets)])


def min_rest(rests: Collection[Rest]) -> Rest:
    """Returns until when none of these needs a tick."""
    return Rest(
        min((r.watermark for r in rests), default=NO_TICK.watermark),
        min((r.proctime for r in rests), default=NO_TICK.proctime),
    )


class Ticks:
    """The ticks of one set of rules; see `TickFilter`. `families`: True if families of jobs read
    it, by ports that are not among these: they get every tick.

    A branch is in one of three states: it needs `every` tick; it is `unsettled`, which is found out
    when a batch has no row for it, since rows and ticks change it; or it rests until an instant."""

    def __init__(self) -> None:
        self.branches: dict[int, Branch] = {}
        self.families = False
        self._every: set[int] = set()
        self._unsettled: set[int] = set()
        self._watermarks = Earliest[int]()
        self._proctimes = Earliest[int]()

    def put(self, port: int, branch: Branch | None) -> None:
        """Sets what is behind a port; None removes the port."""
        self._every.discard(port)
        self._unsettled.discard(port)
        self._watermarks.put(port, None)
        self._proctimes.put(port, None)
        if branch is None:
            self.branches.pop(port, None)
            return
        self.branches[port] = branch
        (self._unsettled if branch.rests else self._every).add(port)

    def ports(self, batch: Batch, having_rows: Collection[int]) -> list[int]:
        """See `TickFilter`."""
        self._settle(self._unsettled.difference(having_rows))
        if batch.watermark == MAX_WATERMARK:
            due = set(self.branches)
        else:
            due = self._every.union(
                having_rows,
                self._watermarks.take(batch.watermark),
                self._proctimes.take(batch.proctime),
            )
        self._unsettled |= due - self._every
        return sorted(due)

    def rest(self) -> Rest:
        """Returns until when none of the branches needs a tick."""
        if self._every or self.families:
            return EVERY_TICK
        self._settle(set(self._unsettled))
        first = (self._watermarks.first(), self._proctimes.first())
        return Rest(*(end if at is None else at for at, end in zip(first, NO_TICK, strict=True)))

    def _settle(self, ports: Iterable[int]) -> None:
        for port in ports:
            rest = self.branches[port].rest()
            # At the end of time every branch gets a tick.
            self._watermarks.put(port, rest.watermark)
            self._proctimes.put(port, rest.proctime)
            self._unsettled.discard(port)


class Resting:
    """The branches of one graph, whose operators are `running`."""

    def __init__(self, running: Mapping[str, Running]) -> None:
        self._running = running
        self._sets: dict[str, Ticks] = {}
        # The branches through a node, by the set of rules and the port that they begin at.
        self._branches_of: dict[str, set[tuple[str, int]]] = {}

    def change(self, names: Collection[str]) -> None:
        """Follows a change of the plan in these nodes: new ones, gone ones, and those with other
        edges or operators."""
        changed = {b for n in names for b in self._branches_of.pop(n, ())}
        for name in names:
            changed |= self._change_set(name)
        for name, port in changed:
            if name in self._sets and port in self._sets[name].branches:
                self._sets[name].put(port, self._branch(name, port))

    def _change_set(self, name: str) -> set[tuple[str, int]]:
        """Follows a change of a set of rules. Returns its new and changed branches."""
        running = self._running.get(name)
        if running is None or not isinstance(running.operator, RulesOperator):
            self._sets.pop(name, None)
            return set()
        ticks = self._sets.setdefault(name, Ticks())
        running.operator.ticks = ticks
        plan, edges = running.node.plan, running.node.edges
        assert isinstance(plan, RulesPlan)
        ticks.families = bool(plan.members)
        onward = set(plan.onward.values())
        for port in ticks.branches.keys() - onward:
            ticks.put(port, None)
        known = {port: branch.edges for port, branch in ticks.branches.items()}
        new = {p for p in onward if known.get(p) != edges.get(p, ())}
        for port in new:
            ticks.put(port, Branch(edges.get(port, ()), (), (), rests=False))
        return {(name, port) for port in new}

    def _branch(self, name: str, port: int) -> Branch:
        """Walks through what is behind a port."""
        edges = self._running[name].node.edges.get(port, ())
        operators: list[Rests] = []
        sets: list[Ticks] = []
        rests, left = True, list(edges)
        while left:
            target = left.pop().target
            running = self._running.get(target)
            if running is None:  # a sink
                continue
            self._branches_of.setdefault(target, set()).add((name, port))
            if isinstance(running.operator, RulesOperator):
                sets.append(self._sets.setdefault(target, Ticks()))
            elif _may_rest(running):
                assert isinstance(running.operator, Rests)
                operators.append(running.operator)
                left += running.node.outgoing
            else:
                rests = False
        return Branch(edges, tuple(operators), tuple(sets), rests)


def _may_rest(running: Running) -> bool:
    plan = running.node.plan
    alone = isinstance(plan, RulesPlan) or len(plan.inputs) == 1
    return alone and not running.node.buffers_epoch and isinstance(running.operator, Rests)
