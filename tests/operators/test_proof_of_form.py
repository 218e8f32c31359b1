"""The proof of the form: the same operator objects give the same rows in one process at any batch
size, in two instances with buckets moving between them, and through crashes. `tests/spark` has the
fourth way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import STRING
from sqlengine.batch import Batch
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.state.checkpoint import Checkpointer
from sqlengine.state.keys import BUCKETS, buckets_of
from sqlengine.state.rocks_store import RocksStore
from sqlengine.state.store import CheckpointStore, MemoryStore
from tests.operators.proof import SCHEMA, Chunk, expected, feed, introductions, operators
from tests.operators.windows import Chain, end_of_input, rows

Rows = list[tuple[object, ...]]


def in_pieces(chunks: list[Chunk], size: int) -> Iterator[Batch]:
    yield from introductions(chunks)
    for chunk in chunks:
        for start in range(0, len(chunk.rows), size):
            yield chunk.batch(start, size)
    yield end_of_input(SCHEMA)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_one_process(size: int) -> None:
    chunks, chain = feed(1), Chain(operators())
    output = [b for piece in in_pieces(chunks, size) for b in chain.push(piece)]
    wanted, late = expected(chunks)
    assert rows(output) == wanted
    assert (chain.context.counters["late_rows"], chain.letters) == (late, [])
    assert late > 10
    assert len(wanted) > 60


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.randoms(use_true_random=False))
def test_any_feed_and_any_split(seed: int, shards: int, rng: object) -> None:
    chunks, chain = feed(seed, chunks=9, shards=shards), Chain(operators())
    output = [b for tick in introductions(chunks) for b in chain.push(tick)]
    for chunk in chunks:
        start = 0
        while start < len(chunk.rows):
            count = rng.randint(1, len(chunk.rows) - start)  # type: ignore[attr-defined]
            output += chain.push(chunk.batch(start, count))
            start += count
    output += chain.push(end_of_input(SCHEMA))
    wanted, late = expected(chunks)
    assert rows(output) == wanted
    assert chain.context.counters["late_rows"] == late


def test_two_instances_and_buckets_that_move() -> None:
    """Rows go by their key's bucket; every batch's time goes to both."""
    chunks = feed(2)
    *stateless, _ = operators()
    source, instances = Chain(stateless), [Chain(operators()[2:]) for _ in range(2)]
    owner = np.repeat([0, 1], BUCKETS // 2)
    output: list[Batch] = []
    for n, piece in enumerate(in_pieces(chunks, 7)):
        (batch,) = source.push(piece)
        if n in (10, 25, 40):
            moved = range(10, 50) if n != 25 else range(20, 128)
            move(instances, owner, moved, to=1 if n != 25 else 0)
        target = owner[buckets_of([STRING], [batch.column("k")], batch.num_rows)]
        for i, instance in enumerate(instances):
            part = replace(batch.take(np.flatnonzero(target == i)), watermark=batch.watermark)
            output += instance.push(part)
    wanted, late = expected(chunks)
    assert sorted(rows(output), key=by_window_and_key) == sorted(wanted, key=by_window_and_key)
    assert sum(i.context.counters["late_rows"] for i in instances) == late


def by_window_and_key(row: tuple[object, ...]) -> str:
    return f"{row[-1]:012} {row[0]}"


def move(instances: list[Chain], owner: np.ndarray, buckets: range, to: int) -> None:
    source, target = instances[1 - to].context.tables, instances[to].context.tables
    moved = [b for b in buckets if owner[b] != to]
    for name, table in source.items():
        target[name].load(table.dump(moved))
        table.drop(moved)
    owner[moved] = to


def epochs(chunks: list[Chunk]) -> list[list[Batch]]:
    """A few batches each; the last one ends the input."""
    pieces = list(in_pieces(chunks, 9))
    return [pieces[i : i + 3] for i in range(0, len(pieces), 3)]


class Killed(Exception): ...


def live(
    work: list[list[Batch]],
    store: CheckpointStore,
    sink: dict[int, Rows],
    kill: tuple[int, str] | None,
) -> None:
    """One life of a process: recovers, replays what the store does not have, runs until killed or
    done. The sink drops repeated epochs."""
    held = store.load()
    chain = Chain(operators(), TaskContext(held.tables if held else {}))
    checkpointer = Checkpointer(store)
    if held is not None:
        checkpointer.adopt(held.position, chain.context.tables)
    first = int(str(held.position["epoch"])) + 1 if held else 0
    for epoch in range(first, len(work)):
        result = rows([b for batch in work[epoch] for b in chain.push(batch)])
        if kill == (epoch, "before output"):
            raise Killed
        assert sink.setdefault(epoch, result) == result, "a repeated epoch gives the same rows"
        if kill == (epoch, "before checkpoint"):
            raise Killed
        if epoch % 3 == 2:
            checkpointer.begin({"epoch": epoch}, chain.context.tables)


@pytest.mark.parametrize("moment", ["before output", "before checkpoint"])
def test_killed_at_every_epoch(moment: str) -> None:
    chunks = feed(3, chunks=14)
    work, (wanted, _) = epochs(chunks), expected(chunks)
    for epoch in range(len(work)):
        store, sink = MemoryStore(), dict[int, Rows]()
        with pytest.raises(Killed):
            live(work, store, sink, (epoch, moment))
        live(work, store, sink, None)
        assert [r for e in sorted(sink) for r in sink[e]] == wanted


def test_killed_again_and_again_over_rocksdb(tmp_path: Path) -> None:
    chunks = feed(4)
    work, sink = epochs(chunks), dict[int, Rows]()
    for epoch in range(1, len(work), 4):
        store = RocksStore(tmp_path)
        with pytest.raises(Killed):
            live(work, store, sink, (epoch, "before checkpoint"))
        store.close()
    store = RocksStore(tmp_path)
    live(work, store, sink, None)
    store.close()
    assert [r for e in sorted(sink) for r in sink[e]] == expected(chunks)[0]
