"""Runs the statements of a script on Spark: `sql run FILE --on spark`.

    splits of the driver -> one job a batch (read, decode, filter, project | exchange | join | …) ->
    sinks in the driver

All statements of a set are merged to one graph. Only results come back to the driver, which writes
them to the same sinks as the embedded executor; a batch of Spark is an epoch of theirs. See
`sources.py` for what the driver reads and what the tasks read."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from parser.errors import UnsupportedError
from parser.limits import present
from planner.graph.merge import Graph, merge
from planner.graph.physical import PhysicalPlan, lower
from planner.graph.two_phases import in_two_phases
from planner.logical import AssignWatermark, Scan
from planner.logical import Sink as SinkPlan
from planner.rewrite import nodes as plan_nodes
from planner.settings import IDLE_OPTION, RELOAD_OPTION, SOURCE_IDLE, WATERMARK_INTERVAL, is_batch
from sqlengine.batch import Batch
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.connectors.base import Environment, Sink
from sqlengine.connectors.boundary.openings import TIMEOUT_S, Openings
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.spark.fragment import Fragment, FragmentOperator
from sqlengine.executors.spark.outputs import BatchOutputs
from sqlengine.executors.spark.plan import CutPlan, cut_plan
from sqlengine.executors.spark.runner import SparkRunner
from sqlengine.executors.spark.session import OwnSpark, Spark, require_spark
from sqlengine.executors.spark.sources import DriverSources, splits_to_table
from sqlengine.executors.spark.stage import SourceStage, factory_for
from sqlengine.executors.spark.task_rules import TaskRules
from sqlengine.executors.spark.worker import SparkPlan
from sqlengine.system.file_access import ANY_FILES, FileAccess
from sqlengine.system.lanes import ThreadLanes
from udf.user import is_user

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Interval at which operators that wait for processing time get a tick, without input (s).
TICK_S: Final = 1.0
# No rules but the defaults.
FREE: Final = TaskRules()


@contextmanager
def spark_runner(
    data: Path,
    rows_per_turn: int = 4096,
    set_aside: Sink | None = None,
    files: FileAccess = ANY_FILES,
    printed: Path | None = None,
) -> Iterator[ScriptRunner]:
    """Opens a runner on Spark with its topics in `data`; `printed`: see `spark_session`.
    ServiceError where Spark or Java is missing."""
    require_spark()
    with script_runner(data, rows_per_turn, OwnSpark(printed), files) as runner:
        runner.set_aside = set_aside
        yield runner


@contextmanager
def script_runner(
    data: Path,
    rows_per_turn: int,
    spark: Spark,
    files: FileAccess = ANY_FILES,
    timeout_s: float = TIMEOUT_S,
) -> Iterator[ScriptRunner]:
    """Opens a runner with its topics in `data`, and state and compiled patterns while it runs. A
    call of a connector may take `timeout_s`, in the driver and in tasks."""
    clock = lambda: time.time_ns() // 1_000_000  # noqa: E731
    with closing(EmbeddedBroker(data, fsync="none", clock=clock)) as broker:
        name = f"script-{time.time_ns()}"
        openings = Openings(ThreadLanes(), timeout_s, command="sql run")
        environment = Environment(
            broker, clock, name, memory=Memory(), openings=openings, files=files
        )
        folder = Path(tempfile.mkdtemp(prefix="spark-", dir=data)).resolve()
        try:
            yield ScriptRunner(environment, folder, rows_per_turn, spark)
        finally:
            openings.stop()
            spark.close()
            shutil.rmtree(folder)


class ScriptRunner:
    """Runs statements and statement sets one after the other, without recovery.

    Gives the rows that the embedded executor gives. Where a result depends on how shards
    interleave, they are read in turns of `rows_per_turn` here as there. `set_aside` takes rows in
    error that do not end a statement."""

    def __init__(
        self, environment: Environment, folder: Path, rows_per_turn: int, spark: Spark
    ) -> None:
        self._environment = environment
        self._folder = folder
        self._rows_per_turn = rows_per_turn
        self._spark = spark
        self.set_aside: Sink | None = None
        self._runs = 0
        # Sinks take epochs that only grow, also over statements that write to one table.
        self._epoch = 0

    @property
    def files(self) -> FileAccess:
        """See `Runner`."""
        return self._environment.files

    def run(
        self, sinks: Sequence[SinkPlan], settings: Mapping[str, str], emit: Callable[[Batch], None]
    ) -> int:
        """Runs until all sources are read to their end, for ever if one has none; returns the
        number of rows read.

        UnsupportedError for what Spark cannot run, RowsFailed for a row in error unless
        'job.on-error' is 'dead-letter'."""
        _check_supported(sinks)
        split = [in_two_phases(s, settings) for s in sinks]
        plan = lower(merge(Graph(), {sinks[0].job: split}))
        cut = cut_plan(plan)
        tick_s = TICK_S if _has_timers(cut, self._patterns) else None
        fails = settings.get("job.on-error", "fail") != "dead-letter"
        with ExitStack() as stack:
            opened = DriverSources(
                plan, self._environment, self._rows_per_turn, ends=is_batch(settings)
            )
            sources = stack.enter_context(closing(opened))
            if not sources.bounded:
                _check_watermarks(plan)
            writer = BatchOutputs(
                plan,
                cut.sinks,
                self._environment,
                emit,
                fails=fails,
                set_aside=self.set_aside,
                first_epoch=self._epoch + 1,
            )
            stack.callback(writer.close)
            spark = self._spark.session()
            runner = self._runner(spark, cut, sources, writer)
            with self._spark.errors():
                for batch, (splits, end) in enumerate(sources.batches(tick_s)):
                    self._epoch += 1
                    runner.run(spark.createDataFrame(splits_to_table(splits)), batch, end=end)
            writer.finish()
            return runner.rows_read

    def _runner(
        self, spark: SparkSession, cut: CutPlan, sources: DriverSources, writer: BatchOutputs
    ) -> SparkRunner:
        self._runs += 1
        name = f"{self._folder.name}-{self._runs}"
        plan = build_spark_plan(
            cut,
            sources.shard_names,
            name,
            self._patterns,
            self._rows_per_turn,
            self._rules(),
        )
        folder = (self._folder / f"run-{self._runs}").as_uri()
        cores, clock = spark.sparkContext.defaultParallelism, self._environment.clock
        return SparkRunner(spark, {1: plan}, 1, folder, writer.deliver, cores, clock=clock)

    def _rules(self) -> TaskRules:
        """The rules of the driver, for its tasks."""
        environment = self._environment
        return TaskRules(
            present(),
            environment.files,
            environment.secrets,
            environment.openings.timeout_s,
            environment.openings.command,
            self._spark.worker_memory(),
        )

    @property
    def _patterns(self) -> Path:
        return self._folder / "patterns"


def build_spark_plan(
    cut: CutPlan,
    shard_names: Mapping[str, Mapping[str, str]],
    name: str,
    patterns: Path,
    rows_per_turn: int,
    rules: TaskRules = FREE,
) -> SparkPlan:
    """Builds the plan that workers run, under these rules. `shard_names`: see `DriverSources`."""
    shards = {
        port: tuple(p for s in reach for p in shard_names[s].values())
        for port, reach in cut.reach.items()
    }
    return SparkPlan(
        name,
        version=1,
        stateless=partial(SourceStage, cut.sources, patterns, rows_per_turn, rules),
        exchange={
            port: replace(e, shards=shards.get(port, ())) for port, e in cut.exchange.items()
        },
        keyed=tuple(partial(_keyed, fragment, patterns) for fragment in cut.keyed),
        rules=rules,
    )


def _keyed(fragment: Fragment, patterns: Path, first: bool) -> FragmentOperator:
    return FragmentOperator(fragment, factory_for(patterns), first)


def _has_timers(cut: CutPlan, patterns: Path) -> bool:
    """True if an operator waits for processing time.

    Builds each operator once in the driver, so that an error in that reads as it does without
    Spark."""
    operators = [
        FragmentOperator(f, factory_for(patterns)) for f in [*cut.sources.values(), *cut.keyed]
    ]
    return any(o.has_timers for o in operators)


def _check_supported(sinks: Sequence[SinkPlan]) -> None:
    """Raises UnsupportedError for functions of users, whose workers belong to one process, for
    INSERT OVERWRITE, and for lookup tables that are reloaded."""
    nodes = [node for sink in sinks for node in plan_nodes(sink)]
    for node in nodes:
        called = next((name for name in sorted(node.functions) if is_user(name)), None)
        if called is not None:
            raise UnsupportedError(
                f"the function {called.partition('@')[0]} of a user cannot be called on Spark yet",
                hint="leave out --on spark: the embedded executor runs it",
            )
    if any(sink.overwrite for sink in sinks):
        raise UnsupportedError(
            "INSERT OVERWRITE is not supported on Spark", hint="leave out --on spark"
        )
    for node in nodes:
        if isinstance(node, Scan) and node.reloaded:
            raise UnsupportedError(
                f"table '{node.table.display}' cannot be read again on Spark",
                hint=f"leave out '{RELOAD_OPTION}', or --on spark",
            )


def _check_watermarks(plan: PhysicalPlan) -> None:
    """Raises UnsupportedError for idle timeouts and watermark intervals, which only matter for
    unbounded input."""
    for node in plan.in_order:
        if isinstance(node.plan, AssignWatermark) and (node.plan.idle_ms or node.plan.interval_ms):
            raise UnsupportedError(
                "watermarks that go by the clock are not supported on Spark yet, where input has"
                " no end",
                detail=f"watermark {node.plan.label}",
                hint=(
                    f"leave out '{IDLE_OPTION}', '{SOURCE_IDLE}' and '{WATERMARK_INTERVAL}', or"
                    " --on spark"
                ),
            )
