"""Divides the time of a graph's operators between single jobs and what jobs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqlengine.executors.dataflow.running_node import RunningNode
from sqlengine.executors.embedded import EmbeddedExecutor

# The time of a node: itself (None: of sinks outside of any), what was for single jobs, by job, and
# the rest, in s.
Share = tuple[RunningNode | None, dict[str, float], float]


class NodeShares:
    """The time of the operators of one graph, from look to look. Any thread, one at a time.

    Single jobs have what a set of rules computes for them alone, and the rows that sinks take from
    them; the members of a family its time by the rows of each."""

    def __init__(self, executor: EmbeddedExecutor) -> None:
        self._executor = executor
        self._seen: dict[str, float] = {}  # by node, at the last look
        self._own: dict[str, dict[str, float]] = {}
        self._rows: dict[str, Counter[str]] = {}

    def take(self) -> Iterator[Share]:
        """Yields what each node took since the last look, if anything."""
        running, total = dict(self._executor.running), self._executor.node_seconds()
        for name, seconds in total.items():
            spent = seconds - self._seen.get(name, 0.0)
            if spent > 0 and name in running:
                own = self._new(name)
                rest = max(0.0, spent - sum(own.values()))
                members = self._by_rows(name, rest)
                yield running[name], {**own, **members}, 0.0 if members else rest
        yield None, self._new(""), 0.0
        self._seen = {n: s for n, s in total.items() if n in running}
        self._own = {n: s for n, s in self._own.items() if n in running or not n}
        self._rows = {n: r for n, r in self._rows.items() if n in running}

    def _new(self, name: str) -> dict[str, float]:
        own, before = self._executor.guard.own.of(name), self._own.get(name, {})
        self._own[name] = own
        return {j: s - before.get(j, 0.0) for j, s in own.items() if s > before.get(j, 0.0)}

    def _by_rows(self, name: str, seconds: float) -> dict[str, float]:
        """Returns the seconds of each job of a family's node; none where there were no rows since
        the last look, as for a tick, or for any other node."""
        family = self._executor.run.nodes.get(name)
        if family is None:
            return {}
        rows = self._executor.counts.of_members(family)
        new = rows - self._rows.get(name, Counter())
        self._rows[name] = rows
        total = sum(new.values())
        return {job: seconds * number / total for job, number in new.items()}
