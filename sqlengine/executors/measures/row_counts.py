"""Counts of rows by job: those given to sinks, those dropped as late, alerts that are held back,
and rows that a family has had for its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from planner.graph.family_nodes import Family
from sqlengine.executors.dataflow.running_node import RunningFamilies, RunningNode
from sqlengine.operators.family_rows import FamilyRowsOperator
from sqlengine.operators.member_counts import HELD_BACK, LATE_ROWS
from sqlengine.operators.rules import RulesOperator

# What operators count themselves.
_KEPT: Final = (LATE_ROWS, HELD_BACK)


class RowCounts:
    """The counts of the operators of one graph, which are `running`. Written by the graph's thread;
    what is public may be asked in any.

    `families`: the plan with families that runs. `retired`: counters of nodes that are gone."""

    def __init__(self, running: Mapping[str, RunningNode], families: RunningFamilies) -> None:
        self._running = running
        self._families = families
        self.retired: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()
        self._lost: dict[str, Counter[str]] = {counter: Counter() for counter in _KEPT}
        # By counter and node: the rows that are in `_lost` already, since its jobs have changed.
        self._settled: dict[tuple[str, str], int] = {}

    # ---- counting --------------------------------------------------------------------------------

    def add(self, job: str, rows: int) -> None:
        """Adds rows given to sinks for a job."""
        self._rows[job] += rows

    def add_all(self, rows: Mapping[str, int]) -> None:
        """Adds rows given to sinks, by job."""
        self._rows.update(rows)

    def retire(self, node: RunningNode) -> None:
        """Keeps what an operator that closes has counted."""
        if isinstance(node.operator, RulesOperator):
            self._rows.update(node.operator.rows_by_job)

    def settle(self, node: RunningNode) -> None:
        """Credits what a node has counted to its jobs, which are others from now on."""
        for counter in _KEPT:
            for name, jobs, rows in self._counted(counter, node):
                new = rows - self._settled.get((counter, name), 0)
                self._lost[counter].update(dict.fromkeys(jobs, new))
                self._settled[counter, name] = rows

    def remove(self, node: RunningNode) -> None:
        """Follows a node that goes: its counters are others if it comes again."""
        self.retired.update(node.context.counters)
        self.settle(node)
        for counter in _KEPT:
            for name, _, _ in self._counted(counter, node):
                del self._settled[counter, name]

    def leave(self, node: str, family: Family, numbers: Collection[int]) -> None:
        """Follows members that leave a node of their family, where what it counted is settled."""
        nth = family.states.index(node)
        for counter in _KEPT:
            for number in numbers:
                self._running[node].context.counters.pop(f"{counter}/{number}", None)
                self._settled.pop((counter, family.members[number].states[nth]), None)

    # ---- what was counted ------------------------------------------------------------------------

    def rows_by_job(self) -> Counter[str]:
        """Returns the rows given to sinks so far, by job: those of rules, and those of other
        operators that one job owns."""
        rows = Counter(self._rows)
        for node in list(self._running.values()):
            if isinstance(node.operator, RulesOperator):
                rows.update(dict(node.operator.rows_by_job))  # a copy: the graph's thread counts on
        return rows

    def rows_of(self, jobs: Collection[str]) -> dict[str, int]:
        """Returns the rows of these jobs alone, see `rows_by_job`."""
        operators = [node.operator for node in self._running.values()]
        counts = [o.rows_by_job for o in operators if isinstance(o, RulesOperator)]
        return {job: self._rows[job] + sum(c[job] for c in counts) for job in jobs}

    def late_by_job(self) -> Counter[str]:
        """Returns the rows dropped as late so far, by job; an operation that jobs share counts for
        each of them."""
        return self._by_job(LATE_ROWS)

    def held_back_by_job(self) -> Counter[str]:
        """Returns the alerts held back so far, by job, as `late_by_job`."""
        return self._by_job(HELD_BACK)

    def _by_job(self, counter: str) -> Counter[str]:
        lost = Counter(self._lost[counter])
        for node in list(self._running.values()):
            for name, jobs, rows in self._counted(counter, node):
                lost.update(dict.fromkeys(jobs, rows - self._settled.get((counter, name), 0)))
        return lost

    def late_by_node(self) -> dict[str, int]:
        """Returns the rows dropped as late so far, by node, or by that of a family's member."""
        nodes = list(self._running.values())
        return {name: rows for node in nodes for name, _, rows in self._counted(LATE_ROWS, node)}

    def of_members(self, family: Family) -> Counter[str]:
        """Returns the rows that a family has had so far, by job; where jobs share a member, for
        each of them."""
        rows: Counter[str] = Counter()
        for port, name in enumerate(family.heads):
            head = self._running.get(name)
            if head is not None and isinstance(head.operator, RulesOperator | FamilyRowsOperator):
                passed = dict(head.operator.passed)
                for member in family.members.values():
                    number = passed.get(member.entries[port].rule, 0)
                    rows.update(dict.fromkeys(member.jobs, number))
        return rows

    def _counted(
        self, counter: str, node: RunningNode
    ) -> Iterator[tuple[str, frozenset[str], int]]:
        """Yields the count of a node, or of each member of a family that has any: by the node
        that is theirs, with its jobs."""
        counters, family = node.context.counters, self._families.run.families.get(node.node.id)
        if family is None:
            counted = [(node.node.id, node.node.jobs, counters[counter])]
        else:
            nth = family.states.index(node.node.id)
            names = ((m, f"{counter}/{number}") for number, m in family.members.items())
            counted = [
                (m.states[nth], m.jobs, counters[name]) for m, name in names if name in counters
            ]
        yield from (entry for entry in counted if entry[2])
