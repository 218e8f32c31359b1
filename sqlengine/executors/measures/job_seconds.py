"""The time of operators, by job: jobs that share an operator have equal parts of its time, but for
a set of rules, where a rule has that of the rows for which its condition was evaluated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Lock

from sqlengine.executors.dataflow.running_node import RunningNode
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.operators.rules import RulesOperator


def by_tests(
    operator: RulesOperator, seconds: float, tested: Mapping[str, int]
) -> Iterator[tuple[str, float]]:
    """Yields the seconds of each job of a set of rules, by the rows `tested` meanwhile for each
    rule; nothing where there are none.

    Rows that an index excludes cost next to nothing, and are not counted."""
    total = sum(tested.values())
    for rule, rows in tested.items():
        planned = operator.compiled.plan.rules.get(rule)
        for job in planned.owners if planned is not None else ():
            yield job, seconds * rows / total


class RowShares:
    """The parts that jobs have in the time of their families, by the rows of each. Any thread, one
    at a time."""

    def __init__(self, executor: EmbeddedExecutor) -> None:
        self._executor = executor
        self._seen: dict[str, Counter[str]] = {}  # by node, at the last look

    def split(self, name: str, seconds: float) -> Iterator[tuple[str, float]]:
        """Yields the seconds of each job of a family's node, by the rows since the last look; none
        where there were none, as for a tick, or for any other node."""
        family = self._executor.run.nodes.get(name)
        if family is not None:
            rows = self._executor.counts.of_members(family)
            new = rows - self._seen.get(name, Counter())
            self._seen[name] = rows
            total = sum(new.values())
            yield from ((job, seconds * number / total) for job, number in new.items())


class JobSeconds:
    """The seconds that the operators of a graph took since it was opened, by job. Any thread.

    What an operator took since the last look is charged to the jobs that it has now."""

    def __init__(self, executor: EmbeddedExecutor) -> None:
        self._executor = executor
        self._jobs: dict[str, float] = {}
        self._seen: dict[str, float] = {}  # by node, at the last look
        self._tested: dict[str, Counter[str]] = {}
        self._shares = RowShares(executor)
        self._lock = Lock()

    def read(self) -> dict[str, float]:
        """Returns the seconds of each job that had any."""
        with self._lock:
            running, total = dict(self._executor.running), self._executor.node_seconds()
            for name, seconds in total.items():
                spent = seconds - self._seen.get(name, 0.0)
                if spent > 0 and name in running:
                    self._charge(name, running[name], spent)
            self._seen = {n: s for n, s in total.items() if n in running}
            self._tested = {n: t for n, t in self._tested.items() if n in running}
            own = self._executor.own_seconds()
            return {j: self._jobs.get(j, 0.0) + own.get(j, 0.0) for j in self._jobs | own}

    def _charge(self, name: str, node: RunningNode, seconds: float) -> None:
        charged = list(self._by_tests(name, node.operator, seconds))
        charged = charged or list(self._shares.split(name, seconds))
        if not charged:
            jobs = node.node.jobs
            charged = [(job, seconds / len(jobs)) for job in jobs]
        for job, part in charged:
            self._jobs[job] = self._jobs.get(job, 0.0) + part

    def _by_tests(self, name: str, operator: object, seconds: float) -> Iterator[tuple[str, float]]:
        if isinstance(operator, RulesOperator):
            tested = Counter(dict(operator.tested))  # a copy: the graph's thread counts on
            new = tested - self._tested.get(name, Counter())  # drops what did not grow
            self._tested[name] = tested
            yield from by_tests(operator, seconds, new)
