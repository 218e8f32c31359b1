"""The sums of what all graphs of a process did since it started, also those that are closed, for
metrics, which never fall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from weakref import ref

from sqlengine.executors.measures.job_costs import FREE, JobCost
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.operators.rules import RulesOperator


@dataclass(frozen=True)
class GraphTotals:
    """Sums over graphs. `sinks`: rows by table; `operators` and `rules`: their counters by name;
    `costs` by job.

    `last`: the closed graph that was added last."""

    rows_in: int = 0
    epochs: int = 0
    dead_letters: int = 0
    sinks: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    costs: Mapping[str, JobCost] = field(default_factory=dict)
    last: ref[ManagedGraph] | None = None

    def plus(self, graph: ManagedGraph) -> GraphTotals:
        """Returns the sums with those of a graph (any thread)."""
        executor, progress = graph.executor, graph.runner.progress
        sinks, operators, rules = map(Counter, (self.sinks, self.operators, self.rules))
        sinks.update(dict(progress.rows_gone))  # copied at once: the graph counts on
        for name, rows in dict(progress.rows_out).items():
            sink = executor.plan.sinks.get(name)
            table = None if sink is None else sink.sink.table
            sinks[name if table is None else table.display] += rows
        operators.update(_of_nodes(executor.counts.retired))
        operators.update(dict(graph.checkpoints.counters))
        for node in list(executor.running.values()):
            operators.update(_of_nodes(node.context.counters))
            if isinstance(node.operator, RulesOperator):
                rules.update(node.operator.compiled.ruleset.counters.as_dict())
        return replace(
            self,
            rows_in=self.rows_in + progress.rows_in,
            epochs=self.epochs + progress.epochs,
            dead_letters=self.dead_letters + progress.dead_letters,
            sinks=sinks,
            operators=operators,
            rules=rules,
            costs=_sums(self.costs, graph.costs_by_job()),
        )

    def plus_closed(self, graph: ManagedGraph) -> GraphTotals:
        """Returns the sums with those of a graph that is being closed."""
        return replace(self.plus(graph), last=ref(graph))

    def plus_open(self, graphs: Iterable[ManagedGraph]) -> GraphTotals:
        """Returns the sums with those of open graphs, which were listed before: one that was closed
        since is not added again."""
        total, closed = self, None if self.last is None else self.last()
        for graph in graphs:
            if graph is not closed:
                total = total.plus(graph)
        return total


def _sums(one: Mapping[str, JobCost], other: Mapping[str, JobCost]) -> dict[str, JobCost]:
    return {job: one.get(job, FREE).plus(other.get(job, FREE)) for job in {*one, *other}}


def _of_nodes(counters: Counter[str]) -> dict[str, int]:
    """Returns the counters of whole operators, without those of members of a family."""
    return {name: number for name, number in dict(counters).items() if "/" not in name}


class Rising:
    """Numbers that a reader was told, by name: none falls."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._parts: dict[str, Mapping[str, float]] = {}

    def at_least(self, name: str, value: float) -> float:
        """Returns a sum, which is too small for a moment while a part of it is being closed."""
        self._last[name] = max(value, self._last.get(name, 0))
        return self._last[name]

    def onwards(self, name: str, value: float) -> float:
        """Returns the sum of a number and of what it was before it began anew."""
        last = self._last.get(name, 0)
        if value < last:
            self._before[name] = self._before.get(name, 0) + last
        self._last[name] = value
        return self._before.get(name, 0) + value

    def total(self, name: str, parts: Mapping[str, float]) -> float:
        """Returns the sum of numbers, by their names, which begin and end by themselves: one that
        has gone, or begins anew, counts on."""
        ended = (n for part, n in self._parts.get(name, {}).items() if parts.get(part, -1) < n)
        self._before[name] = self._before.get(name, 0) + sum(ended)
        self._parts[name] = dict(parts)
        return self._before[name] + sum(parts.values())
