"""The proof of the form for a stateless operator, the merged filters of several jobs: any batch
size, two instances that share the shards, a kill after every epoch. `tests/spark` has the fourth
way."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sqlengine.batch import Batch
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.state.checkpoint import Checkpointer
from sqlengine.state.store import MemoryStore
from tests.operators.proof import feed
from tests.operators.proof_rules import Alert, alerts, rules
from tests.operators.windows import Chain, rows

CHUNKS = feed(7)


def run(operator: Chain, batches: Iterable[Batch]) -> dict[int, list[Alert]]:
    result: dict[int, list[Alert]] = {0: [], 1: []}
    (rule_set,) = operator.operators
    for batch in batches:
        for port, output in rule_set.process(0, batch):
            result[port] += rows([output])  # type: ignore[arg-type]
    return result


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_one_process(size: int) -> None:
    pieces = [c.batch(start, size) for c in CHUNKS for start in range(0, len(c.rows), size)]
    found = run(Chain(rules()), pieces)
    assert found == alerts(CHUNKS)
    assert all(len(found[port]) > 50 for port in found)


def test_two_instances_and_a_shard_that_moves() -> None:
    instances = [Chain(rules()), Chain(rules())]
    owner = {"shard-0": 0, "shard-1": 1, "shard-2": 1}
    found: dict[int, list[Alert]] = {0: [], 1: []}
    for n, chunk in enumerate(CHUNKS):
        if n == 10:
            owner["shard-1"] = 0
        part = run(instances[owner[chunk.shard]], [chunk.batch()])
        found = {port: found[port] + part[port] for port in found}
    assert found == alerts(CHUNKS)


def test_killed_at_every_epoch() -> None:
    """No state: a checkpoint is a position. Each life repeats what came after the last one."""
    store, sink = MemoryStore(), dict[int, dict[int, list[Alert]]]()
    for kill in range(len(CHUNKS)):
        held = store.load()
        first = int(str(held.position["epoch"])) + 1 if held else 0
        operator, checkpointer = Chain(rules(), TaskContext()), Checkpointer(store)
        for epoch in range(first, kill + 1):
            result = run(operator, [CHUNKS[epoch].batch()])
            assert sink.setdefault(epoch, result) == result
        if kill % 3 == 0:
            checkpointer.begin({"epoch": kill}, operator.context.tables)
    assert {port: [r for e in sorted(sink) for r in sink[e][port]] for port in (0, 1)} == alerts(
        CHUNKS
    )
