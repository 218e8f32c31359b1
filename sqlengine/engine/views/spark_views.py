"""Spark as a server shows it: where it runs, and how the graphs do that run there."""

from __future__ import annotations

from collections.abc import Iterable

from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.executors.spark.explain import Running, StageView, stages_of
from sqlengine.executors.spark.progress import SparkProgress
from sqlengine.executors.spark.splits import RangeSource
from sqlengine.graphs.managed import ManagedGraph


def stages_of_job(graph: ManagedGraph, job: str) -> list[StageView]:
    """Returns the stages of a job as they run; none where its graph is not on Spark."""
    executor = graph.executor
    if not isinstance(executor, SparkExecutor):
        return []
    sources = graph.runner.inputs.running.items()
    in_tasks = frozenset(n for n, s in sources if isinstance(s.source, RangeSource))
    partitions = executor.progress.partitions or None  # none before the first epoch
    running = Running(partitions, executor.progress.by_node, in_tasks)
    return stages_of(executor.phased, executor.cut, job, running)


def spark_graphs(graphs: Iterable[ManagedGraph]) -> dict[str, SparkProgress]:
    """Returns the progress of the graphs that run on Spark, by name."""
    executors = ((g.name, g.executor) for g in graphs)
    return {name: e.progress for name, e in executors if isinstance(e, SparkExecutor)}
