"""Deploys planned jobs: prepares the change of each graph beside the stream, logs it, switches.

A new version stands in the job log before it takes effect. A change that fails leaves everything as
it was; one that a crash interrupts is rolled forward by the next start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from parser.errors import SqlError, TryAgain
from sqlengine.access.shadow_names import is_shadow, rule_of, shadow_of
from sqlengine.connectors.environment import rehearsing
from sqlengine.engine.deploying.checks import DeploymentChecks
from sqlengine.engine.deploying.destinations import Destinations
from sqlengine.engine.deploying.job_placement import JobPlacement
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.savepoints import Savepoints
from sqlengine.engine.work import Work
from sqlengine.executors.graph_change import GraphChange
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.takeover import Takeover, report
from sqlengine.jobs.job import JobVersion
from sqlengine.jobs.log import PendingChange
from sqlengine.jobs.planning import PlannedJob
from sqlengine.registry import Registry
from sqlengine.snapshots.savepoints import Restoration


@dataclass(frozen=True)
class Prepared:
    """A change that is prepared in all graphs that it affects (`parts`); `abandon` it if it is not
    made."""

    versions: Mapping[str, JobVersion]
    graphs: Mapping[str, ManagedGraph]
    restored: Mapping[str, Restoration]
    parts: Sequence[tuple[ManagedGraph, GraphChange]]

    def abandon(self) -> None:
        for _, part in self.parts:
            part.abandon()


class Deployment:
    """Changes the graphs of one engine, in the thread that makes changes."""

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        placement: JobPlacement,
        savepoints: Savepoints,
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._savepoints = savepoints
        self._destinations = Destinations(registry, graphs, placement)
        self._checks = DeploymentChecks(registry, graphs, self._destinations)

    def prepare(self, work: Work) -> Prepared:
        """Prepares the change of each graph that the request affects, beside the stream.

        This may refuse jobs, which are no longer in `work.ready` then.
        """
        registry = self._registry
        self._checks.check(work)
        restored = self._restorations(work)
        texts = {**work.texts, **work.dependents}
        versions = registry.versions.planned(texts, work.ready, work.request.origin, work.kept)
        versions |= registry.versions.following(versions, work.dependents, work.causes)
        numbers = {n: v.version for n, v in versions.items()}
        placed = (n for n in work.ready if n not in restored)
        graphs = {n: self._destinations.graph(work, n, numbers[n]) for n in placed}
        parts = self._prepare(work, graphs, numbers, work.gone)
        return Prepared(versions, graphs, restored, parts)

    def deploy(self, work: Work, prepared: Prepared) -> None:
        """Logs a prepared change, switches the graphs to it, and updates the catalog."""
        registry, versions = self._registry, prepared.versions
        names = {n: self._graph_name(work, n, prepared) for n in work.ready}
        targets = {n: self._destinations.told(work, n) for n in work.ready}
        change = _pending_change(work, versions, names, prepared.restored, targets)
        for name in work.ready:
            registry.policies.register(versions[name].version, work.ready[name])
        earlier = registry.versions.earlier(change.renamed)
        new = [versions[n] for n in work.ready]
        try:
            self._execute(change, [*earlier, *new], prepared.parts, prepared.restored)
        except TryAgain as error:
            raise (_still_owing(error, work.gone) if work.gone else error) from None
        registry.complete_change(change, work.ready)
        self._graphs.retire_idle()

    def _graph_name(self, work: Work, name: str, prepared: Prepared) -> str:
        """Returns the name of the graph that a job goes into; one from a savepoint has its own."""
        if name in prepared.graphs:
            return prepared.graphs[name].name
        return self._destinations.own_graph(work, name, prepared.versions[name].version)

    def _execute(
        self,
        change: PendingChange,
        versions: Collection[JobVersion],
        prepared: Sequence[tuple[ManagedGraph, GraphChange]],
        restored: Mapping[str, Restoration],
    ) -> None:
        """Logs the change and switches the graphs.

        If a graph fails to switch before any has, the change is dropped; else it stays pending, and
        is rolled forward before the next one.
        """
        log, now = self._registry.log, self._registry.clock()
        waiting = list(prepared)
        made = 0
        try:
            # The commit point: from here on a crash leads to `finish`, which rolls the change
            # forward.
            log.begin(change, versions, now)
            for name, restoration in restored.items():
                self._graphs.restore(change.graphs[name], name, change.jobs[name], restoration)
                made += 1
            while waiting:
                graph, part = waiting.pop(0)
                graph.switch(part)
                made += 1
        except SqlError:
            # Once a graph has switched, its epoch log has the change: going back would contradict
            # it.
            if log.pending is change and not made:
                log.drop_pending(now)
            raise
        finally:
            for _, part in waiting:
                part.abandon()

    def _restorations(self, work: Work) -> dict[str, Restoration]:
        """Reads the savepoints that jobs start from, and refuses jobs that cannot start from
        theirs."""
        restorations = {}
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
                restorations[name] = restoration
                work.reports[name] = report(restoration.decisions, restoration.graph, name)
        return restorations

    def finish(self) -> None:
        """Rolls forward the pending change that a crash or a full disk interrupted, if any."""
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
            missing = {
                name: plan
                for name, plan in plans.items()
                if change.graphs[name] == graph.name
                # A job that only defines has no sinks, and does not run: its version in the graph
                # is 0.
                and running.get(name, 0) != bool(plan.sinks) * change.jobs[name]
            }
            removals = [n for n in change.removes if n in running]
            part = self._change_of(graph, missing, change.jobs, removals, change.renamed)
            if part is not None:
                graph.switch(part[0])
        self._registry.complete_change(change, plans)
        self._graphs.retire_idle()

    def _finish_restores(self, change: PendingChange, plans: Mapping[str, PlannedJob]) -> None:
        for name, path in change.savepoints.items():
            if name in plans and not self._graphs.runs(name):
                restoration = self._savepoints.restoration(name, plans[name], path)
                self._graphs.restore(change.graphs[name], name, change.jobs[name], restoration)

    def _prepare(
        self,
        work: Work,
        graphs: Mapping[str, ManagedGraph],
        versions: Mapping[str, int],
        gone: Collection[str],
    ) -> list[tuple[ManagedGraph, GraphChange]]:
        """Prepares the change of each graph. Refuses jobs that cannot run, and prepares the graph
        again without them."""
        prepared = []
        for graph in dict.fromkeys((*graphs.values(), *map(self._graphs.of, gone))):
            plans = {n: work.ready[n] for n in work.ready if graphs.get(n) is graph}
            removals = [n for n in gone if n in graph.runner.jobs]
            try:
                part = self._change_of(graph, plans, versions, removals, work.kept)
            except SqlError as error:
                # Each plan may be fine alone, and only all of them fail together: then all are
                # refused.
                refused = self._unfit(graph, plans) or dict.fromkeys(plans, error)
                for name, reason in refused.items():
                    work.refuse(name, reason)
                    plans.pop(name)
                    removals = [n for n in removals if n != work.kept.get(name)]
                part = self._change_of(graph, plans, versions, removals, work.kept)
            if part is not None:
                prepared.append((graph, part[0]))
                work.reports |= part[1].reports
        return prepared

    def dry_run(self, work: Work) -> None:
        """Prepares the changes of `deploy` and abandons them. Afterwards each job is still in
        `work.ready`, or refused."""
        self._checks.check(work)
        with rehearsing():
            self._rehearse(work)

    def _rehearse(self, work: Work) -> None:
        restored = self._restorations(work)
        versions = {n: self._registry.log.next_version(n) for n in work.ready}
        beside = {n: rule_of(n) for n in work.ready if not self._graphs.runs(n)}
        current = beside | work.kept
        graphs = {n: self._graphs.of(current.get(n, n)) for n in work.ready if n not in restored}
        for _, change in self._prepare(work, graphs, versions, work.renamed_from):
            change.abandon()

    def _change_of(
        self,
        graph: ManagedGraph,
        plans: Mapping[str, PlannedJob],
        versions: Mapping[str, int],
        removals: Sequence[str],
        kept: Mapping[str, str],
    ) -> tuple[GraphChange, Takeover] | None:
        """Prepares the change of one graph (compiled, connectors opened), and decides which state
        is taken over. Returns None if the graph stays as it is."""
        running = graph.runner.jobs
        numbers = {
            n: versions[n] if p.sinks else 0 for n, p in plans.items() if p.sinks or n in running
        }
        numbers |= dict.fromkeys(removals, 0)
        if not numbers:
            return None
        renamed = {new: old for new, old in kept.items() if numbers.get(new)}
        renamed |= _beside(numbers, running)
        found = graph.plan_change(graph.runner.graph, plans, numbers, renamed)
        _check_starts(found[0])
        return found

    def _unfit(self, graph: ManagedGraph, plans: Mapping[str, PlannedJob]) -> dict[str, SqlError]:
        """Returns the jobs that cannot be prepared although they were planned (a pattern does not
        compile, a topic is missing), and why; found by bisection."""
        runnable = {n: p for n, p in plans.items() if p.sinks}
        if not runnable:
            return {}
        try:
            # Any version will do (here 1): the change is never applied. n jobs with k faults take
            # about k log n tries.
            change = graph.change(graph.runner.graph, runnable, dict.fromkeys(runnable, 1), {})
            _check_starts(change)
            change.abandon()
            return {}
        except SqlError as error:
            if len(runnable) == 1:
                return {next(iter(runnable)): error}
        names = list(runnable)
        half = len(names) // 2
        halves = (names[:half], names[half:])
        return {
            n: e
            for some in halves
            for n, e in self._unfit(graph, {n: plans[n] for n in some}).items()
        }


def _check_starts(change: GraphChange) -> None:
    """Raises SqlError, and abandons the change, where one of its sources cannot begin."""
    try:
        change.check_starts()
    except BaseException:
        change.abandon()
        raise


def _pending_change(
    work: Work,
    versions: Mapping[str, JobVersion],
    graphs: Mapping[str, str],
    restored: Mapping[str, Restoration],
    targets: Mapping[str, str],
) -> PendingChange:
    """Returns the entry of the job log for the jobs that are ready, with the names of their graphs,
    and where they are told to run."""
    return PendingChange(
        {n: versions[n].version for n in work.ready},
        dict(graphs),
        tuple(sorted(work.gone)),
        {new: old for new, old in work.kept.items() if new in work.ready},
        {n: r.savepoint.path for n, r in restored.items()},
        origin=work.request.origin,
        by=work.request.by.name,
        dormant=tuple(sorted(work.dormant)),
        fates=dict(work.fates),
        targets={n: to for n, to in targets.items() if to},
    )


def _beside(numbers: Mapping[str, int], running: Collection[str]) -> dict[str, str]:
    """Returns the jobs of a change that begin with the state of another one: a new shadow with
    that of its rule, and a rule with that of the shadow that ends with the change."""
    found = {}
    for name in (n for n, version in numbers.items() if version):
        if not is_shadow(name) and numbers.get(shadow_of(name)) == 0:
            found[name] = shadow_of(name)
        elif is_shadow(name) and name not in running and rule_of(name) in running:
            found[name] = rule_of(name)
    return found


def _still_owing(error: TryAgain, gone: Iterable[str]) -> TryAgain:
    """Returns the error of a table that has not taken the rows of jobs which are to go, with what
    lets them go without it."""
    names = " ".join(sorted(gone))
    hint = f"try again, or give its rows up: 'sql stop {names}', then 'sql remove {names}'"
    return TryAgain(error.message, detail=error.detail, hint=hint)
