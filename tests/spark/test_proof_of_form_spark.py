"""The proof of the form, on Spark: the operators of `tests/operators` run in its tasks and give the
same rows, through a batch that is repeated after a crash and buckets that move to another number of
partitions."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parser.errors import ServiceError
from parser.types import BIGINT, STRING, Schema
from planner.graph.physical import Edge, PhysicalNode
from sqlengine.batch import NO_OFFSET, Batch, from_pydict
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.spark.fragment import Fragment, FragmentOperator
from sqlengine.executors.spark.lines import LineStage
from sqlengine.executors.spark.runner import SparkRunner, read_segments
from sqlengine.executors.spark.worker import Exchange, SparkPlan, bucket_range
from sqlengine.executors.wire import (
    StateFile,
    decode_batch,
    decode_state,
    encode_batch,
    encode_state,
    is_whole,
)
from sqlengine.operators.base import ERROR_PORT
from sqlengine.state.keys import BUCKETS
from tests.operators.proof import PLAN, Chunk, expected, feed, operators, scanned, to_lines
from tests.operators.proof_rules import alerts, scanned_rules
from tests.operators.windows import Chain, rows

CHUNKS = feed(5, chunks=12)
AGGREGATE = PhysicalNode(
    "windows", PLAN, PLAN.schema.names, {0: (Edge("out"),)}, frozenset({"proof"}), 0
)
KEYED = Fragment((AGGREGATE,), {0: ("windows", 0)}, {("out", 0): 1})
SPARK_PLAN = SparkPlan(
    "proof",
    1,
    lambda: LineStage(scanned()),
    {0: Exchange(("k",), PLAN.input.schema)},
    (lambda first: FragmentOperator(KEYED, OperatorFactory(), first),),
)


@dataclass
class Sink:
    """Rows by batch; a batch that comes again must be the same."""

    batches: dict[int, list[tuple[object, ...]]] = field(default_factory=dict)
    letters: dict[int, list[tuple[object, ...]]] = field(default_factory=dict)
    repeated: list[int] = field(default_factory=list)

    def deliver(self, number: int, results: list[tuple[int, int, Batch]]) -> None:
        result = rows(b for stage, port, b in results if (stage, port) == (1, 1))
        letters = rows(b for stage, port, b in results if port == ERROR_PORT)
        if number in self.batches:
            self.repeated.append(number)
            assert (self.batches[number], self.letters[number]) == (result, letters)
        self.batches[number], self.letters[number] = result, letters


def write(folder: Path, chunks: list[Chunk], first: int) -> None:
    """A file for each chunk, oldest first; one record of all is malformed."""
    for n, chunk in enumerate(chunks, first):
        lines = to_lines(chunk)
        if n == 4:
            lines.insert(1, '{"ts": ')
        path = folder / f"{chunk.shard}.{chunk.offset}.jsonl"
        path.write_text("".join(line + "\n" for line in lines))
        os.utime(path, (1_000_000 + n, 1_000_000 + n))


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_same_rows_on_spark(spark: Any, tmp_path: Path) -> None:
    source, checkpoint, state = (
        tmp_path / "in",
        tmp_path / "checkpoint",
        (tmp_path / "state").as_uri(),
    )
    source.mkdir()
    sink = Sink()

    def run(partitions: int) -> SparkRunner:
        runner = SparkRunner(
            spark, {1: SPARK_PLAN}, 1, state, sink.deliver, partitions, clock=lambda: 0
        )
        stream = read_segments(spark, "events", str(source), files_per_batch=3)
        runner.start(stream, str(checkpoint)).awaitTermination()
        return runner

    write(source, CHUNKS[:6], 0)
    run(partitions=2)
    assert list(sink.batches) == [0, 1]
    crash_before_commit(checkpoint, 1)
    write(source, CHUNKS[6:], 6)
    runner = run(partitions=3)
    runner.finish()
    assert sink.repeated == [1]
    wanted, _ = expected(CHUNKS)
    order = lambda row: (row[-1], str(row[0]))  # noqa: E731
    assert sorted((r for b in sink.batches.values() for r in b), key=order) == sorted(
        wanted, key=order
    )
    assert [letter[4] for batch in sink.letters.values() for letter in batch] == ['{"ts": ']
    with pytest.raises(ServiceError, match="the input was ended before"):
        runner.run(spark.range(0), 4)
    assert sorted(p.name for p in (tmp_path / "state" / "state").iterdir()) == [
        "000000000003",
        "000000000004",
    ]


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_same_alerts_on_spark(spark: Any, tmp_path: Path) -> None:
    """The merged filters need no keyed stage."""
    (tmp_path / "in").mkdir()
    write(tmp_path / "in", CHUNKS, 0)
    found: dict[int, list[tuple[object, ...]]] = {0: [], 1: [], ERROR_PORT: []}

    def deliver(number: int, results: list[tuple[int, int, Batch]]) -> None:
        for _, port, batch in results:
            found[port] += rows([batch])

    plan = SparkPlan("alerts", 1, lambda: LineStage(scanned_rules()))
    runner = SparkRunner(
        spark, {1: plan}, 1, (tmp_path / "state").as_uri(), deliver, clock=lambda: 0
    )
    stream = read_segments(spark, "events", str(tmp_path / "in"), files_per_batch=6)
    runner.start(stream, str(tmp_path / "checkpoint")).awaitTermination()
    order = lambda row: (*map(str, row[:3]), row[3] or 0)  # noqa: E731
    wanted = alerts(CHUNKS)
    assert {port: sorted(found[port], key=order) for port in wanted} == {
        port: sorted(wanted[port], key=order) for port in wanted
    }
    assert len(found[ERROR_PORT]) == 1


def crash_before_commit(checkpoint: Path, batch: int) -> None:
    """As if the driver had died after the sink took the batch and before Spark wrote that down."""
    for path in (checkpoint / "commits").glob(f"*{batch}*"):
        path.unlink()


def test_state_file_holds_buckets_apart() -> None:
    chain = Chain(operators())
    for chunk in CHUNKS[:3]:
        chain.push(chunk.batch())
    table, times = chain.context.tables["2/windows"], chain.context.tables["0/watermarks"]
    data = encode_state(StateFile({"windows": table.dump()}, {"times": times.dump()}))
    assert is_whole(data)
    assert not is_whole(data[:-1])
    for partitions in (1, 3, 128):
        parts = [decode_state(data, bucket_range(p, partitions)) for p in range(partitions)]
        assert sum(p.tables["windows"].num_rows for p in parts) == len(table)
        assert all(p.shared["times"].num_rows == len(times) for p in parts)
        assert [b for p in range(partitions) for b in bucket_range(p, partitions)] == list(
            range(BUCKETS)
        )
        for p, part in enumerate(parts):
            kept = table.dump(bucket_range(p, partitions))
            assert part.tables["windows"].sort_by("#sequence").equals(kept.sort_by("#sequence"))


def test_a_batch_travels_with_all_that_belongs_to_it() -> None:
    schema = Schema.of(k=STRING, v=BIGINT)
    whole = replace(
        from_pydict(schema, {"k": ["a", None, "b"], "v": [1, 2, None]}),
        proctime=7,
        watermark=30,
        row_watermarks=np.array([10, 20, 20]),
        kinds=np.array([0, 1, 2], np.int8),
        origin="shard",
        seed=5,
        offsets=np.array([4, NO_OFFSET, 6]),
    )
    bare = replace(whole, row_watermarks=None, kinds=None, offsets=None)
    for batch in (whole, bare, whole.take(np.array([2, 0])), whole.slice(1, 2), bare.tick(schema)):
        came = decode_batch(encode_batch(batch))
        for part in fields(Batch):
            sent, got = (getattr(b, part.name) for b in (batch, came))
            if isinstance(sent, np.ndarray):
                sent, got = (sent.dtype, sent.tolist()), (got.dtype, got.tolist())
            assert part.name == "memo" or sent == got, part.name
