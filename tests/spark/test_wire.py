"""State files and batches travel with all that belongs to them."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from parser.limits import Limits
from parser.types import BIGINT, STRING, Schema
from sqlengine.batch import NO_OFFSET, Batch, from_pydict
from sqlengine.config import Config
from sqlengine.executors.spark.tasks.rules import TaskRules
from sqlengine.executors.spark.worker import bucket_range
from sqlengine.executors.wire import (
    StateFile,
    decode_batch,
    decode_state,
    encode_batch,
    encode_state,
    is_whole,
)
from sqlengine.state.keys import BUCKETS
from tests.operators.proof import feed, operators
from tests.operators.windows import Chain

CHUNKS = feed(5, chunks=12)


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


def test_rules_of_a_server_travel_to_its_tasks(tmp_path: Path) -> None:
    config = Config(data=tmp_path, files=(tmp_path / "files",))
    sealed = config.secret_values.sealed
    assert sealed is not None
    name = sealed.keep("hidden")
    came = pickle.loads(pickle.dumps(TaskRules(Limits(), config.file_access, config.secret_values)))
    assert came.files == config.file_access
    assert came.secrets.sealed.get(name) == ("hidden", ())


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
