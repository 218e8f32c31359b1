"""Rows that a table has not taken yet and that left the graph which wrote them, with their jobs.

They are committed later, as that graph and under their old epochs, of which a table knows only the
last one. So nobody else may write to the table as that graph before: with a later epoch there, the
table would take these rows for ones that it has, and they would be lost. Which options tell two
writers apart is the connector's business, but the table's name always does: one that is defined
anew under its name passes for the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from planner.graph.physical import sink_id
from planner.logical import Sink
from sqlengine.graphs.apart import is_apart, writer_of_graph
from sqlengine.graphs.host import PlanOf
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.job import Job
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.migrations import MigrationStore

# A sink of a plan, by its id, or a table by its name, and the graph that has written to it.
Writer = tuple[str, str]


class OwedRows:
    """The rows that are owed to the `jobs` of one engine. In the thread that makes changes."""

    def __init__(
        self, jobs: Callable[[], Iterable[Job]], plan_of: PlanOf, store: MigrationStore
    ) -> None:
        self._jobs = jobs
        self._plan_of = plan_of
        self._store = store
        self._kept: dict[str, frozenset[Writer]] = {}

    def table(
        self,
        graph: ManagedGraph,
        writers: Collection[str],
        sinks: Iterable[Sink],
        graphs: Iterable[ManagedGraph],
        besides: str = "",
    ) -> str | None:
        """Returns a table of `sinks`, new in the graph, to which rows of that graph are to be
        written first by others: jobs in the other `graphs`, or jobs that do not run. None if there
        is none. `writers`: the names as which the graph writes; `besides`: the key of what is to
        be brought to the graph itself."""
        present = graph.runner.executor.plan.sinks
        new = [s for s in sinks if s.table is not None and sink_id(s) not in present]
        if not new:
            return None
        owed = {w for g in graphs if g is not graph for w in _brought(g)}
        owed = owed.union(*self._of_jobs_at_rest(besides))
        for sink in new:
            if any((name, writer) in owed for name in _names(sink) for writer in writers):
                assert sink.table is not None
                return sink.table.display
        return None

    def _of_jobs_at_rest(self, besides: str) -> Iterator[frozenset[Writer]]:
        """Yields what jobs keep that do not run, each snapshot once."""
        kept = {job.kept for job in self._jobs() if job.kept}
        self._kept = {key: found for key, found in self._kept.items() if key in kept}
        for key in kept:
            if is_apart(key):
                yield self._of_waiting(key)
            elif key != besides and key in self._store.names:
                if key not in self._kept:
                    snapshot = self._store.get(key)
                    pending = () if snapshot is None else snapshot.pending_commits
                    self._kept[key] = frozenset((p.sink, p.writer) for p in pending)
                if self._kept[key]:
                    yield _named(self._kept[key], self._sinks_of(key))

    def _of_waiting(self, key: str) -> frozenset[Writer]:
        """Returns what jobs may owe that wait for a source: their epochs are repeated later."""
        writer = writer_of_graph(key)
        return frozenset((name, writer) for s in self._sinks_of(key) for name in _names(s))

    def _sinks_of(self, key: str) -> list[Sink]:
        """Returns the sinks of the jobs that keep what has this key."""
        versions = {job.name: job.version for job in self._jobs() if job.kept == key}
        plans = self._plan_of(versions).values()
        return [s for p in plans if isinstance(p, PlannedJob) for s in p.sinks]


def _brought(graph: ManagedGraph) -> frozenset[Writer]:
    sinks = graph.runner.executor.plan.sinks
    found = graph.runner.outputs.uncommitted.brought()
    return _named(found, [sinks[name].sink for name, _ in found if name in sinks])


def _named(owed: Collection[Writer], sinks: Iterable[Sink]) -> frozenset[Writer]:
    """Returns what is owed to these sinks, also by the names of their tables."""
    names = {sink_id(s): _names(s) for s in sinks}
    return frozenset((n, writer) for sink, writer in owed for n in names.get(sink, (sink,)))


def _names(sink: Sink) -> tuple[str, ...]:
    """Returns the sink's id, and the name of its table."""
    return (sink_id(sink),) if sink.table is None else (sink_id(sink), ".".join(sink.table.name))
