"""Checkpoints of subtasks in a compacted topic: subtasks go on from them wherever they are opened
next."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

import pytest

from parser.errors import ServiceError
from sqlengine.cluster.subtask_log import subtask_log_topic
from sqlengine.cluster.subtask_stores import checkpoints_topic
from tests.subtasks.clicks import SUMS, click, left, sums
from tests.subtasks.group import Group, broker_in, planned


@pytest.mark.parametrize("seed", range(3))
def test_parts_go_on_from_a_topic(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    with broker_in(tmp_path) as broker:
        broker.create_topic("clicks", 4)
        group = Group(broker, checkpoints="topic")
        group.start()
        group.submit(planned("a", SUMS.format(out="a", where="")))
        for first in range(0, 90, 30):
            click(broker, first, 30)
            group.run(chance, disturbance=0.2)
            broker.compact(checkpoints_topic("g"))
        assert left(broker, "a") == sums(range(90))
        group.close()
        assert group.stores.names() == []
        group.start()
        begun = [subtask.runner.epoch for subtask in group.open.values()]
        assert all(
            group.open[i].graph.checkpoints.stored_epoch == epoch for i, epoch in enumerate(begun)
        )
        click(broker, 90, 10)
        group.run()
        assert left(broker, "a") == sums(range(100))
        group.close()


def test_who_lost_a_part_writes_no_checkpoint(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker:
        broker.create_topic("clicks", 4)
        broker.create_topic(subtask_log_topic("g"), 2)
        held = broker.join("instances", "one", [subtask_log_topic("g")])
        group = Group(broker, parallelism=2, checkpoints="topic")
        for index in range(2):
            group.open_subtask(index, partial(held.fence, subtask_log_topic("g"), index))
        group.submit(planned("a", SUMS.format(out="a", where="")))
        click(broker, 0, 20)
        group.step(0)
        broker.leave("instances", "one")
        broker.join("instances", "two", [subtask_log_topic("g")])
        written = broker.end_offset(checkpoints_topic("g"), 0)
        with pytest.raises(ServiceError):
            group.open.pop(0).close()
        assert broker.end_offset(checkpoints_topic("g"), 0) == written
        group.open.pop(1).abandon()
