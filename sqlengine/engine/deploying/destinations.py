"""Says where the jobs of a request go: to which target, and into which graph."""

from __future__ import annotations

from parser.errors import JobError
from sqlengine.access.shadow_names import is_shadow, rule_of, shadow_of
from sqlengine.config import Target
from sqlengine.engine.deploying.job_placement import JobPlacement
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.work import Work
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.registry import Registry


class Destinations:
    """The destinations of planned jobs, in the thread that makes changes."""

    def __init__(self, registry: Registry, graphs: GraphManager, placement: JobPlacement) -> None:
        self._registry = registry
        self._graphs = graphs
        self._placement = placement

    def graph(self, work: Work, name: str, version: int) -> ManagedGraph:
        """Returns the graph of a job: its present one if it runs, for a shadow that of the live
        version and the other way round, else that for a new job."""
        current = work.kept.get(name, name)
        if self._graphs.runs(current):
            return self._graphs.of(current)
        beside = rule_of(name) if is_shadow(name) else shadow_of(name)
        if self._graphs.runs(beside):
            graph = self._graphs.of(beside)
            if graph.why_unsupported(work.ready[name].sinks) is None:
                return graph
        own = self.own_graph(work, name, version)
        return self._placement.place(work.ready[name], own, self._target(work, name))

    def own_graph(self, work: Work, name: str, version: int) -> str:
        """Returns the name of a graph for this version of a job alone."""
        target = self._target(work, name)
        return self._graphs.targets.graph_name(f"{name}@{version}", target)

    def _target(self, work: Work, name: str) -> Target:
        """Returns where a job of the request runs from now on."""
        return self._graphs.targets.of(work.ready[name].settings, self.told(work, name))

    def told(self, work: Work, name: str) -> str:
        """Returns where a job is told to run, '' where only its text says it: a shadow where its
        rule does, whose operations and state it shares. JobError if it is to be elsewhere."""
        asked = work.request.targets.get(name)
        if is_shadow(name) and self._graphs.runs(rule_of(name)):
            there = self._graphs.targets.of_graph(self._graphs.of(rule_of(name)))
            if asked in (None, there):
                return there
            raise JobError(
                f"a shadow runs where its rule does, which is '{there}'",
                hint=f"leave out '--on {asked}', or 'sql move {rule_of(name)} --to {asked}' first",
            )
        return asked or self._registry.told(work.kept.get(name, name), work.ready[name])
