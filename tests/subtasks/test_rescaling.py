"""Jobs with state of all kinds that go from a graph that is not distributed into subtasks, from one number
of subtasks to another and back: they leave what one leaves that never moves."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from planner.settings import WATERMARK_INTERVAL
from sqlengine.snapshots.job_snapshot import capture
from tests.subtasks.group import Group, broker_in, planned, run_locally
from tests.subtasks.quiesced import merged_snapshot, quiesce
from tests.subtasks.test_schedules import EXPECTED, JOBS, events, left


@pytest.mark.parametrize(("first", "second", "interval"), [(4, 2, "0"), (1, 3, "700")])
def test_state_goes_into_parts_and_out_again(
    tmp_path: Path, first: int, second: int, interval: str
) -> None:
    chance, job = Random(first), planned("all", JOBS, {WATERMARK_INTERVAL: interval})
    with broker_in(tmp_path) as broker:
        group = Group(broker)
        events(broker, range(20))
        before = run_locally(group, job)
        snapshot = capture(before.runner, job.name)
        before.abandon()
        for number, parallelism in enumerate((first, second)):
            group = Group(broker, parallelism=parallelism, graph=f"g{number}")
            group.snapshots["in"] = snapshot
            group.start()
            group.take(job, "in")
            events(broker, range(20 + 15 * number, 30 + 15 * number))
            group.run(chance, disturbance=0.1)
            events(broker, range(30 + 15 * number, 35 + 15 * number))
            group.step(chance.randrange(parallelism))
            quiesce(group)
            snapshot = merged_snapshot(group, job.name)
            for subtask in group.open.values():
                subtask.abandon()
        events(broker, range(50, 72))
        run_locally(Group(broker), job, "last", snapshot).close()
        assert left(broker) == EXPECTED
