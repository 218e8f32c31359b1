"""Metrics of what jobs cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sqlengine.engine import Engine
from sqlengine.executors.measures.job_costs import FREE
from sqlengine.graphs.totals import GraphTotals, Rising

_LONGEST: Final = 200  # characters of a condition, as its label


def costs(engine: Engine, totals: GraphTotals, rising: Rising) -> Iterator[Metric]:
    """Yields what each job has cost, and what running ones keep and are slowed by."""
    yield from _spent(engine, totals, rising)
    yield from _caches(engine, rising)
    state = _gauge("sqlengine_job_state_bytes", "Bytes of state of a running job")
    for graph in list(engine.graphs.by_name.values()):
        for job, size in graph.state_by_job().items():
            state.add_metric([job], size)
    over = _gauge("sqlengine_job_over_budget", "1 for a job that costs more than it may")
    for job in engine.budgets.over:
        over.add_metric([job], 1)
    slowest = _gauge(
        "sqlengine_job_slowest_condition_us",
        "Time for a row of the slowest condition of a job's filters, by itself",
        "condition",
    )
    for job, cost in engine.costs.slowest().items():
        slowest.add_metric([job, cost.condition[:_LONGEST]], cost.us_per_row)
    yield from (state, over, slowest)


def _spent(engine: Engine, totals: GraphTotals, rising: Rising) -> Iterator[Metric]:
    seconds = _counter(
        "sqlengine_job_seconds", "Time of a job's operators; of those that jobs share, a part"
    )
    cpu = _counter("sqlengine_job_cpu_seconds", "CPU time that a job has cost")
    events = _counter("sqlengine_job_events", "Rows that came in the tables that a job reads")
    for job in list(engine.log.jobs):
        cost = totals.costs.get(job, FREE)
        seconds.add_metric([job], rising.at_least(f"seconds {job}", cost.seconds))
        cpu.add_metric([job], rising.at_least(f"cpu {job}", cost.cpu_s))
        events.add_metric([job], rising.at_least(f"events {job}", cost.events))
    yield from (seconds, cpu, events)


def _caches(engine: Engine, rising: Rising) -> Iterator[Metric]:
    asked = _counter(
        "sqlengine_job_cache_lookups",
        "Distinct values in the columns of a job's filters that caches were asked for",
    )
    found = _counter("sqlengine_job_cache_hits", "Those that caches knew")
    for job, use in engine.costs.cache_uses().items():
        asked.add_metric([job], rising.onwards(f"cache lookups {job}", use.asked))
        found.add_metric([job], rising.onwards(f"cache hits {job}", use.found))
    yield from (asked, found)


def _counter(name: str, text: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, labels=["job"])


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=["job", *labels])
