"""Metrics for Prometheus; every name is declared in this folder."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from rules.counters import Counters as RuleCounters
from sqlengine import expressions
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.shared_graph import is_shared
from sqlengine.engine import Engine
from sqlengine.engine.views.spark_views import spark_graphs
from sqlengine.executors.dataflow.running_node import RunningNode
from sqlengine.executors.spark.progress import SparkProgress
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.totals import GraphTotals, Rising
from sqlengine.jobs.job import JobState
from sqlengine.jobs.targets import is_main
from sqlengine.metrics import tables
from sqlengine.metrics.costs import costs
from sqlengine.operators.rules import RulesOperator
from sqlengine.system.memory import resident_bytes

# The counters of tasks on Spark, with their help texts.
_OF_TASKS: Final = {
    "epochs_repeated": "Attempts of epochs that Spark gave up",
    "tasks": "Tasks that ended well",
    "task_retries": "Attempts of tasks that Spark began again",
    "task_cpu_seconds": "CPU time of tasks",
}


def _counted(done: SparkProgress) -> tuple[float, ...]:
    """Returns the numbers of `_OF_TASKS`, in their order."""
    return done.repeated, done.tasks, done.retries, done.cpu_s


class EngineCollector:
    """Reads the engine's counters for each scrape. `rising`: what former scrapes were told."""

    def __init__(self, engine: Engine, rising: Rising) -> None:
        self._engine = engine
        self._rising = rising

    def collect(self) -> Iterator[Metric]:
        totals = self._engine.graphs.totals()
        yield self._counter("records_in", "Records read from sources", totals.rows_in)
        yield self._counter("epochs", "Epochs processed", totals.epochs)
        yield self._counter("dead_letters", "Rows and records set aside", totals.dead_letters)
        yield self._sinks(totals)
        yield self._jobs()
        yield from self._job_counts()
        yield from costs(self._engine, totals, self._rising)
        yield self._restarts()
        yield from self._job_progress()
        yield self._isolated()
        yield from tables.lookups(self._graphs(), self._rising)
        yield from tables.connections(self._graphs(), self._rising)
        yield from tables.receivers(self._engine.receivers.views(), self._rising)
        yield from self._operators(totals)
        yield from self._rules(totals)
        yield self._plans()
        yield from self._instances()
        yield self._standstills()
        yield from self._steps()
        yield from self._spark()
        yield self._counter("cpu_seconds", "CPU time of the process", time.process_time())
        yield GaugeMetricFamily(
            "sqlengine_memory_bytes", "Resident memory of the process", resident_bytes()
        )

    def _sinks(self, totals: GraphTotals) -> Metric:
        family = CounterMetricFamily("sqlengine_sink_records", "Rows written", labels=["table"])
        for name, number in totals.sinks.items():
            family.add_metric([name], self._rising.at_least(f"sink {name}", number))
        return family

    def _graphs(self) -> list[ManagedGraph]:
        return list(self._engine.graphs.by_name.values())

    def _nodes(self) -> list[RunningNode]:
        return [n for g in self._graphs() for n in list(g.executor.running.values())]

    def _jobs(self) -> Metric:
        family = GaugeMetricFamily("sqlengine_jobs", "Jobs by state", labels=["state"])
        for state, number in Counter(j.state.value for j in self._engine.jobs()).items():
            family.add_metric([state], number)
        return family

    def _isolated(self) -> Metric:
        family = GaugeMetricFamily(
            "sqlengine_isolated_jobs", "Jobs outside the shared graph, by cause", labels=["cause"]
        )
        outside = (
            j
            for j in self._engine.jobs()
            if j.state is JobState.RUNNING and not is_main(j.graph) and not is_shared(j.graph)
        )
        for cause, number in Counter(j.cause.value or "catching up" for j in outside).items():
            family.add_metric([cause], number)
        return family

    def _restarts(self) -> Metric:
        family = CounterMetricFamily(
            "sqlengine_job_restarts",
            "Starts of a job after failures, since the server started",
            labels=["job"],
        )
        for job, number in self._engine.restarts_by_job().items():
            family.add_metric([job], number)
        return family

    def _job_counts(self) -> Iterator[Metric]:
        """Yields what each job did over all its restarts: these never fall."""
        rows = CounterMetricFamily(
            "sqlengine_job_records", "Rows that a job gave to its tables", labels=["job"]
        )
        late = CounterMetricFamily(
            "sqlengine_job_late_rows", "Rows that a job dropped as late", labels=["job"]
        )
        held = CounterMetricFamily(
            "sqlengine_job_held_back", "Alerts of a job that were held back", labels=["job"]
        )
        letters = CounterMetricFamily(
            "sqlengine_job_dead_letters", "Rows of a job that were set aside", labels=["job"]
        )
        for job, counts in self._engine.counts().items():
            rows.add_metric([job], counts.rows)
            late.add_metric([job], counts.late_rows)
            held.add_metric([job], counts.held_back)
            letters.add_metric([job], counts.dead_letters)
        yield from (rows, late, held, letters)

    def _job_progress(self) -> Iterator[Metric]:
        """Yields how far running jobs are in each table that they read."""
        labels = ["job", "table"]
        behind = GaugeMetricFamily(
            "sqlengine_job_behind", "Records, or bytes of files, to read", labels=[*labels, "unit"]
        )
        watermark = GaugeMetricFamily(
            "sqlengine_watermark_timestamp_seconds", "Watermark of a table", labels=labels
        )
        lag = GaugeMetricFamily(
            "sqlengine_watermark_lag_seconds", "Watermark behind the clock", labels=labels
        )
        idle = GaugeMetricFamily("sqlengine_idle_shards", "Shards that are idle", labels=labels)
        waiting = GaugeMetricFamily(
            "sqlengine_waiting", "Windows or rows that wait for time", labels=["job", "unit"]
        )
        lost = CounterMetricFamily(
            "sqlengine_lost_files", "Files of a log whose ends were gone unread", labels=labels
        )
        for job, progress in self._engine.progress.all(self._engine.jobs()).items():
            for table in progress.tables:
                if table.behind is not None:
                    behind.add_metric([job, table.table, table.unit], table.behind)
                gone = self._rising.onwards(f"lost {job} {table.table}", table.lost_files)
                if gone:
                    lost.add_metric([job, table.table], gone)
                if table.watermark is not None and table.lag_ms is not None:
                    watermark.add_metric([job, table.table], table.watermark.ms / 1000)
                    lag.add_metric([job, table.table], table.lag_ms / 1000)
                    idle.add_metric([job, table.table], len(table.idle_shards))
            waits = Counter[str]()
            for wait in progress.waits:
                waits[wait.unit] += wait.number
            for unit, number in waits.items():
                waiting.add_metric([job, unit], number)
        yield from (behind, watermark, lag, idle, waiting, lost)

    def _operators(self, totals: GraphTotals) -> Iterator[Metric]:
        counters = Counter(expressions.counters)
        counters.update(totals.operators)
        for name, value in sorted(counters.items()):
            yield self._counter(name, f"Operators: {name.replace('_', ' ')}", value)

    def _plans(self) -> Metric:
        family = CounterMetricFamily(
            "sqlengine_plans", "Texts planned, by where the plan came from", labels=["source"]
        )
        planned = self._engine.planned()
        family.add_metric(["cache"], planned["hits"])
        family.add_metric(["text"], planned["misses"])
        return family

    def _instances(self) -> Iterator[Metric]:
        """Yields the metrics of instances, by graph and instance; without samples where there are
        none."""
        labels = ["graph", "instance"]
        alive = GaugeMetricFamily(
            "sqlengine_instance_parts", "Parts that an instance runs", labels=labels
        )
        lag = GaugeMetricFamily(
            "sqlengine_instance_lag", "Records that an instance has not read yet", labels=labels
        )
        memory = GaugeMetricFamily(
            "sqlengine_instance_memory_bytes", "Resident memory of an instance", labels=labels
        )
        cpu = CounterMetricFamily(
            "sqlengine_instance_cpu_seconds", "CPU time of an instance", labels=labels
        )
        restarts = CounterMetricFamily(
            "sqlengine_instance_restarts", "Starts after the first", labels=labels
        )
        waits = GaugeMetricFamily(
            "sqlengine_instance_waits",
            "Parts behind, for which parts of an instance read no sources",
            labels=labels,
        )
        for view in self._engine.instances.views():
            of = [view.graph, view.instance]
            alive.add_metric(of, len(view.subtasks))
            lag.add_metric(of, view.lag)
            memory.add_metric(of, view.memory)
            cpu.add_metric(of, view.cpu_s)
            restarts.add_metric(of, view.restarts)
            waits.add_metric(of, len(view.waiting))
        yield from (alive, lag, memory, cpu, restarts, waits)

    def _standstills(self) -> Metric:
        family = SummaryMetricFamily(
            "sqlengine_standstill_seconds",
            "Time for which all parts of a graph were paused, for a job",
            labels=["graph"],
        )
        for graph in self._graphs():
            if isinstance(graph, DistributedGraph):
                pauses = graph.pauses.stats
                family.add_metric([graph.name], pauses.count, pauses.seconds)
        return family

    def _steps(self) -> Iterator[Metric]:
        """Yields how long each graph is in its present step, if for longer than a second, and how
        often that was so."""
        seconds = GaugeMetricFamily(
            "sqlengine_step_seconds",
            "Time for which a graph is in one step; 0 below a second",
            labels=["graph"],
        )
        slow = CounterMetricFamily(
            "sqlengine_slow_steps", "Steps that took longer than a second", labels=["graph"]
        )
        running: dict[str, float] = {}
        for step in self._engine.slow_steps():  # of parts, the longest
            running[step.graph] = max(step.seconds, running.get(step.graph, 0.0))
        counts = self._engine.slow_step_counts()
        for graph in self._graphs():
            seconds.add_metric([graph.name], running.get(graph.name, 0.0))
            slow.add_metric([graph.name], counts.get(graph.name, 0))
        yield from (seconds, slow)

    def _spark(self) -> Iterator[Metric]:
        """Yields what graphs did on Spark; without samples where none runs there."""
        seconds = SummaryMetricFamily(
            "sqlengine_spark_epoch_seconds", "Time of epochs in Spark", labels=["graph"]
        )
        last = GaugeMetricFamily(
            "sqlengine_spark_last_epoch_seconds", "Time of the last epoch", labels=["graph"]
        )
        partitions = GaugeMetricFamily(
            "sqlengine_spark_partitions", "Partitions behind exchanges", labels=["graph"]
        )
        state = CounterMetricFamily(
            "sqlengine_spark_state", "State that tasks wrote", labels=["graph", "unit"]
        )
        rising = [
            CounterMetricFamily(f"sqlengine_spark_{name}", text, labels=["graph"])
            for name, text in _OF_TASKS.items()
        ]
        for graph, done in spark_graphs(self._graphs()).items():
            onwards = partial(self._onwards, graph)
            epochs = int(onwards("epochs", done.epochs))
            seconds.add_metric([graph], epochs, onwards("s", done.seconds))
            last.add_metric([graph], done.last_s)
            partitions.add_metric([graph], done.partitions)
            for unit, written in done.written.items():
                state.add_metric([graph, unit], onwards(unit, written))
            for family, number in zip(rising, _counted(done), strict=True):
                family.add_metric([graph], onwards(family.name, number))
        yield from (seconds, last, partitions, state, *rising)

    def _onwards(self, graph: str, name: str, value: float) -> float:
        return self._rising.onwards(f"spark {graph} {name}", value)

    def _rules(self, totals: GraphTotals) -> Iterator[Metric]:
        operators = (n.operator for n in self._nodes())
        rules = sum(len(o.compiled.plan.rules) for o in operators if isinstance(o, RulesOperator))
        yield GaugeMetricFamily("sqlengine_rules", "Filters evaluated as rules", rules)
        for name in RuleCounters().as_dict():
            whole = self._rising.onwards(f"rule sets: {name}", totals.rules[name])
            yield self._counter(f"rules_{name}", f"Rules: {name.replace('_', ' ')}", whole)

    def _counter(self, name: str, help_text: str, value: float) -> Metric:
        return CounterMetricFamily(
            f"sqlengine_{name}", help_text, self._rising.at_least(name, value)
        )


def render(engine: Engine, rising: Rising | None = None) -> bytes:
    """Returns all metrics in the text format. `rising`: what former calls were told, for counters
    that never fall."""
    return generate_latest(_registry(engine, rising or Rising()))


def listed(engine: Engine, rising: Rising) -> Iterator[dict[str, object]]:
    """Yields all metrics as JSON. A value that is no finite number is null."""
    for family in _registry(engine, rising).collect():
        samples = [
            {
                "name": s.name,
                "labels": s.labels,
                "value": s.value if math.isfinite(s.value) else None,
            }
            for s in family.samples
        ]
        about = {"name": family.name, "type": family.type, "help": family.documentation}
        yield {**about, "samples": samples}


def _registry(engine: Engine, rising: Rising) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EngineCollector(engine, rising))
    return registry
