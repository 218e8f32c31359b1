"""Shows how jobs run: EXPLAIN of their present versions, as they are merged with others."""

from __future__ import annotations

from dataclasses import replace

from planner.settings import FILTER_PUSH_DOWN
from sqlengine.access.shadow_names import is_shadow, rule_of
from sqlengine.config import Config
from sqlengine.engine.deploying.job_placement import JobPlacement
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.views.spark_views import stages_of_job
from sqlengine.jobs.explanation import Json, explain_sinks, explain_sinks_json
from sqlengine.jobs.job import MAIN, Job
from sqlengine.jobs.planning import PlannedJob, plan_job
from sqlengine.registry import Registry


class Explanations:
    """Explains the jobs of one engine. Any thread."""

    def __init__(
        self, registry: Registry, graphs: GraphManager, placement: JobPlacement, config: Config
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._placement = placement
        self._config = config

    def text(self, job: Job) -> str:
        """Returns the plan of a job's version after each step, what it shares with others, and
        where it runs if that may be elsewhere than in the main graph."""
        planned, graph = self._traced(job), self._graphs.of(job.name)
        # That of the server: the scan is one for all jobs.
        filters = self._config.settings.get(FILTER_PUSH_DOWN, "true")
        text = explain_sinks(
            planned.sinks,
            planned.traces,
            graph.runner.graph,
            job.name,
            {**planned.settings, FILTER_PUSH_DOWN: filters},
            once=self._graphs.delivers_once,
            stages=stages_of_job(graph, job.name),
            families=graph.executor.run,
        )
        if not self._config.instances and job.graph == MAIN and self._config.target == "embedded":
            return text
        where = self._placement.describe(job, planned.sinks)
        return f"{text}\n\n== where it runs ==\n{where}"

    def json(self, job: Job) -> Json:
        """Returns the plan of a job's version for programs."""
        planned, graph = self._traced(job), self._graphs.of(job.name)
        explained = explain_sinks_json(
            planned.sinks,
            planned.traces,
            graph.runner.graph,
            job.name,
            stages_of_job(graph, job.name),
            graph.executor.run,
        )
        return {"delivery": self._config.delivery, **explained}

    def _traced(self, job: Job) -> PlannedJob:
        registry = self._registry
        planned = plan_job(
            replace(registry.text(job), name=rule_of(job.name)),
            registry.catalog_for({job.name}),
            self._config.settings,
            registry.library,
            traced=True,
        )
        if not is_shadow(job.name):
            return planned
        # What runs of a shadow ends elsewhere than its text says.
        return replace(registry.plan_of(job), traces=planned.traces)
