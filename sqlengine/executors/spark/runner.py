"""Runs plans on Spark: Spark reads, partitions, shuffles, schedules, retries and keeps offsets; the
operators are those of the embedded executor.

    records -> mapInArrow(stateless stage) -> repartitionById -> mapInArrow(keyed stage 1) ->
    repartitionById -> …
            -> one collected result a batch

Results, and rows for a later stage, pass the stages between unchanged. Each micro-batch is one job:
of a stream in `foreachBatch`, of a script as its reader cuts the input (`script_runner.py`).
Watermarks, lateness and the order of rows follow from the data, as in the embedded executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from parser.errors import ServiceError
from sqlengine.batch import Batch
from sqlengine.executors.seeds import MAX_SEED, spread_seed
from sqlengine.executors.spark.boundary import TaskFailed, contained, failures_in
from sqlengine.executors.spark.keyed import run_keyed
from sqlengine.executors.spark.worker import (
    FRAME_ORDER,
    READ,
    STATELESS,
    Batches,
    SparkPlan,
    Step,
    bound_for,
    run_stateless,
    to_frames,
)
from sqlengine.executors.wire import decode_batch
from sqlengine.system.format_numbers import check_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_DDL: Final = (
    "partition int, stage int, turn bigint, shard string, offset bigint, sequence bigint, sender"
    " int, part int, port int, batch binary"
)
STEP_FORMAT: Final = 2

# Takes the number of a batch and its results in order, as (stage, port, rows); stage 0 is the
# stateless one. Called once per batch, and again with equal rows if the batch is repeated, so
# writes must be idempotent by the batch's number.
Deliver = Callable[[int, list[tuple[int, int, Batch]]], None]


def read_segments(
    spark: SparkSession, name: str, folder: str, *, files_per_batch: int = 1000
) -> DataFrame:
    """Streams the lines of the files in a folder, oldest file first.

    Files are segments of the shards' logs, named SHARD.OFFSET.ANYTHING, ordered by offset, and
    complete when they appear."""
    stream = (
        spark.readStream.name(name).format("text").option("maxFilesPerTrigger", files_per_batch)
    )
    return stream.load(folder).selectExpr("value AS record", "_metadata.file_name AS file")


def _numbered(lines: DataFrame) -> DataFrame:
    """Adds to each line its shard and offset from the file's name, and a sequence number that
    grows within a file."""
    return lines.selectExpr(
        "split_part(file, '.', 1) AS shard",
        "cast(split_part(file, '.', 2) AS bigint) AS offset",
        "monotonically_increasing_id() AS sequence",
        "cast(record AS binary) AS record",
    )


class SparkRunner:
    """Runs the plans of one graph, batch by batch.

    `plans` by version of the graph: new batches run at `version`, a repeated one may be older.
    `folder` (a URI) keeps the steps and the state. `partitions` may differ from an earlier run:
    buckets move. `clock` in ms. `rows_read` counts the records of all batches of this runner."""

    def __init__(
        self,
        spark: SparkSession,
        plans: Mapping[int, SparkPlan],
        version: int,
        folder: str,
        deliver: Deliver,
        partitions: int = 2,
        seed: int = 0,
        clock: Callable[[], int] = lambda: int(time() * 1000),
    ) -> None:
        self._spark = spark
        self._plans = plans
        self._version = version
        self._folder = folder
        self._deliver = deliver
        self._partitions = partitions
        self._seed = seed
        self._clock = clock
        self.rows_read = 0
        self._system, self._path = fs.FileSystem.from_uri(folder)
        self._system.create_dir(f"{self._path}/steps", recursive=True)

    def start(self, stream: DataFrame, checkpoint: str) -> StreamingQuery:
        """Starts a query that reads all that `read_segments` has now, in batches, and stops."""
        query = stream.writeStream.foreachBatch(
            lambda lines, batch: self.run(_numbered(lines), batch)
        )
        return query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

    def run(self, records: DataFrame, batch: int, *, end: bool = False) -> None:
        """Runs one batch of `records`, in the form that the plan's stateless stage takes; with
        `end` the last one. The last batch may be repeated: it gives the same rows. TaskFailed where
        a task fails: nothing of the batch is delivered."""
        step = self._fix(batch, end=end)
        if step.end and not end:
            raise ServiceError(
                "the input was ended before", hint="begin with an empty state folder"
            )
        self._execute(records, step)

    def finish(self) -> None:
        """Ends the input of a stream: open windows and timers fire."""
        last = self._last_step(2**62)
        if last is None or not last.end:
            last = self._fix(-1 if last is None else last.batch + 1, end=True)
        nothing = self._spark.createDataFrame(
            [], "shard string, offset bigint, sequence bigint, record binary"
        )
        self._execute(nothing, last)

    def _execute(self, records: DataFrame, step: Step) -> None:
        if step.version not in self._plans:
            raise ServiceError(
                f"batch {step.batch} was begun with version {step.version} of the graph, which is"
                " not here",
                hint="keep the versions of a graph until their last batch is done",
            )
        plan = self._plans[step.version]
        frames = records.mapInArrow(_stage(plan, STATELESS, step, self._folder), _DDL)
        if plan.keyed:
            frames = frames.unionByName(self._ticks(step, len(plan.keyed)))
        for stage in range(1, len(plan.keyed) + 1):
            frames = frames.repartitionById(step.partitions, "partition")
            frames = frames.mapInArrow(_stage(plan, stage, step, self._folder), _DDL)
        table = frames.toArrow()
        for failure in failures_in(table):
            raise TaskFailed(failure)
        is_read = pc.equal(table["stage"], READ)
        self.rows_read += pc.sum(table.filter(is_read)["part"]).as_py() or 0
        self._deliver(step.batch, _results(table.filter(pc.invert(is_read))))

    def _ticks(self, step: Step, stages: int) -> DataFrame:
        """Makes an empty frame for each partition of each stage, so that all of them run even
        without rows."""
        frames = [
            (p, bound_for(stage), 0, "", 0, 0, 0, 0, 0, None)
            for stage in range(1, stages + 1)
            for p in range(step.partitions)
        ]
        return self._spark.createDataFrame(pa.Table.from_batches([to_frames(frames)]))

    def _fix(self, batch: int, *, end: bool) -> Step:
        """Fixes what a batch depends on besides its rows: reads what an earlier attempt has stored,
        or stores what holds now."""
        path = f"{self._path}/steps/{batch:012}.json"
        stored = self._read_step(path)
        if stored is not None:
            return stored
        last = self._last_step(batch)
        step = Step(
            batch=batch,
            version=self._version,
            proctime=self._clock(),
            seed=(self._seed + spread_seed(batch + 1)) & MAX_SEED,
            partitions=self._partitions,
            previous=-1 if last is None else last.batch,
            previous_partitions=0 if last is None else last.partitions,
            end=end,
            format=STEP_FORMAT,
        )
        with self._system.open_output_stream(path) as stream:
            stream.write(msgspec.json.encode(step))
        self._forget(step.previous)
        return step

    def _last_step(self, before: int) -> Step | None:
        """The newest batch below `before` that has begun; None if there is none."""
        files = self._system.get_file_info(fs.FileSelector(f"{self._path}/steps"))
        older = [f for f in files if int(f.base_name.removesuffix(".json")) < before]
        return self._read_step(max(older, key=lambda f: str(f.base_name)).path) if older else None

    def _read_step(self, path: str) -> Step | None:
        """Reads a stored step; None if it is missing, or incomplete and so never used."""
        if self._system.get_file_info(path).type is not fs.FileType.File:
            return None
        with self._system.open_input_stream(path) as stream:
            data = stream.read()
        try:
            step = msgspec.json.decode(data, type=Step)
        except msgspec.DecodeError:
            return None
        hint = "go on with the version that wrote it, or begin with an empty folder"
        check_number(step.format, STEP_FORMAT, f"'{path}'", hint=hint)
        return step

    def _forget(self, previous: int) -> None:
        """Deletes the state before batch `previous`: since a new batch begins, that one is
        committed, and no attempt needs older state."""
        old = self._last_step(previous)
        if old is not None:
            path = f"{self._path}/state/{old.batch:012}"
            if self._system.get_file_info(path).type is fs.FileType.Directory:
                self._system.delete_dir(path)
            self._system.delete_file(f"{self._path}/steps/{old.batch:012}.json")


def _stage(plan: SparkPlan, stage: int, step: Step, folder: str) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        if stage == STATELESS:
            return run_stateless(plan, step, batches)
        return run_keyed(plan, stage, step, folder, batches)

    return lambda batches: contained(plan, step, run, batches)


def _results(frames: pa.Table) -> list[tuple[int, int, Batch]]:
    """Decodes results, in an order that does not depend on how the tasks ran."""
    ordered = frames.sort_by([(n, "ascending") for n in ("stage", *FRAME_ORDER)])
    columns = zip(*(ordered[n].to_pylist() for n in ("stage", "port", "batch")), strict=True)
    return [(stage, port, decode_batch(data)) for stage, port, data in columns]
