"""What stays on disk of rows that were shuffled, and how many of them cross."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.settings import AGG_PHASES
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.formats.shuffle_records import decode_header
from tests.subtasks.clicks import SUMS, click, left, sums
from tests.subtasks.group import START, Group, planned


def test_what_a_checkpoint_holds_is_removed(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, fsync="none", clock=lambda: START, segment_bytes=2_000)
    broker.create_topic("clicks", 4)
    group = Group(broker, parallelism=2)
    group.start()
    group.submit(planned("a", SUMS.format(out="a", where="")))
    click(broker, 0, 60)
    group.run()
    kept = [i.begin for t in ("_shuffle_g", "_parts_g") for i in broker.shards(t)]
    assert kept == [0, 0, 0, 0], "nothing is in a checkpoint yet"
    for _ in range(2):
        for subtask in group.open.values():
            subtask.runner.checkpoint(wait=True)
    assert all(i.begin > 0 for t in ("_shuffle_g", "_parts_g") for i in broker.shards(t))
    for index in range(2):
        group.kill(index)
    click(broker, 60, 20)
    group.run()
    assert left(broker, "a") == sums(range(80))
    group.close()
    broker.close()


def test_what_a_part_has_for_itself_stays_there(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, fsync="none", clock=lambda: START)
    broker.create_topic("clicks", 4)
    group = Group(broker)
    group.start()
    group.submit(planned("a", SUMS.format(out="a", where="")))
    click(broker, 0, 140)
    group.run()
    assert left(broker, "a") == sums(range(140))
    sent = [broker.read("_shuffle_g", shard, 0) for shard in range(group.parallelism)]
    senders = [
        {decode_header(k).subtask for k in r.keys.to_pylist()}
        for r in sent
        if r is not None and r.keys is not None
    ]
    assert senders == [{1, 2}, {0, 2}, {0, 1}]
    group.close()
    broker.close()


@pytest.mark.parametrize("strategy", ["AUTO", "ONE_PHASE"])
def test_rows_are_put_together_before_they_cross(tmp_path: Path, strategy: str) -> None:
    broker = EmbeddedBroker(tmp_path, fsync="none", clock=lambda: START)
    broker.create_topic("clicks", 4)
    group = Group(broker, parallelism=2, rows_per_read=100)
    group.start()
    group.submit(planned("a", SUMS.format(out="a", where=""), {AGG_PHASES: strategy}))
    click(broker, 0, 140)
    group.run()
    assert left(broker, "a") == sums(range(140))
    assert group.counted("rows_shuffled") == (140 if strategy == "ONE_PHASE" else 2 * 7)
    assert group.counted("rows_before_exchange") == (0 if strategy == "ONE_PHASE" else 140)
    group.close()
    broker.close()
