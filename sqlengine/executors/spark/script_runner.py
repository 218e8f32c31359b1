"""Runs the statements of a script on Spark: `sql run FILE --on spark`.

    works of the driver -> one job a batch (read, decode, filter, project | exchange | join | …) ->
    sinks in the driver

All statements of a set are merged as everywhere. Only results come back to the driver, which writes
them through the same sinks as the embedded executor, a batch of Spark being their epoch. See
`spark_sources` for who reads what."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from parser.errors import SqlError, UnsupportedError
from planner.graph.merge import Graph, merge
from planner.graph.physical import PhysicalPlan, lower
from planner.graph.two_phases import in_two_phases
from planner.logical import AssignWatermark, LogicalPlan, Scan
from planner.logical import Sink as SinkPlan
from planner.settings import IDLE_OPTION, RELOAD_OPTION, SOURCE_IDLE, WATERMARK_INTERVAL, is_batch
from sqlengine.batch import Batch
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.connectors.base import Environment, Sink
from sqlengine.connectors.memory.tables import Memory
from sqlengine.connectors.query_result import ResultSink
from sqlengine.connectors.registry import open_sink
from sqlengine.executors.failures import RowsFailed, RowsGivenUp, SinkFailed
from sqlengine.executors.spark.fragment import Fragment, FragmentOperator
from sqlengine.executors.spark.plan import CutPlan, cut_plan
from sqlengine.executors.spark.runner import SparkRunner
from sqlengine.executors.spark.session import OwnSpark, Spark, require_spark
from sqlengine.executors.spark.sources import DriverSources, to_table
from sqlengine.executors.spark.stage import SourceStage, factory_for
from sqlengine.executors.spark.worker import SparkPlan
from sqlengine.operators.base import ERROR_PORT, GIVE_UP_PORT
from udf.user import is_user

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How often operators that wait for processing time are told of it, while nothing else comes.
TICK_S: Final = 1.0


@contextmanager
def spark_runner(data: Path, rows_per_turn: int = 4096) -> Iterator[ScriptRunner]:
    """A runner on Spark whose topics live in `data`. ServiceError where Spark or Java is
    missing."""
    require_spark()
    with script_runner(data, rows_per_turn, OwnSpark()) as runner:
        yield runner


@contextmanager
def script_runner(data: Path, rows_per_turn: int, spark: Spark) -> Iterator[ScriptRunner]:
    """A runner whose topics live in `data`, as do state and compiled patterns while it runs."""
    clock = lambda: time.time_ns() // 1_000_000  # noqa: E731
    with closing(EmbeddedBroker(data, fsync="none", clock=clock)) as broker:
        environment = Environment(broker, clock, f"script-{time.time_ns()}", memory=Memory())
        folder = Path(tempfile.mkdtemp(prefix="spark-", dir=data)).resolve()
        try:
            yield ScriptRunner(environment, folder, rows_per_turn, spark)
        finally:
            spark.close()
            shutil.rmtree(folder)


class ScriptRunner:
    """Runs one statement or statement set after the other, without recovery: a killed script begins
    anew. The rows are those of the embedded executor; where a result depends on how shards
    interleave, shards take turns of `rows_per_turn` here as there."""

    def __init__(
        self, environment: Environment, folder: Path, rows_per_turn: int, spark: Spark
    ) -> None:
        self._environment = environment
        self._folder = folder
        self._rows_per_turn = rows_per_turn
        self._spark = spark
        self._runs = 0
        # Sinks take epochs that only grow, also over statements that write to one table.
        self._epoch = 0

    def run(
        self, sinks: Sequence[SinkPlan], settings: Mapping[str, str], emit: Callable[[Batch], None]
    ) -> int:
        """Runs until all sources are read to their end, if they have one; gives the number of rows
        read. UnsupportedError for what Spark cannot run, RowsFailed for a row in error unless
        'job.on-error' sets it aside."""
        _refuse_users(sinks)
        if any(s.overwrite for s in sinks):
            raise UnsupportedError(
                "INSERT OVERWRITE is not supported on Spark", hint="leave out --on spark"
            )
        _refuse_reloaded(sinks)
        split = [in_two_phases(s, settings) for s in sinks]
        plan = lower(merge(Graph(), {sinks[0].job: split}))
        cut = cut_plan(plan)
        tick_s = TICK_S if _waits(cut, self._patterns) else None
        fails = settings.get("job.on-error", "fail") != "dead-letter"
        with ExitStack() as stack:
            opened = DriverSources(
                plan, self._environment, self._rows_per_turn, ends=is_batch(settings)
            )
            sources = stack.enter_context(closing(opened))
            if not sources.end:
                _refuse_clocks(plan)
            outlet = Outlet(
                plan, cut.sinks, self._open(plan, emit, stack), fails, first_epoch=self._epoch + 1
            )
            spark = self._spark.session()
            runner = self._runner(spark, cut, sources, outlet)
            with self._spark.errors():
                for batch, (works, end) in enumerate(sources.batches(tick_s)):
                    self._epoch += 1
                    runner.run(spark.createDataFrame(to_table(works)), batch, end=end)
            return runner.rows_read

    def _runner(
        self, spark: SparkSession, cut: CutPlan, sources: DriverSources, outlet: Outlet
    ) -> SparkRunner:
        self._runs += 1
        name = f"{self._folder.name}-{self._runs}"
        plan = planned(cut, sources.places, name, self._patterns, self._rows_per_turn)
        folder = (self._folder / f"run-{self._runs}").as_uri()
        cores, clock = spark.sparkContext.defaultParallelism, self._environment.clock
        return SparkRunner(spark, {1: plan}, 1, folder, outlet.deliver, cores, clock=clock)

    @property
    def _patterns(self) -> Path:
        return self._folder / "patterns"

    def _open(
        self, plan: PhysicalPlan, emit: Callable[[Batch], None], stack: ExitStack
    ) -> dict[str, Sink]:
        opened: dict[str, Sink] = {}
        for name, sink in plan.sinks.items():
            table = sink.sink.table
            opened[name] = (
                ResultSink(emit) if table is None else open_sink(table, self._environment)
            )
            stack.callback(opened[name].close)
        return opened


def planned(
    cut: CutPlan,
    places: Mapping[str, Mapping[str, str]],
    name: str,
    patterns: Path,
    rows_per_turn: int,
) -> SparkPlan:
    """What workers run. `places` are the shards' names on the way, by source."""
    shards = {
        port: tuple(p for s in reach for p in places[s].values())
        for port, reach in cut.reach.items()
    }
    return SparkPlan(
        name,
        version=1,
        stateless=partial(SourceStage, cut.sources, patterns, rows_per_turn),
        exchange={
            port: replace(e, shards=shards.get(port, ())) for port, e in cut.exchange.items()
        },
        keyed=tuple(partial(_keyed, fragment, patterns) for fragment in cut.keyed),
    )


def _keyed(fragment: Fragment, patterns: Path, first: bool) -> FragmentOperator:
    return FragmentOperator(fragment, factory_for(patterns), first)


def _waits(cut: CutPlan, patterns: Path) -> bool:
    """Whether an operator waits for processing time. Builds each of them once here, so that what
    cannot be built is said as the embedded executor says it."""
    operators = [
        FragmentOperator(f, factory_for(patterns)) for f in [*cut.sources.values(), *cut.keyed]
    ]
    return any(o.waits for o in operators)


def _refuse_users(sinks: Sequence[SinkPlan]) -> None:
    """A function of a user runs beside the process that it was loaded in."""
    waiting: list[LogicalPlan] = list(sinks)
    while waiting:
        node = waiting.pop()
        called = next((name for name in sorted(node.functions) if is_user(name)), None)
        if called is not None:
            raise UnsupportedError(
                f"the function {called.partition('@')[0]} of a user cannot be called on Spark yet",
                hint="leave out --on spark: the embedded executor runs it",
            )
        waiting += node.inputs


def _refuse_reloaded(sinks: Sequence[SinkPlan]) -> None:
    waiting: list[LogicalPlan] = list(sinks)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scan) and node.reloaded:
            hint = f"leave out '{RELOAD_OPTION}', or --on spark"
            raise UnsupportedError(
                f"table '{node.table.display}' cannot be read again on Spark", hint=hint
            )
        waiting += node.inputs


def _refuse_clocks(plan: PhysicalPlan) -> None:
    """Who is silent, and what waits, shows on input without an end only."""
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


@dataclass
class Outlet:
    """Where results go. Nothing of a batch with a row that fails is written."""

    plan: PhysicalPlan
    names: Mapping[int, str]
    sinks: Mapping[str, Sink]
    fails: bool
    first_epoch: int

    def deliver(self, batch: int, results: Sequence[tuple[int, int, Batch]]) -> None:
        """Writes the results of a batch and commits them as one epoch."""
        for _, port, rows in results:
            if port == GIVE_UP_PORT:
                raise RowsGivenUp(rows)
            if port == ERROR_PORT and self.fails:
                raise RowsFailed(rows)
        used: dict[str, Sink] = {}
        for _, port, rows in results:
            if port != ERROR_PORT:
                name = self.names[port]
                used[name] = self.sinks[name]
                with self._blamed(name):
                    used[name].write(rows)
        for name, sink in used.items():
            with self._blamed(name):
                sink.commit(self.first_epoch + batch)

    @contextmanager
    def _blamed(self, name: str) -> Iterator[None]:
        try:
            yield
        except SqlError as error:
            raise SinkFailed(self.plan.sinks[name], error) from error
