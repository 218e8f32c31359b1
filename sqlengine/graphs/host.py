"""The dependencies that all graphs of an engine share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from parser.errors import ServiceError, SqlError
from planner.settings import AGG_PHASES, AGG_STRATEGIES, FILTER_PUSH_DOWN, flag, one_of
from sqlengine.broker.base import Broker
from sqlengine.config import Config, Target
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.connectors.environment import NO_CALLABLES, Callables
from sqlengine.connectors.memory.tables import Memory
from sqlengine.connectors.receivers.service import Receivers
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.failures import FailureHandler
from sqlengine.executors.memory_limits import MemoryLimits
from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.executors.spark.options import TURNS_PER_EPOCH, SparkOptions
from sqlengine.executors.spark.session import Spark
from sqlengine.executors.spark.tasks.rules import TaskRules
from sqlengine.executors.steps.limits import Steps
from sqlengine.jobs.planning import PlannedJob
from sqlengine.jobs.targets import target_of_graph
from sqlengine.machine import Machine
from sqlengine.snapshots.job_snapshot import JobSnapshot
from sqlengine.state.stores import CheckpointStores
from sqlengine.system.threads import Later

# Returns the plans of job versions, each or why there is none any more.
PlanOf: TypeAlias = Callable[[Mapping[str, int]], Mapping[str, PlannedJob | SqlError]]
# The errors of job versions (job, version) that must not be recovered.
Faults: TypeAlias = Mapping[tuple[str, int], SqlError]


@dataclass(frozen=True)
class GraphHost:
    """The dependencies that all graphs of an engine share.

    `fails_on_error`: of a job and its version; `on_failure` is called with jobs that fail, and the
    reason; `later` submits work to the thread that makes changes; `stored_snapshot` returns the
    snapshot of a migration by name, `store_snapshot` stores that of jobs that fail. `spark`
    starts when it is needed. `memory_tables`: those that the program holds, if it may."""

    config: Config
    machine: Machine
    broker: Broker
    factory: OperatorFactory
    stores: CheckpointStores
    fails_on_error: Callable[[str, int], bool]
    on_failure: FailureHandler
    later: Later
    memory: MemoryLimits
    steps: Steps
    stored_snapshot: Callable[[str], JobSnapshot | None] = lambda _: None
    store_snapshot: Callable[[str, JobSnapshot], None] = lambda *_: None
    callables: Callables = field(default_factory=lambda: NO_CALLABLES)
    openings: Openings = field(default_factory=Openings)
    spark: Spark | None = None
    receivers: Receivers | None = None
    memory_tables: Memory | None = None

    @property
    def syncs_late(self) -> bool:
        """True if a power loss may take records whose epoch was logged."""
        return self.config.fsync == "interval"

    def target(self, graph: str) -> Target:
        """Returns where a graph runs."""
        return target_of_graph(graph, self.config.target)

    def executor(self, graph: str) -> EmbeddedExecutor:
        """Returns the executor of a graph: in this process, or in tasks of Spark."""
        guard, config = self.steps.guard(graph), self.config
        filters = flag(config.settings, FILTER_PUSH_DOWN, default=True)
        if self.target(graph) == "embedded":
            return EmbeddedExecutor(self.factory, guard, filters=filters)
        options = SparkOptions(
            self.tasks_folder(graph),
            config.rows_per_read,
            self.factory,
            self._rules_of_tasks,
            durable=True,
            attempts=3,
            phases=one_of(config.settings, AGG_PHASES, AGG_STRATEGIES),
            filters=filters,
        )
        return SparkExecutor(self._spark, options, guard)

    def rows_per_epoch(self, graph: str) -> int:
        """Returns the rows that one epoch of a graph reads of one shard, at most."""
        turns = 1 if self.target(graph) == "embedded" else TURNS_PER_EPOCH
        return self.config.rows_per_read * turns

    def tasks_folder(self, graph: str) -> Path:
        """Returns the folder in which tasks keep the state of a graph."""
        return self.config.data / "tasks" / graph

    def forget_tasks(self, graph: str) -> None:
        """Deletes what tasks have kept of a graph that is gone."""
        shutil.rmtree(self.tasks_folder(graph), ignore_errors=True)

    def _rules_of_tasks(self) -> TaskRules:
        config, memory = self.config, self._spark.worker_memory()
        files, network = config.file_access, config.network_access
        return TaskRules.of_driver(files, config.secret_values, self.openings, memory, network)

    @property
    def _spark(self) -> Spark:
        assert self.spark is not None, "parts of a graph do not run on Spark"
        return self.spark

    def require_spark(self) -> None:
        """Starts Spark if it has not started. ServiceError where it cannot start."""
        self._spark.session()


class NotAligned(ServiceError):
    """Jobs cannot be attached to a graph whose positions or watermarks differ from theirs."""

    def __init__(self, jobs: Collection[str], graph: str, reason: str) -> None:
        others = f" and {len(jobs) - 1} others" if len(jobs) > 1 else ""
        super().__init__(
            f"job '{next(iter(jobs))}'{others} cannot go on in graph '{graph}' now",
            detail=reason,
            hint="it is tried again by itself, once both stand at the same place",
        )
