"""Jobs that come, are replaced and go while rows are on their way between subtasks; owners that
change."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.ownership import Fence, Membership
from sqlengine.cluster.subtask_log import subtask_log_topic
from tests.subtasks.clicks import SUMS, click, left, sums
from tests.subtasks.group import Group, broker_in, planned, values_of


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with broker_in(tmp_path) as broker:
        broker.create_topic("clicks", 4)
        yield broker


def test_a_job_that_comes_while_others_run(broker: EmbeddedBroker) -> None:
    group = Group(broker, parallelism=4)
    group.start()
    group.submit(planned("a", SUMS.format(out="a", where="")))
    click(broker, 0, 40)
    for index in (0, 2):
        group.step(index)
    # Between two switches those subtasks that have it already read and send: nobody reads it too
    # early.
    other_scan = SUMS.replace("'scan.startup", "'json.ignore-parse-errors' = 'true', 'scan.startup")
    group.submit(
        planned("b", other_scan.format(out="b", where="")),
        among=lambda: [group.step(i) for i in (0, 1, 2, 3)],
    )
    click(broker, 40, 30)
    group.run(Random(1), disturbance=0.1)
    assert left(broker, "a") == left(broker, "b") == sums(range(70))
    group.close()


def test_state_is_kept_with_what_is_on_its_way(broker: EmbeddedBroker) -> None:
    group = Group(broker, parallelism=3)
    group.start()
    keep = "SET 'job.state' = 'keep';\n"
    group.submit(planned("a", SUMS.format(out="a", where="")))
    click(broker, 0, 60)
    for index in (0, 1, 2, 0):  # rows are read, and most of them have not arrived
        group.step(index)
    group.submit(
        planned("a", keep + SUMS.format(out="a", where="WHERE v < 1000")),
        2,
        among=lambda: group.kill(1),
    )
    for index in (2, 1, 0):
        group.kill(index)
    click(broker, 60, 30)
    group.run()
    assert left(broker, "a") == sums(range(90))
    group.remove("a")
    click(broker, 90, 10)
    group.run()
    assert group.counted("parcels_dropped") == 0
    assert left(broker, "a") == sums(range(90))
    group.close()


class _Members:
    """Instances that share the subtasks out among them."""

    def __init__(self, broker: EmbeddedBroker, group: Group) -> None:
        self.broker, self.group = broker, group
        self.held: dict[str, Membership] = {}

    def join(self, name: str) -> None:
        self.held[name] = self.broker.join("instances", name, [subtask_log_topic("g")])

    def heartbeat(self, name: str) -> None:
        self.held[name] = self.broker.heartbeat("instances", name, self.held[name].generation)

    def fence(self, name: str, index: int) -> Fence:
        return self.held[name].fence(subtask_log_topic("g"), index)


@pytest.mark.parametrize("does", ["an epoch", "a change"])
def test_who_lost_a_part_writes_nothing_more(broker: EmbeddedBroker, does: str) -> None:
    group = Group(broker, parallelism=2)
    broker.create_topic(subtask_log_topic("g"), 2)
    members = _Members(broker, group)
    members.join("one")
    for index in range(2):
        group.open_subtask(index, partial(members.fence, "one", index))
    group.submit(planned("a", SUMS.format(out="a", where="")))
    click(broker, 0, 20)
    group.step(0)
    members.join("two")
    taken = members.held["two"].shards[subtask_log_topic("g")][0]
    old = group.open.pop(taken)
    new = group.open_subtask(taken, lambda: members.fence("two", taken))
    click(broker, 20, 20)
    written = len(values_of(broker, "_shuffle_g"))
    if does == "a change":
        old.switch(old.prepare(old.runner.graph, {}, {"a": 0}, {}))
        assert old.runner.jobs == {"a": 1}
    else:
        assert not old.step()
    assert old.fenced
    assert not old.step()
    assert len(values_of(broker, "_shuffle_g")) == written
    old.abandon()
    members.heartbeat("one")
    group.run()
    assert not new.fenced
    assert left(broker, "a") == sums(range(40))
    group.close()
