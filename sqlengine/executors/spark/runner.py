"""Runs plans on Spark: it reads, partitions, shuffles, schedules, retries and keeps the offsets;
the operators are ours.

    records -> mapInArrow(stateless stage) -> repartitionById -> mapInArrow(keyed stage 1) ->
    repartitionById -> …
            -> one collected result a batch

What is a result already, or goes to a later stage, passes by those between. One job a batch: of a
stream in `foreachBatch`, of bounded input as its reader cuts it (`spark_runner`). Watermarks,
lateness and order of rows are decided by the data within a batch as the embedded executor decides
them."""

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
from sqlengine.executors.spark.keyed import run_keyed
from sqlengine.executors.spark.worker import (
    PLACE,
    READ,
    Batches,
    SparkPlan,
    Step,
    on_its_way,
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

# Rows by (stage, port), in order; stage 0 is the stateless one. Called once a batch, and again with
# equal rows when a batch is repeated: what it writes must be found under the batch's number.
Deliver = Callable[[int, list[tuple[int, int, Batch]]], None]


def read_segments(
    spark: SparkSession, name: str, folder: str, *, files_per_batch: int = 1000
) -> DataFrame:
    """A stream of the lines of the files in a folder, oldest file first. Files are named
    SHARD.OFFSET.ANYTHING: pieces of the shards' logs, ordered by offset, each complete when it
    appears."""
    stream = (
        spark.readStream.name(name).format("text").option("maxFilesPerTrigger", files_per_batch)
    )
    return stream.load(folder).selectExpr("value AS record", "_metadata.file_name AS file")


def _numbered(lines: DataFrame) -> DataFrame:
    """Lines with their places, by the files' names; a sequence number grows with the lines of a
    file."""
    return lines.selectExpr(
        "split_part(file, '.', 1) AS shard",
        "cast(split_part(file, '.', 2) AS bigint) AS offset",
        "monotonically_increasing_id() AS sequence",
        "cast(record AS binary) AS record",
    )


class SparkRunner:
    """Runs one graph's plans. `folder` (a URI) keeps what was fixed for each batch and the state;
    `plans` by version of the graph: that of a batch which is repeated may be older than `version`,
    the one for new batches.

    `partitions` may differ from what it was in an earlier run: the buckets move. `rows_read` counts
    the records of all batches that this runner ran."""

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
        """Reads all that `read_segments` has now, in batches, and stops."""
        query = stream.writeStream.foreachBatch(
            lambda lines, batch: self.run(_numbered(lines), batch)
        )
        return query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

    def run(self, records: DataFrame, batch: int, *, end: bool = False) -> None:
        """One batch of `records`, as the plan's stateless stage takes them; with `end`, the last of
        bounded input. May be called again for the last batch: it then gives the same rows."""
        step = self._fix(batch, end=end)
        if step.end and not end:
            raise ServiceError(
                "the input was ended before", hint="begin with an empty state folder"
            )
        self._execute(records, step)

    def finish(self) -> None:
        """The end of a stream's input: all that is open comes out."""
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
        frames = records.mapInArrow(lambda batches: run_stateless(plan, step, batches), _DDL)
        if plan.keyed:
            frames = frames.unionByName(self._ticks(step, len(plan.keyed)))
        for stage in range(1, len(plan.keyed) + 1):
            frames = frames.repartitionById(step.partitions, "partition")
            frames = frames.mapInArrow(_stage(plan, stage, step, self._folder), _DDL)
        table = frames.toArrow()
        is_read = pc.equal(table["stage"], READ)
        self.rows_read += pc.sum(table.filter(is_read)["part"]).as_py() or 0
        self._deliver(step.batch, _results(table.filter(pc.invert(is_read))))

    def _ticks(self, step: Step, stages: int) -> DataFrame:
        """A frame without a batch for each partition of each stage: all of them run, whether they
        have rows or not."""
        frames = [
            (p, on_its_way(stage), 0, "", 0, 0, 0, 0, 0, None)
            for stage in range(1, stages + 1)
            for p in range(step.partitions)
        ]
        return self._spark.createDataFrame(pa.Table.from_batches([to_frames(frames)]))

    def _fix(self, batch: int, *, end: bool) -> Step:
        """What the batch depends on besides its rows: as an earlier attempt wrote it down, or as it
        is now."""
        path = f"{self._path}/steps/{batch:012}.json"
        held = self._read_step(path)
        if held is not None:
            return held
        last = self._last_step(batch)
        step = Step(
            batch=batch,
            version=self._version,
            proctime=self._clock(),
            seed=(self._seed + (batch + 1) * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF,
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
        """The newest batch below `before` that was begun."""
        files = self._system.get_file_info(fs.FileSelector(f"{self._path}/steps"))
        older = [f for f in files if int(f.base_name.removesuffix(".json")) < before]
        return self._read_step(max(older, key=lambda f: str(f.base_name)).path) if older else None

    def _read_step(self, path: str) -> Step | None:
        """None where there is none, or only a part of one: then nothing has begun with it."""
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
        """Drops what no attempt can ask for any more: a batch that begins means that the one before
        is committed."""
        old = self._last_step(previous)
        if old is not None:
            path = f"{self._path}/state/{old.batch:012}"
            if self._system.get_file_info(path).type is fs.FileType.Directory:
                self._system.delete_dir(path)
            self._system.delete_file(f"{self._path}/steps/{old.batch:012}.json")


def _stage(plan: SparkPlan, stage: int, step: Step, folder: str) -> Callable[[Batches], Batches]:
    return lambda batches: run_keyed(plan, stage, step, folder, batches)


def _results(frames: pa.Table) -> list[tuple[int, int, Batch]]:
    """Decoded, in an order that does not depend on how the tasks ran."""
    ordered = frames.sort_by([(n, "ascending") for n in ("stage", *PLACE)])
    columns = zip(*(ordered[n].to_pylist() for n in ("stage", "port", "batch")), strict=True)
    return [(stage, port, decode_batch(data)) for stage, port, data in columns]
