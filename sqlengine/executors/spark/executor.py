"""Runs the operators of a graph in tasks of Spark: an epoch is a job.

    splits of the epoch -> one job (read, decode, filter, project | exchange | join | …) -> sinks

Spark reads, partitions, shuffles, schedules and retries; the operators, and all around them, are
those of the embedded executor: the graph's runner polls sources, logs epochs and commits sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from secrets import token_hex
from typing import ClassVar, Final
from zlib import crc32

import msgspec

from parser.errors import ExecutionError, ServiceError, SqlError
from planner.graph.physical import PhysicalPlan
from planner.logical import Scan, Values
from sqlengine.batch import Batch
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.encoded import encoded_of
from sqlengine.executors.dataflow.flow import SinkWrite
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import EpochRecord
from sqlengine.executors.measures.waiting import Waiting
from sqlengine.executors.node_state.node_context import local_name
from sqlengine.executors.prepared_plan import InitialState, PreparedPlan
from sqlengine.executors.sources import RunningSource
from sqlengine.executors.spark.boundary import TaskFailed, unavailable
from sqlengine.executors.spark.encoding import sink_tables
from sqlengine.executors.spark.handed_over import discard_handed_over, handed_over_in
from sqlengine.executors.spark.job import JobResult, run_job
from sqlengine.executors.spark.kept_state import KeptState, times_of
from sqlengine.executors.spark.local_phases import owner_of, with_local_phases
from sqlengine.executors.spark.options import SparkOptions
from sqlengine.executors.spark.plan import CutPlan, cut_plan
from sqlengine.executors.spark.progress import SparkProgress
from sqlengine.executors.spark.reading.linked import Places
from sqlengine.executors.spark.session import Spark
from sqlengine.executors.spark.splits import (
    Budget,
    EpochSplits,
    InputSplit,
    RangeSource,
    failing,
    ranges_of,
    read_by_tasks,
)
from sqlengine.executors.spark.state_files import discard_before
from sqlengine.executors.spark.supported import check_watermarks
from sqlengine.executors.spark.task_plan import task_plan
from sqlengine.executors.spark.tasks.functions import note_losses
from sqlengine.executors.spark.tasks.state import TaskState
from sqlengine.executors.spark.worker import Counts, SparkPlan, Step
from sqlengine.executors.steps.guard import StepGuard
from sqlengine.functions.answers import CannotRepeat, EpochAnswers, present_answers
from sqlengine.operators.base import ERROR_PORT, FATAL_ERROR_PORT
from sqlengine.operators.ports import WATERMARKS
from sqlengine.operators.watermark import write_times
from sqlengine.state.table import KeyedTable

# Bytes of a topic that an epoch reads at once, about and at most, where it reads more turns.
_BYTES_PER_POLL: Final = 64 << 20
NOTHING: Final = InitialState()
_RUNS: Final = "runs a job on Spark"
# An epoch takes so many times as long as one in this process, and is as dear to repeat.
_PATIENCE: Final = 10.0


class SparkExecutor(EmbeddedExecutor):
    """The operators of one graph, in tasks. See `EmbeddedExecutor`.

    Operators are built and opened in this process, too, where they have no rows: what fails there
    reads as it does without Spark. What is pushed waits for `flush`, which runs the epoch.
    TaskFailed from there where a task fails: nothing of the epoch has been written."""

    in_tasks: ClassVar[bool] = True
    has_families: ClassVar[bool] = False

    def __init__(self, spark: Spark, options: SparkOptions, guard: StepGuard | None = None) -> None:
        super().__init__(options.factory, guard, filters=options.filters)
        self.guard.patience = _PATIENCE
        self._spark = spark
        self._options = options
        # Workers outlive a graph that is recovered, and the numbers of its plans.
        self._name = f"{options.uri}#{token_hex(4)}"
        self._cut: CutPlan | None = None
        self._tasks: SparkPlan | None = None
        self._epoch = EpochSplits(options.rows_per_turn)
        self._record: EpochRecord | None = None
        self._waits = False
        self._state = KeptState(options.uri)
        self._budget = Budget()
        self._places = Places()
        self._version = self._last_version = 0
        self._rows_read = 0
        self.phased = self.plan  # with the aggregates before an exchange
        self.progress = SparkProgress(options.folder.name, self.guard.now)
        self.state_files = self.progress.state
        self._timer: int | None = None
        self._sizes: Mapping[str, tuple[int, int]] | None = None

    # ---- changes of the plan ---------------------------------------------------------------------

    def prepare(self, plan: PhysicalPlan) -> PreparedPlan:
        """See `EmbeddedExecutor`. UnsupportedError for what tasks cannot run."""
        if self._options.durable:
            check_watermarks(cut_plan(plan))
        return super().prepare(plan)

    def switch(self, prepared: PreparedPlan, state: InitialState = NOTHING) -> None:
        """See `EmbeddedExecutor`. The state stays with the tasks, and what `state` brings goes to
        them with the next epoch."""
        tables, cut, plan = set(self.tables), self._cut, self.plan
        names = {node: r.context.names for node, r in self.running.items()}
        none = {name: rows.slice(0, 0) for name, rows in state.tables.items()}
        super().switch(prepared, replace(state, tables=none))
        self.phased = in_phases = with_local_phases(self.plan, self._options.phases)
        self._cut = cut_plan(in_phases, self.created_at_version())
        if not self._version:
            discard_handed_over(self._options.uri)  # of a process that was killed
        self._tasks = self._sizes = None
        self._version += 1
        must_tick = self._state.switch(cut, self._cut, plan, self.plan, state.inherited)
        for node, source in state.inherited.items():
            self._state.inherit(self.running[node].context.names, names[source])
        brought = {n: rows for n, rows in state.tables.items() if n not in tables and len(rows)}
        self._state.seed(brought, self.tables, self._cut, self.plan)
        if brought or must_tick:
            self._timer = 0

    def opened(self, scan: Scan, source: Source) -> Source:
        """See `EmbeddedExecutor`: tasks read bounded files, and make bounded rows of datagen."""
        if read_by_tasks(scan, source):
            return ranges_of(source, scan, self._budget)
        source.widen(self._options.widens, _BYTES_PER_POLL)
        if self._options.links:
            source.link(handed_over_in(self._options.folder), self._epoch.rows_per_split)
        return source

    # ---- epochs ----------------------------------------------------------------------------------

    def begin(self, record: EpochRecord) -> None:
        self._record, self._timer = record, None
        for node, tick in self._state.ticks:
            self.push(node, tick, _nowhere)
        self._budget.renew()

    def next_timer(self) -> int | None:
        """See `EmbeddedExecutor`: tasks said it in the last epoch."""
        return self._timer

    def read(
        self, source: RunningSource, node: str, chunk: Chunk, record: EpochRecord, write: SinkWrite
    ) -> None:
        self._state.know(node, chunk.shard)
        if isinstance(source.source, RangeSource) and chunk.columns is None:
            with failing(self.plan.nodes[node]):
                self._epoch.add_ranges(node, chunk.shard, source.source.bounds(chunk))
        elif chunk.places:
            self._epoch.add_places(node, chunk.shard, chunk.start, chunk.places)
        else:
            self.count_pruned(node, chunk)
            batch = source.batch(chunk, record.proctime, record.seed)
            self._epoch.add(node, batch, chunk.start)

    def push(self, node: str, batch: Batch, write: SinkWrite) -> None:
        if self._record is None:
            self._state.ticks.append((node, batch))
        elif isinstance(self.plan.nodes[node].plan, Values):
            self._epoch.add_values(node)
        elif batch.origin or batch.num_rows:
            self._state.know(node, batch.origin)
            if batch.num_rows or self._keeps_time:
                self._epoch.add(node, batch)
        elif self._keeps_time:
            for log in self._state.logs_of(node):
                self._epoch.add(node, replace(batch, origin=log))

    @property
    def _keeps_time(self) -> bool:
        return self._cut is not None and bool(self._cut.keyed)

    def push_output(self, node: str, batch: Batch, write: SinkWrite) -> None:
        """See `EmbeddedExecutor`. Does nothing: each epoch ends with a tick for all that is behind
        an exchange."""

    def flush(self, write: SinkWrite) -> None:
        """Runs the epoch that has begun; between epochs ticks wait for the next one."""
        if self._record is None or self._cut is None:
            return
        if self._epoch.splits or self._cut.keyed:
            splits, self._epoch = self._epoch.splits, EpochSplits(self._options.rows_per_turn)
            result = self._run_again(self._record, splits)
            self._count(result.counts, self._state.before().partitions)
            for port, rows in result.rows:
                if port in (ERROR_PORT, FATAL_ERROR_PORT):
                    self.flow.errors.append((port, rows))
                else:
                    self.state_files["batches encoded"] += encoded_of(rows) is not None
                    write(self._cut.sinks[port], rows)
            if result.by_files or any(s.place is not None for s in splits):
                discard_handed_over(self._options.uri)

    @property
    def cut(self) -> CutPlan:
        """The stages of the plan."""
        return self._cut or cut_plan(self.phased)

    def node_seconds(self) -> dict[str, float]:
        """See `EmbeddedExecutor`: the CPU time in tasks."""
        seconds: dict[str, float] = {}
        for node, spent in self.progress.by_node.items():
            seconds[owner_of(node)] = seconds.get(owner_of(node), 0.0) + spent
        return seconds

    def own_seconds(self) -> dict[str, float]:
        return dict(self.progress.by_job)

    def waiting(self) -> dict[str, Waiting]:
        """See `EmbeddedExecutor`: as tasks told it in the last epoch."""
        return {name: waits for name, waits in self.progress.waits.items() if name in self.running}

    def _count(self, counts: Counts, partitions: int) -> None:
        self.progress.count(counts, partitions)
        self._rows_read, self._timer, self._sizes = counts.read, counts.timer, counts.sizes
        self.counts.add_all(counts.rows)
        note_losses(counts.losses)
        for node, counters in counts.nodes.items():
            self.running[owner_of(node)].context.counters.update(counters)
        assert self._cut is not None
        for node, times in times_of(counts.times, self._cut, self.plan).items():
            # What shows it looks here.
            write_times(self.tables_here(node)[WATERMARKS], times)

    def _run_again(self, record: EpochRecord, splits: list[InputSplit]) -> JobResult:
        """Runs an epoch, and again where Spark itself has failed: nothing of it was written.

        See `_given_up` for where that was so in each attempt."""
        self.guard.cut_short = partial(self._spark.cancel, self._name)
        for left in reversed(range(self._options.attempts)):
            try:
                what = f"graph {self.progress.name}, epoch {record.epoch}"
                with (
                    self.progress.epoch(),
                    self._spark.errors(),
                    self._spark.group(self._name, what, self._tell, self._tell_far),
                ):
                    return self._run_job(record, splits)
            except TaskFailed as error:
                if error.jobs:
                    raise
                failure: SqlError = error
            except CannotRepeat:
                raise
            except ServiceError as error:  # it does not start
                raise self._given_up(error) from error
            except ExecutionError as error:
                failure = error
            self.guard.check()  # it may have been ended
            if not left:
                raise self._given_up(failure) from failure
            self.progress.repeats(record.epoch, left, failure)
        raise AssertionError("an epoch has an attempt at least")

    def _tell_far(self, far: str) -> None:
        if not self._waits:  # for something else than tasks
            self.guard.activity = f"{_RUNS} ({far})"

    def _given_up(self, failure: SqlError) -> SqlError:
        """Returns the error of an epoch that Spark could not run. A script ends with what it is;
        what goes on from a checkpoint waits for Spark."""
        return unavailable(failure) if self._options.durable else failure

    def _tell(self, waits: str | None) -> None:
        """Says what the step waits for. The time without executors is not that of a job."""
        self._waits = waits is not None
        jobs = frozenset[str]() if self._waits else frozenset(self.plan.graph.jobs)
        self.guard.tell(waits or _RUNS, jobs)

    def _run_job(self, record: EpochRecord, splits: list[InputSplit]) -> JobResult:
        assert self._cut is not None
        session, options, before = self._spark.session(), self._options, self._state.before()
        options.folder.mkdir(parents=True, exist_ok=True)
        if self._tasks is None:
            tables = sink_tables(self._cut.sinks, self.plan) if options.encodes else {}
            timeouts = self.guard.timeouts()
            tasks = task_plan(
                self._cut, options, self._name, self._version, timeouts, self.scan_filters
            )
            self._tasks = replace(tasks, tables=tables)
        tasks = self._tasks = replace(self._tasks, functions=self._tasks.functions.renewed())
        answers = present_answers() if tasks.answers else None
        step = self._step(record, self._spark.partitions(), answers)
        job = partial(run_job, session, tasks, step, options.uri, carried=options.carried)
        result = self._places.run(job, splits, record, self.plan)
        self.state_files["ranges read by tasks"] += self._places.read_by_tasks(splits)
        self.state_files["batches by files"] += result.by_files
        if answers is not None and result.counts.answers:
            answers.partitions = step.partitions
        self._last_version = self._version
        self._state.advance(step, len(self._cut.keyed), result.counts.oldest)
        if not options.durable:  # a task that is late may still read what was before
            self.discard_before(before)
        return result

    def _step(self, record: EpochRecord, cores: int, answers: EpochAnswers | None) -> Step:
        options, partitions, answered = self._options, self._options.partitions or cores, False
        if answers is not None:
            partitions, answered = answers.of_tasks(partitions)
        return Step(
            record.epoch,
            self._version,
            record.proctime,
            record.seed,
            partitions,
            self._state.before(),
            crc32(msgspec.json.encode(record)),
            self._version == self._last_version,
            options.deltas,
            options.whole_rows,
            answered,
        )

    def end(self) -> int:
        """See `EmbeddedExecutor`: the rows of ranges."""
        self._record = None
        ranges, self._rows_read = self._rows_read, 0
        return ranges

    # ---- state -----------------------------------------------------------------------------------

    def task_state(self) -> TaskState | None:
        return self._state.now()

    def restore_tasks(self, state: TaskState | None) -> None:
        if state is not None:
            self._state.restore(state, self.plan.nodes)
            self._timer = 0  # a tick tells

    def tables_of(self, node: str) -> dict[str, KeyedTable]:
        """See `EmbeddedExecutor`: copies of what the tasks have."""
        return {name: self._filled(node, shell) for name, shell in self.tables_here(node).items()}

    def sizes_of(self, node: str) -> dict[str, tuple[int, int]]:
        """See `EmbeddedExecutor`: as tasks told them in the last epoch."""
        if self._sizes is None:
            return super().sizes_of(node)
        names = self.running[node].context.names if node in self.running else ()
        return {local_name(name): self._sizes.get(name, (0, 0)) for name in names}

    def _filled(self, node: str, shell: KeyedTable) -> KeyedTable:
        exchange = None if shell.everywhere else shell.exchange
        table = KeyedTable(shell.name, shell.keys, shell.values, exchange)
        rows = None
        if self._cut is not None:
            rows = self._state.times_before(node, self._cut, self.plan)
        if rows is None:
            rows = self._state.tables().get(shell.name)
        if rows is not None:
            table.load(rows)
        return table

    def discard_before(self, state: TaskState) -> None:
        discard_before(self._options.uri, state.epoch if state.oldest < 0 else state.oldest)


def _nowhere(sink: str, batch: Batch) -> None: ...
