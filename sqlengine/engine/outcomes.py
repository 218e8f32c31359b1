"""The outcomes of a change, for who has asked for it and for the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice

from planner.logical import Sink
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.requests import Outcome
from sqlengine.engine.work import Work
from sqlengine.executors.replays import statements_of
from sqlengine.graphs.takeover import unchanged_report
from sqlengine.jobs.deliveries import Delivery, deliveries_of
from sqlengine.jobs.job import Job, Origin
from sqlengine.jobs.planning import PlannedJob
from sqlengine.registry import Registry
from sqlengine.system.words import counted, grouped

# So many jobs of a change are logged one by one.
_LOGGED = 20
log = logging.getLogger("sqlengine")


class Outcomes:
    """Tells what has become of the jobs of a request, or would."""

    def __init__(self, registry: Registry, graphs: GraphManager) -> None:
        self._registry = registry
        self._graphs = graphs

    def add_made(self, work: Work, known: Mapping[str, Job]) -> None:
        """Adds the outcomes of jobs that were changed; `known` are those of before."""
        for name in work.asked:
            status = "renamed" if name in work.kept else "replaced" if name in known else "added"
            version = self._registry.job(name).version
            work.outcomes[name] = Outcome(
                name,
                status,
                version,
                state=work.reports.get(name, ()),
                savepoint=work.restores.get(name),
                topics=work.topics.get(name, ()),
                warnings=work.ready[name].warnings,
            )
        for name in work.removes:
            work.outcomes[name] = Outcome(name, "removed")

    def add_valid(self, work: Work) -> None:
        """Adds the outcomes of a dry run: 'valid' for jobs that would be added, replaced or
        unchanged."""
        for name in work.asked:
            version = self._registry.log.next_version(name)
            work.outcomes[name] = Outcome(
                name,
                "valid",
                version,
                state=work.reports.get(name, ()),
                deliveries=self._deliveries(work.ready[name].sinks),
                topics=work.topics.get(name, ()),
                warnings=work.ready[name].warnings,
            )
        for name, outcome in work.outcomes.items():
            if outcome.status == "unchanged":
                graph = self._graphs.of(name).runner.graph
                work.outcomes[name] = Outcome(
                    name,
                    "valid",
                    outcome.version,
                    state=unchanged_report(graph, name),
                    deliveries=self._deliveries(statements_of(graph, name)),
                )

    def with_dependents(self, work: Work) -> dict[str, Outcome]:
        """Returns the outcomes of what was asked for, each with those of the jobs that use what it
        defines differently."""
        by_cause: dict[str, list[Outcome]] = {}
        outcomes = dict(work.outcomes)
        for name in sorted({*work.dependents, *work.unchanged}):
            outcome = self._of_dependent(work, name)
            for cause in work.blamed(self._registry.job(name).uses):
                by_cause.setdefault(cause, []).append(outcome)
            if name in outcomes and outcomes[name].status in ("unchanged", "valid"):
                status = outcomes[name].status if work.request.dry_run else outcome.status
                told = replace(outcomes[name], status=status, version=outcome.version)
                outcomes[name] = replace(told, state=outcome.state or told.state)
        return {n: replace(o, dependents=tuple(by_cause.get(n, ()))) for n, o in outcomes.items()}

    def _of_dependent(self, work: Work, name: str) -> Outcome:
        """Returns the outcome for a job that uses what others define differently now."""
        log_ = self._registry.log
        version = log_.jobs[name].version
        if name in work.unchanged:
            return Outcome(name, "unchanged", version)
        version = log_.next_version(name) if work.request.dry_run else version
        return Outcome(name, "replanned", version, state=work.reports.get(name, ()))

    def _deliveries(self, sinks: Iterable[Sink]) -> tuple[Delivery, ...]:
        return deliveries_of(sinks, once=self._graphs.delivers_once)


def log_warnings(plans: Iterable[PlannedJob]) -> None:
    """Logs each warning of a change once, with the jobs that it is about."""
    jobs: dict[str, list[str]] = {}
    for plan in plans:
        for warning in plan.warnings:
            jobs.setdefault(warning, []).append(plan.name)
    for warning, names in jobs.items():
        log.warning("%s: %s", counted(names), warning)


def log_other_origins(work: Work, known: Mapping[str, Job]) -> None:
    """Logs the jobs that came by another way than the one that has changed them now."""
    origin = work.request.origin
    others = [n for n in (*work.asked, *work.removes) if n in known and known[n].origin != origin]
    said = grouped((_overriding(work.outcomes[n], known[n], origin), n) for n in others)
    for what, names in islice(said.items(), _LOGGED):
        log.info("%s: %s", counted(names), what)
    if len(said) > _LOGGED:
        more = sum(len(names) for names in islice(said.values(), _LOGGED, None))
        log.info("and %d more jobs, which %s changed too", more, origin.value)


def _overriding(outcome: Outcome, before: Job, origin: Origin) -> str:
    old = f"version {before.version} of {before.origin.value}"
    if outcome.status == "removed":
        return f"{origin.value} removed {old}"
    return f"version {outcome.version} of {origin.value} replaces {old}"
