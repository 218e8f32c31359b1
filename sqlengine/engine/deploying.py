"""Puts planned jobs into the graphs: prepares the change of each graph beside the stream, writes it
down, switches.

A new version stands in the job log before it takes effect; a change that fails leaves everything as
it was, and one that a crash interrupts is finished by the next start."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from parser.errors import JobError, SqlError
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.requests import Outcome, Request
from sqlengine.engine.savepoints import Savepoints
from sqlengine.executors.graph_change import GraphChange
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.takeover import StateReport, Takeover, report
from sqlengine.jobs.job import JobVersion
from sqlengine.jobs.log import PendingChange
from sqlengine.jobs.planning import JobText, PlannedJob
from sqlengine.registry import Registry
from sqlengine.snapshots.savepoints import Restoration


@dataclass
class Work:
    """One request on its way. `texts`: what is to be planned; `kept`: renamed jobs, new name to
    old; `restores`: the savepoints that jobs start from."""

    request: Request
    texts: dict[str, JobText] = field(default_factory=dict)
    removes: set[str] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)
    ready: dict[str, PlannedJob] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    reports: dict[str, tuple[StateReport, ...]] = field(default_factory=dict)
    restores: dict[str, str] = field(default_factory=dict)

    def refuse(self, name: str, error: SqlError) -> None:
        self.outcomes[name] = Outcome(name, "refused", error=error)
        self.ready.pop(name, None)

    @property
    def touched(self) -> set[str]:
        return {*self.texts, *self.removes, *self.kept.values()}


class Deployment:
    """Changes the graphs of one engine, in the thread that makes changes."""

    def __init__(self, registry: Registry, graphs: GraphManager, savepoints: Savepoints) -> None:
        self._registry = registry
        self._graphs = graphs
        self._savepoints = savepoints

    def deploy(self, work: Work) -> None:
        """Prepares the change of each graph that the request touches, and only then switches
        them."""
        registry = self._registry
        self._refuse_undividable(work)
        restored = self._restorations(work)
        versions = registry.next_versions(work.texts, work.ready, work.request.origin, work.kept)
        graphs = {n: self._place(work, n, versions[n]) for n in work.ready if n not in restored}
        gone = work.removes | {work.kept[n] for n in work.ready if n in work.kept}
        prepared = self._prepare(work, graphs, {n: v.version for n, v in versions.items()}, gone)
        gone = work.removes | {work.kept[n] for n in work.ready if n in work.kept}
        renamed = {new: old for new, old in work.kept.items() if new in work.ready}
        change = PendingChange(
            {n: versions[n].version for n in work.ready},
            {n: graphs[n].name if n in graphs else _own(versions[n]) for n in work.ready},
            tuple(sorted(gone)),
            renamed,
            {n: r.savepoint.path for n, r in restored.items()},
        )
        for name in work.ready:
            registry.register_policies(versions[name].version, work.ready[name])
        earlier = registry.earlier_versions(renamed)
        self._carry_out(change, [*earlier, *(versions[n] for n in work.ready)], prepared, restored)
        registry.complete_change(change, work.ready)
        self._graphs.retire_idle()

    def _carry_out(
        self,
        change: PendingChange,
        versions: Collection[JobVersion],
        prepared: Sequence[tuple[ManagedGraph, GraphChange]],
        restored: Mapping[str, Restoration],
    ) -> None:
        """Writes the change down and makes it. Where a graph does not take its part, none has taken
        any, or the change stays pending and the rest of it is made before the next one."""
        log, now = self._registry.log, self._registry.clock()
        waiting = list(prepared)
        made = 0
        try:
            log.begin(change, versions, now)
            for name, restoration in restored.items():
                self._graphs.restore(change.graphs[name], name, change.jobs[name], restoration)
                made += 1
            while waiting:
                graph, part = waiting.pop(0)
                graph.switch(part)
                made += 1
        except SqlError:
            if log.pending is change and not made:
                log.drop_pending(now)
            raise
        finally:
            for _, part in waiting:
                part.abandon()

    def _refuse_undividable(self, work: Work) -> None:
        """A job that runs in parts stays there."""
        for name, plan in list(work.ready.items()):
            why = self._graphs.of(work.kept.get(name, name)).why_unsupported(plan.sinks)
            if why is not None:
                reason = f"job '{name}' runs in parts, and this text cannot"
                work.refuse(
                    name, JobError(reason, detail=why, hint="remove the job, and submit it again")
                )

    def _restorations(self, work: Work) -> dict[str, Restoration]:
        """What jobs start from that ask for a savepoint; those that cannot start from theirs are
        refused."""
        found = {}
        for name, path in work.restores.items():
            if name not in work.ready:
                continue
            plan = work.ready[name]
            try:
                restoration = self._savepoints.restoration(name, plan, path)
            except SqlError as error:
                work.refuse(name, error)
                continue
            for reason in self._unfit(self._graphs.main, {name: plan}).values():
                work.refuse(name, reason)
            if name in work.ready:
                found[name] = restoration
                work.reports[name] = report(restoration.decisions, restoration.graph, name)
        return found

    def finish(self) -> None:
        """Makes what is missing of a change that a crash or a full disk interrupted."""
        change = self._registry.log.pending
        if change is None:
            return
        plans = {
            n: p
            for n, p in self._registry.plans_of(change.jobs).items()
            if isinstance(p, PlannedJob)
        }
        self._finish_restores(change, plans)
        for graph in [
            self._graphs.get_or_create(n)
            for n in dict.fromkeys((*change.graphs.values(), *self._graphs.by_name))
        ]:
            running = graph.runner.jobs
            mine = {
                name: plan
                for name, plan in plans.items()
                if change.graphs[name] == graph.name
                and running.get(name, 0) != bool(plan.sinks) * change.jobs[name]
            }
            leaving = [n for n in change.removes if n in running]
            part = self._change_of(graph, mine, change.jobs, leaving, change.renamed)
            if part is not None:
                graph.switch(part[0])
        self._registry.complete_change(change, plans)
        self._graphs.retire_idle()

    def _finish_restores(self, change: PendingChange, plans: Mapping[str, PlannedJob]) -> None:
        for name, path in change.savepoints.items():
            if name in plans and not self._graphs.runs(name):
                restoration = self._savepoints.restoration(name, plans[name], path)
                self._graphs.restore(change.graphs[name], name, change.jobs[name], restoration)

    def _place(self, work: Work, name: str, version: JobVersion) -> ManagedGraph:
        """A job that runs stays where it is; a new one goes where its position is."""
        held = work.kept.get(name, name)
        if self._graphs.runs(held):
            return self._graphs.of(held)
        return self._graphs.place(work.ready[name], _own(version))

    def _prepare(
        self,
        work: Work,
        graphs: Mapping[str, ManagedGraph],
        versions: Mapping[str, int],
        gone: Collection[str],
    ) -> list[tuple[ManagedGraph, GraphChange]]:
        prepared = []
        for graph in dict.fromkeys((*graphs.values(), *map(self._graphs.of, gone))):
            mine = {n: work.ready[n] for n in work.ready if graphs.get(n) is graph}
            leaving = [n for n in gone if n in graph.runner.jobs]
            try:
                part = self._change_of(graph, mine, versions, leaving, work.kept)
            except SqlError as error:
                for name, reason in (
                    self._unfit(graph, mine) or dict.fromkeys(mine, error)
                ).items():
                    work.refuse(name, reason)
                    mine.pop(name)
                    leaving = [n for n in leaving if n != work.kept.get(name)]
                part = self._change_of(graph, mine, versions, leaving, work.kept)
            if part is not None:
                prepared.append((graph, part[0]))
                work.reports |= part[1].reports
        return prepared

    def dry_run(self, work: Work) -> None:
        """What `deploy` would come to: the same changes, prepared and given up. Each job is one of
        those that are ready still, or refused."""
        self._refuse_undividable(work)
        restored = self._restorations(work)
        versions = {n: self._registry.log.next_version(n) for n in work.ready}
        graphs = {n: self._graphs.of(work.kept.get(n, n)) for n in work.ready if n not in restored}
        gone = {work.kept[n] for n in work.ready if n in work.kept}
        for _, change in self._prepare(work, graphs, versions, gone):
            change.abandon()

    def _change_of(
        self,
        graph: ManagedGraph,
        plans: Mapping[str, PlannedJob],
        versions: Mapping[str, int],
        leaving: Sequence[str],
        kept: Mapping[str, str],
    ) -> tuple[GraphChange, Takeover] | None:
        """The change of one graph, compiled and connected, and what becomes of state; None when it
        stays as it is."""
        running = graph.runner.jobs
        numbers = {
            n: versions[n] if p.sinks else 0 for n, p in plans.items() if p.sinks or n in running
        }
        numbers |= dict.fromkeys(leaving, 0)
        if not numbers:
            return None
        taken = {new: old for new, old in kept.items() if numbers.get(new)}
        return graph.plan_change(graph.runner.graph, plans, numbers, taken)

    def _unfit(self, graph: ManagedGraph, plans: Mapping[str, PlannedJob]) -> dict[str, SqlError]:
        """Jobs that planning accepts and running does not (a pattern that cannot compile, a topic
        that is missing), found by halving."""
        runnable = {n: p for n, p in plans.items() if p.sinks}
        if not runnable:
            return {}
        try:
            graph.change(graph.runner.graph, runnable, dict.fromkeys(runnable, 1), {}).abandon()
            return {}
        except SqlError as error:
            if len(runnable) == 1:
                return {next(iter(runnable)): error}
        names = list(runnable)
        half = len(names) // 2
        parts = (names[:half], names[half:])
        return {
            n: e
            for part in parts
            for n, e in self._unfit(graph, {n: plans[n] for n in part}).items()
        }


def _own(version: JobVersion) -> str:
    """The name of a graph of the version's own."""
    return f"{version.name}@{version.version}"
