"""Refuses planned jobs that cannot run as they are asked to, before anything is opened."""

from __future__ import annotations

from dataclasses import replace

from parser.errors import JobError, SqlError
from sqlengine.access.shadow_names import is_shadow, rule_of
from sqlengine.engine.deploying.destinations import Destinations
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.work import Work
from sqlengine.jobs.shadow_plans import Beside, as_shadow
from sqlengine.registry import Registry


class DeploymentChecks:
    """Checks the jobs of a request that are ready, one after the other for each check."""

    def __init__(
        self, registry: Registry, graphs: GraphManager, destinations: Destinations
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._destinations = destinations

    def check(self, work: Work) -> None:
        """Refuses jobs; sets the topics that the others would create, and the plans of shadows."""
        for check in (
            self._find_missing_topics,
            self._set_shadow,
            self._check_parts,
            self._check_target,
            self._check_owed_rows,
        ):
            for name in list(work.ready):
                try:
                    check(work, name)
                except SqlError as error:
                    work.refuse(name, error)
        _forget_similar(work)

    def _find_missing_topics(self, work: Work, name: str) -> None:
        work.topics[name] = self._graphs.tables.missing_topics(work.ready[name])

    def _set_shadow(self, work: Work, name: str) -> None:
        """Sets what runs of a shadow: beside the live version as it is after the change."""
        if not is_shadow(name):
            return
        registry, rule = self._registry, rule_of(name)
        number = registry.versions.of_shadow(name, work.ready)
        version = registry.versions.beside(name, work.ready)
        beside = None
        if version:
            live = work.ready.get(rule) or registry.required_plans({rule: version})[rule]
            beside = Beside(version, live)
        work.ready[name] = as_shadow(work.ready[name], number, beside)

    def _check_parts(self, work: Work, name: str) -> None:
        """JobError for a new text of a job in a distributed graph that cannot run in parts."""
        graph = self._graphs.of(work.kept.get(name, name))
        why = graph.why_unsupported(work.ready[name].sinks)
        if why is not None:
            raise JobError(
                f"job '{name}' runs in parts, and this text cannot",
                detail=why,
                hint="remove the job, and submit it again",
            )

    def _check_target(self, work: Work, name: str) -> None:
        told = self._destinations.told(work, name)
        self._graphs.targets.check(work.ready[name], told)

    def _check_owed_rows(self, work: Work, name: str) -> None:
        """JobError for a new text that writes to a table which is to take older rows of its graph
        first."""
        current = work.kept.get(name, name)
        graph = self._graphs.of(current)
        if current not in graph.runner.jobs:
            return
        table = self._graphs.owes_rows(graph, work.ready[name].sinks)
        if table is not None:
            rows = f"all rows yet that graph '{graph.name}' wrote to it"
            raise JobError(
                f"job '{name}' cannot write to table '{table}' now",
                detail=f"the table has not taken {rows}",
                hint="submit it again once the jobs run that have these rows, see 'sql jobs'",
            )


def _forget_similar(work: Work) -> None:
    """Takes back hints at other names for topics that another job writes: they are not misspelt."""
    written = {t.name for topics in work.topics.values() for t in topics if t.written}
    for name, topics in work.topics.items():
        work.topics[name] = tuple(
            replace(t, similar=None) if t.name in written else t for t in topics
        )
