"""Runs the operators of a graph in tasks of Spark: an epoch is a job.

    splits of the epoch -> one job (read, decode, filter, project | exchange | join | …) -> sinks

Spark reads, partitions, shuffles, schedules and retries; the operators, and all around them, are
those of the embedded executor: the graph's runner polls sources, logs epochs and commits sinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from planner.logical import Scan, Values
from sqlengine.batch import Batch, log_of
from sqlengine.connectors.base import Chunk, Source
from sqlengine.executors.embedded import EmbeddedExecutor, InitialState, PreparedPlan, SinkWrite
from sqlengine.executors.epochs import EpochRecord
from sqlengine.executors.sources import RunningSource
from sqlengine.executors.spark.fragment import Fragment, FragmentOperator
from sqlengine.executors.spark.job import run_job
from sqlengine.executors.spark.plan import CutPlan, cut_plan
from sqlengine.executors.spark.session import Spark
from sqlengine.executors.spark.splits import (
    Budget,
    EpochSplits,
    RangeSource,
    failing,
    read_by_tasks,
)
from sqlengine.executors.spark.stage import SourceStage, factory_for
from sqlengine.executors.spark.task_rules import TaskRules
from sqlengine.executors.spark.worker import SparkPlan, Step
from sqlengine.executors.steps.guard import StepGuard
from sqlengine.executors.task_state import TaskState
from sqlengine.operators.base import ERROR_PORT, FATAL_ERROR_PORT

# Operators that wait for processing time get a tick so often, where nothing else comes (ms).
TICK_MS: Final = 1000


@dataclass(frozen=True)
class SparkOptions:
    """Where and how the tasks of one graph run.

    `folder` has their state and compiled patterns. Rows of shards are read in turns of
    `rows_per_turn`. `rules` gives what tasks may do, once Spark has started; `partitions`: the
    number of instances of a keyed stage, None for as many as there are cores."""

    folder: Path
    rows_per_turn: int
    rules: Callable[[], TaskRules] = TaskRules
    partitions: int | None = None

    @property
    def patterns(self) -> Path:
        """Compiled patterns, which the driver and all tasks share."""
        return self.folder / "patterns"


class SparkExecutor(EmbeddedExecutor):
    """The operators of one graph, in tasks. See `EmbeddedExecutor`.

    Operators are built and opened in this process, too, where they have no rows: what fails there
    reads as it does without Spark. What is pushed waits for `flush`, which runs the epoch.
    TaskFailed from there where a task fails: nothing of the epoch has been written."""

    def __init__(self, spark: Spark, options: SparkOptions, guard: StepGuard | None = None) -> None:
        super().__init__(factory_for(options.patterns), guard)
        self._spark = spark
        self._options = options
        self._cut: CutPlan | None = None
        self._tasks: SparkPlan | None = None
        self._epoch = EpochSplits()
        self._record: EpochRecord | None = None
        self._logs: dict[str, dict[str, None]] = {}  # by source, in order of appearance
        self._budget = Budget()
        self._version = 0
        self._last = Step(epoch=-1, version=0, proctime=0, seed=0, partitions=0)
        self._rows_read = 0
        self._ticked = 0

    def switch(self, prepared: PreparedPlan, state: InitialState = InitialState()) -> None:  # noqa: B008
        super().switch(prepared, state)
        self._cut = self._tasks = None
        self._version += 1
        self._logs = {s: logs for s, logs in self._logs.items() if s in prepared.plan.nodes}

    def opened(self, scan: Scan, source: Source) -> Source:
        """See `EmbeddedExecutor`: tasks read bounded files, and make bounded rows of datagen."""
        return RangeSource(source, scan, self._budget) if read_by_tasks(scan, source) else source

    # ---- epochs ----------------------------------------------------------------------------------

    def begin(self, record: EpochRecord) -> None:
        self._record = record
        self._budget.renew()
        if record.tick:
            self._ticked = record.proctime

    def next_timer(self) -> int | None:
        """See `EmbeddedExecutor`: tasks do not say when their operators want a tick."""
        return self._ticked + TICK_MS if self._timed else None

    def read(
        self, source: RunningSource, node: str, chunk: Chunk, record: EpochRecord, write: SinkWrite
    ) -> None:
        self._know(node, chunk.shard)
        if isinstance(source.source, RangeSource):
            with failing(self.plan.nodes[node]):
                self._epoch.add_ranges(node, chunk.shard, source.source.bounds(chunk))
        else:
            batch = source.batch(chunk, record.proctime, record.seed)
            self._epoch.add(node, batch, chunk.start)

    def push(self, node: str, batch: Batch, write: SinkWrite) -> None:
        if isinstance(self.plan.nodes[node].plan, Values):
            self._epoch.add_values(node)
            return
        if batch.origin or batch.num_rows:
            self._know(node, batch.origin)
            self._epoch.add(node, batch)
            return
        for log in self._logs.get(node, {"": None}):  # of the source as a whole
            self._epoch.add(node, replace(batch, origin=log))

    def push_output(self, node: str, batch: Batch, write: SinkWrite) -> None:
        """See `EmbeddedExecutor`. Does nothing: each epoch ends with a tick for all that is behind
        an exchange."""

    def _know(self, node: str, shard: str) -> None:
        self._logs.setdefault(node, {})[log_of(shard)] = None

    def flush(self, write: SinkWrite) -> None:
        """Runs the epoch that has begun; between epochs ticks wait for the next one."""
        record, splits = self._record, self._epoch.splits
        if record is None:
            return
        plan, cut = self._planned()
        if splits or plan.keyed:
            self._epoch = EpochSplits()
            with self._spark.errors():
                session = self._spark.session()
                step = self._step(record, session.sparkContext.defaultParallelism)
                folder = self._options.folder.as_uri()
                result = run_job(session, plan, step, folder, splits)
            self._last = step
            self._rows_read = result.rows_read
            for port, rows in result.rows:
                if port in (ERROR_PORT, FATAL_ERROR_PORT):
                    self.errors.append((port, rows))
                else:
                    write(cut.sinks[port], rows)

    def end(self) -> int:
        """See `EmbeddedExecutor`: the rows of ranges."""
        self._record = None
        ranges, self._rows_read = self._rows_read, 0
        return ranges

    # ---- state -----------------------------------------------------------------------------------

    def task_state(self) -> TaskState | None:
        last, logs = self._last, {source: list(logs) for source, logs in self._logs.items()}
        stages = len(self._planned()[1].keyed)
        return TaskState(last.epoch, last.digest, last.partitions, stages, logs)

    def restore_tasks(self, state: TaskState | None) -> None:
        if state is not None:
            self._last = msgspec.structs.replace(
                self._last, epoch=state.epoch, digest=state.digest, partitions=state.partitions
            )
            self._logs = {s: dict.fromkeys(logs) for s, logs in state.logs.items()}

    def _step(self, record: EpochRecord, cores: int) -> Step:
        return Step(
            epoch=record.epoch,
            version=self._version,
            proctime=record.proctime,
            seed=record.seed,
            partitions=self._options.partitions or cores,
            digest=crc32(msgspec.json.encode(record)),
            previous=self._last.epoch,
            previous_partitions=self._last.partitions,
            previous_digest=self._last.digest,
        )

    def _planned(self) -> tuple[SparkPlan, CutPlan]:
        """Returns the plan that tasks run: it is made once the first epoch needs it."""
        if self._cut is None or self._tasks is None:
            self._cut = cut_plan(self.plan)
            self._tasks = task_plan(self._cut, self._options, self._version)
        return self._tasks, self._cut


def task_plan(cut: CutPlan, options: SparkOptions, version: int) -> SparkPlan:
    """Returns the plan that workers run."""
    rules, patterns = options.rules(), options.patterns
    return SparkPlan(
        str(options.folder),
        version,
        partial(SourceStage, cut.sources, patterns, options.rows_per_turn, rules),
        cut.exchange,
        tuple(partial(_keyed, fragment, patterns) for fragment in cut.keyed),
        rules,
    )


def _keyed(fragment: Fragment, patterns: Path, first: bool) -> FragmentOperator:
    return FragmentOperator(fragment, factory_for(patterns), first)
