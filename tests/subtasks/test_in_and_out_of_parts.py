"""Jobs with state of all kinds that go from a graph that is not divided into parts, from one number
of parts to another and back: they leave what one leaves that never moves."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from planner.settings import WATERMARK_INTERVAL
from sqlengine.snapshots.job_snapshot import capture
from tests.subtasks.group import Group, broker_in, planned, undivided
from tests.subtasks.standing import has, hold
from tests.subtasks.test_schedules import EXPECTED, JOBS, events, left


@pytest.mark.parametrize(("first", "second", "interval"), [(4, 2, "0"), (1, 3, "700")])
def test_state_goes_into_parts_and_out_again(
    tmp_path: Path, first: int, second: int, interval: str
) -> None:
    chance, job = Random(first), planned("all", JOBS, {WATERMARK_INTERVAL: interval})
    with broker_in(tmp_path) as broker:
        group = Group(broker)
        events(broker, range(20))
        before = undivided(group, job)
        belongings = capture(before.runner, job.name)
        before.abandon()
        for number, parts in enumerate((first, second)):
            group = Group(broker, parts=parts, graph=f"g{number}")
            group.handovers["in"] = belongings
            group.start()
            group.take(job, "in")
            events(broker, range(20 + 15 * number, 30 + 15 * number))
            group.run(chance, unrest=0.1)
            events(broker, range(30 + 15 * number, 35 + 15 * number))
            group.step(chance.randrange(parts))
            hold(group)
            belongings = has(group, job.name)
            for part in group.open.values():
                part.abandon()
        events(broker, range(50, 72))
        undivided(Group(broker), job, "last", belongings).close()
        assert left(broker) == EXPECTED
