"""The views of an engine: its jobs, what they have done and cost, and what is wrong with them."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from parser.errors import JobError, ServiceError
from planner.catalog import Catalog
from sqlengine.access.shadow_names import rule_of
from sqlengine.engine.assembly import AssembledEngine
from sqlengine.engine.shadows.comparison import Difference, difference
from sqlengine.engine.shadows.promotion import shadow_job
from sqlengine.engine.shadows.rows import ends_of
from sqlengine.engine.views.family_views import FamilyView, families_of
from sqlengine.engine.views.module_hints import module_hints
from sqlengine.engine.views.step_hints import step_hints
from sqlengine.engine.views.table_hints import table_hints
from sqlengine.engine.views.topic_hints import topic_hints
from sqlengine.executors.spark.view import SparkView
from sqlengine.executors.steps.guard import StepView
from sqlengine.formats.options import did_you_mean
from sqlengine.functions.library import Library
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.explanation import Json
from sqlengine.jobs.job import Job, JobState, JobVersion


class EngineViews(AssembledEngine):
    """The views of an engine. All may be asked from any thread."""

    @property
    def catalog(self) -> Catalog:
        """Tables, views and functions that jobs define for all."""
        return self._registry.catalog

    @property
    def library(self) -> Library:
        """The functions of users."""
        return self._registry.library

    @property
    def graph(self) -> RunningGraph:
        """The main graph."""
        return self.graphs.main

    def jobs(self) -> list[Job]:
        """Returns all jobs by name."""
        return self._registry.jobs()

    def job(self, name: str) -> Job:
        """Returns a job. Raises JobError if there is none."""
        return self._registry.job(name)

    def history(self, name: str) -> list[JobVersion]:
        """Returns all versions of a job, also a removed one, oldest first."""
        if not self.log.versions_of(name):
            hint = did_you_mean(name, self.log.jobs) or "'sql jobs' lists all"
            raise JobError(f"job '{name}' does not exist and never did", hint=hint)
        return [v for _, v in sorted(self.log.versions_of(name).items())]

    def difference(self, name: str) -> Difference:
        """Returns what the shadow of a rule would have added to its tables since it began, and left
        out. Raises JobError if it has none."""
        shadow = shadow_job(rule_of(name), self.log.jobs)
        graph, ends = self.graphs.of(shadow.name), None
        if shadow.state is JobState.RUNNING and not graph.distributed:
            with suppress(ServiceError):  # it is busy: the last epoch may be there by half
                ends = graph.call(lambda: ends_of(self.broker), timeout=5)
        return difference(self.broker, self._registry.version(shadow), ends)

    def explain(self, name: str) -> str:
        """Returns the plan of a job's version after each step, and what it shares with others."""
        return self._explanations.text(self.job(name))

    def explain_json(self, name: str) -> Json:
        """Returns the plan of a job's version for programs."""
        return self._explanations.json(self.job(name))

    def spark(self) -> SparkView | None:
        """Returns how Spark does; None if it has not started."""
        return self._spark.view()

    def rows_by_job(self) -> Counter[str]:
        """Returns the rows that each job has written to sinks, if any."""
        return Counter({name: c.rows for name, c in self.counts().items() if c.rows})

    def families_of(self, job: str) -> list[FamilyView]:
        """Returns the families in which a job runs, if in any."""
        return families_of(job, (g.executor.run for g in list(self.graphs.by_name.values())))

    def restarts_by_job(self) -> Counter[str]:
        """Returns how often jobs were started again after a failure since the server started."""
        return self._restarts.made.copy()

    def planned(self) -> Counter[str]:
        """Returns how many plans came from the cache (hits) or were made (misses)."""
        return Counter(self._registry.planner.counters)

    def hints(self) -> dict[str, str]:
        """Returns what is perhaps wrong with running jobs, by name."""
        graphs = list(self.graphs.by_name.values())
        modules = module_hints(self.jobs(), self.log, self.library)
        slow = step_hints(graphs, self.slow_steps())
        told = modules | dict(self.budgets.over) | topic_hints(graphs, self.broker)
        return told | table_hints(graphs) | slow

    def slow_step_counts(self) -> dict[str, int]:
        """Returns how many steps of each graph took longer than a second."""
        return self._steps.slow_steps() | self.graphs.slow_step_counts()

    def slow_steps(self) -> list[StepView]:
        """Returns the steps of graphs that run for longer than a second now, by graph."""
        steps = [*self._steps.slow(), *self.graphs.long_steps()]
        return sorted(steps, key=lambda step: step.graph)

    def works(self) -> bool:
        """Returns whether a graph is in a step now."""
        return self._steps.some()

    def rows_of(self, name: str) -> int:
        return self.rows_by_job()[name]

    @property
    def ready(self) -> bool:
        return self.graphs.alive and not self._failures.closed.is_set()

    def now_ms(self) -> int:
        return self._clock()
