"""One epoch as one job of Spark.

    splits -> mapInArrow(stateless stage) -> repartitionById -> mapInArrow(keyed stage 1) ->
    repartitionById -> … -> one collected result

Results, and rows for a later stage, pass the stages between unchanged. Many rows of splits and of
results do not pass Spark's driver: they are in files (`handed_over.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.batch import Batch
from sqlengine.executors.spark.boundary import contained, error_of, failures_in
from sqlengine.executors.spark.handed_over import (
    HandedOver,
    fetched,
    is_elsewhere,
    with_results_aside,
)
from sqlengine.executors.spark.keyed import run_keyed
from sqlengine.executors.spark.splits import InputSplit, splits_to_table
from sqlengine.executors.spark.worker import (
    COUNTED,
    FRAME_ORDER,
    STATELESS,
    Batches,
    Counts,
    SparkPlan,
    Step,
    bound_for,
    merged,
    run_stateless,
    to_frames,
)
from sqlengine.executors.wire import decode_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DDL: Final = (
    "partition int, stage int, turn bigint, shard string, offset bigint, sequence bigint, sender"
    " int, part int, port int, batch binary"
)


@dataclass(frozen=True)
class JobResult:
    """The result of a job: rows by output port, in an order that does not depend on how its tasks
    ran, which may be read once; what they have counted; and how many batches went by files."""

    rows: Iterator[tuple[int, Batch]]
    counts: Counts
    by_files: int


def run_job(
    spark: SparkSession,
    plan: SparkPlan,
    step: Step,
    folder: str,
    splits: Iterable[InputSplit],
    carried: int,
) -> JobResult:
    """Runs an epoch; its state is in `folder` (a URI) then. TaskFailed where a task fails.

    Spark's driver carries so many bytes of splits, and of the results of each task, at most."""
    with HandedOver(folder, carried) as aside:
        splits = [s if s.batch is None else replace(s, batch=aside.put(s.batch)) for s in splits]
    records = spark.createDataFrame(splits_to_table(splits))

    def stage(number: int) -> Callable[[Batches], Batches]:
        return _stage(plan, number, step, folder, carried)

    frames = records.mapInArrow(stage(STATELESS), _DDL)
    if plan.keyed:
        frames = frames.unionByName(_ticks(spark, step, len(plan.keyed)))
    for number in range(1, len(plan.keyed) + 1):
        frames = frames.repartitionById(step.partitions, "partition")
        frames = frames.mapInArrow(stage(number), _DDL)
    table = frames.toArrow()
    for failure in failures_in(table):
        raise error_of(failure)
    counted = pc.equal(table["stage"], COUNTED)
    told = table.filter(counted)["batch"].to_pylist()
    counts = merged(msgspec.json.decode(data, type=Counts) for data in told)
    results = table.filter(pc.invert(counted))
    put = (*(s.batch for s in splits), *results["batch"].to_pylist())
    by_files = sum(data is not None and is_elsewhere(data) for data in put)
    return JobResult(_results(results), counts, by_files)


def _ticks(spark: SparkSession, step: Step, stages: int) -> DataFrame:
    """Makes an empty frame for each partition of each stage, so that all of them run even without
    rows."""
    frames = [
        (p, bound_for(stage), 0, "", 0, 0, 0, 0, 0, None)
        for stage in range(1, stages + 1)
        for p in range(step.partitions)
    ]
    return spark.createDataFrame(pa.Table.from_batches([to_frames(frames)]))


def _stage(
    plan: SparkPlan, stage: int, step: Step, folder: str, carried: int
) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        if stage == STATELESS:
            frames = run_stateless(plan, step, batches)
        else:
            frames = run_keyed(plan, stage, step, folder, batches)
        return with_results_aside(frames, folder, carried)

    return lambda batches: contained(plan, step, run, batches)


def _results(frames: pa.Table) -> Iterator[tuple[int, Batch]]:
    ordered = frames.sort_by([(n, "ascending") for n in ("stage", *FRAME_ORDER)])
    columns = (ordered[n].to_pylist() for n in ("port", "batch"))
    for port, data in zip(*columns, strict=True):
        yield port, decode_batch(fetched(data))
