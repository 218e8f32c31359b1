"""Runs the statements of a script on Spark: `sql run FILE --on spark`.

Everything but the operators is that of a script in this process: the runner of the graph polls
sources, ends epochs and commits sinks."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from planner.settings import AGG_PHASES, AGG_STRATEGIES, FILTER_PUSH_DOWN, flag, one_of
from rules.options import Options
from sqlengine.broker.embedded import system_clock
from sqlengine.config import LOCAL, Cluster
from sqlengine.connectors.base import Sink as OutputSink
from sqlengine.connectors.boundary.openings import TIMEOUT_S, Openings
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.receivers.service import Receivers
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dimensions.asking import TableAsker
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.executors.spark.options import TURNS_PER_EPOCH, SparkOptions
from sqlengine.executors.spark.plan import cut_plan
from sqlengine.executors.spark.session import OwnSpark, Spark
from sqlengine.executors.spark.supported import check_watermarks
from sqlengine.executors.spark.tasks.rules import TaskRules
from sqlengine.session import ROWS_PER_READ
from sqlengine.session.given import Given
from sqlengine.session.runner import IDLE_S, EmbeddedRunner
from sqlengine.system.file_access import ANY_FILES, FileAccess
from sqlengine.system.lanes import ThreadLanes


@contextmanager
def spark_runner(
    data: Path,
    rows_per_turn: int = ROWS_PER_READ,
    set_aside: OutputSink | None = None,
    files: FileAccess = ANY_FILES,
    printed: Path | None = None,
    cluster: Cluster = LOCAL,
    given: Given | None = None,
) -> Iterator[SparkRunner]:
    """Opens a runner on Spark with its topics in `data`; `printed`: see `spark_session`.
    ServiceError where Spark or Java is missing."""
    spark = OwnSpark(printed, cluster, data)
    spark.require()
    with script_runner(data, rows_per_turn, spark, files, given=given) as runner:
        runner.dead_letters = set_aside
        yield runner


@contextmanager
def script_runner(
    data: Path,
    rows_per_turn: int,
    spark: Spark,
    files: FileAccess = ANY_FILES,
    timeout_s: float = TIMEOUT_S,
    given: Given | None = None,
) -> Iterator[SparkRunner]:
    """Opens a runner with its topics in `data`, and state and compiled patterns while it runs. A
    call of a connector may take `timeout_s`, in the driver and in tasks."""
    given = given or Given()
    with given.opened(data) as broker:
        name = f"script-{time.time_ns()}"
        openings = Openings(ThreadLanes(), timeout_s, command="sql run")
        dimensions = data.resolve() / "dimensions" / name
        receivers = Receivers(broker, system_clock, lasting=False)
        environment = Environment(
            broker,
            given.clock,
            name,
            memory=given.memory,
            openings=openings,
            files=files,
            dimensions=dimensions,
            receivers=receivers,
        )
        folder = Path(tempfile.mkdtemp(prefix="spark-", dir=data)).resolve()
        try:
            yield SparkRunner(
                environment,
                OperatorFactory(
                    Options(folder=folder / "patterns"),
                    dimensions=dimensions,
                    asker=lambda scan: TableAsker(scan, environment),
                ),
                rows_per_turn,
                lambda: broker.wait_for_data(IDLE_S),
                spark=spark,
                folder=folder,
            )
        finally:
            receivers.stop()
            openings.stop()
            spark.close()
            shutil.rmtree(folder)
            shutil.rmtree(dimensions, ignore_errors=True)


@dataclass(kw_only=True)
class SparkRunner(EmbeddedRunner):
    """Runs the graph of each statement, or statement set, on Spark. `folder` has the state of its
    tasks while it runs.

    Gives the rows that the embedded executor gives. Where a result depends on how shards
    interleave, they are read in turns of `rows_per_read` here as there. UnsupportedError for what
    Spark cannot run."""

    spark: Spark
    folder: Path
    on_spark: bool = True

    def executor(self, number: int, settings: Mapping[str, str]) -> SparkExecutor:
        options = SparkOptions(
            self.folder / f"run-{number}",
            self.rows_per_read,
            self.factory,
            self._rules,
            phases=one_of(settings, AGG_PHASES, AGG_STRATEGIES),
            filters=flag(settings, FILTER_PUSH_DOWN, default=True),
        )
        return SparkExecutor(self.spark, options, self.guard)

    @property
    def rows_per_epoch(self) -> int:
        return self.rows_per_read * TURNS_PER_EPOCH

    def _rules(self) -> TaskRules:
        of = self.environment
        memory = self.spark.worker_memory()
        return TaskRules.of_driver(of.files, of.secrets, of.openings, memory, of.network)

    def check(self, change: GraphChange) -> None:
        if not all(source.source.bounded for source in change.sources.values()):
            check_watermarks(cut_plan(change.prepared.plan))
