"""Consumers of a group: each record is committed once, in the order of its shard, whichever
consumer fails."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from sqlengine.broker.base import Broker
from sqlengine.broker.consumer import Consumer
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import Fenced, NameTaken
from tests.broker.conftest import Clock


def fill(broker: Broker, shards: int, count: int) -> None:
    broker.create_topic("t", shards)
    for shard in range(shards):
        for number in range(count):
            broker.append("t", shard, [b"%d" % number], timestamp_ms=0)


def test_a_consumer_continues_at_the_committed_offset(any_broker: Broker, clock: Clock) -> None:
    fill(any_broker, 2, 4)
    first = Consumer(any_broker, "g", "a", "t", start="earliest", clock=clock)
    got = [first.poll(0, max_records=3), first.poll(0, max_records=3)]
    assert [(r.shard, r.values.to_pylist()) for r in got if r] == [
        (0, [b"0", b"1", b"2"]),
        (1, [b"0", b"1", b"2"]),
    ]
    first.commit()
    rest = first.poll(0)
    assert rest is not None
    first.close()
    second = Consumer(any_broker, "g", "b", "t", clock=clock)
    again = [second.poll(0), second.poll(0), second.poll(0)]
    assert [(r.shard, r.values.to_pylist()) for r in again if r] == [(0, [b"3"]), (1, [b"3"])]
    late = Consumer(any_broker, "other", "a", "t", clock=clock)
    assert late.poll(0) is None


def test_an_expired_member_loses_its_shards(any_broker: Broker, clock: Clock) -> None:
    fill(any_broker, 2, 2)
    a = Consumer(any_broker, "g", "a", "t", start="earliest", session_ms=900, clock=clock)
    b = Consumer(any_broker, "g", "b", "t", start="earliest", session_ms=900, clock=clock)
    assert a.poll(0) is not None  # shard 0, and it does not commit
    for _ in range(4):
        clock.up += 300
        b.poll(0)
    assert b.membership.shards == {"t": (0, 1)}
    with pytest.raises(Fenced):
        a.commit()
    clock.up += 300
    b.poll(0)
    assert (a.membership.shards, b.membership.shards) == ({"t": (1,)}, {"t": (0,)})


def test_a_member_whose_name_was_taken_stops(any_broker: Broker, clock: Clock) -> None:
    fill(any_broker, 1, 4)
    first = Consumer(any_broker, "g", "a", "t", start="earliest", session_ms=900, clock=clock)
    assert first.poll(0, max_records=1) is not None
    second = Consumer(any_broker, "g", "a", "t", start="earliest", session_ms=900, clock=clock)
    with pytest.raises(NameTaken, match="member 'a' of group 'g' is over"):
        first.commit()
    clock.up += 300
    for _ in range(2):
        with pytest.raises(NameTaken):
            first.poll(0)
    got = second.poll(0)
    assert got is not None
    assert got.num_rows == 4
    second.commit()


@pytest.mark.parametrize("regained", [False, True])
def test_records_of_a_lost_shard_cannot_be_committed(
    any_broker: Broker, clock: Clock, regained: bool
) -> None:
    fill(any_broker, 2, 5)
    a = Consumer(any_broker, "g", "a", "t", start="earliest", clock=clock)
    assert [r.shard for r in (a.poll(0, max_records=2), a.poll(0, max_records=2)) if r] == [0, 1]
    b = Consumer(any_broker, "g", "b", "t", start="earliest", clock=clock)
    taken = b.poll(0, max_records=4)
    assert taken is not None
    assert taken.shard == 1
    b.commit()
    if regained:
        b.close()
    clock.up += 20_000
    a.poll(0, max_records=1)  # hears of it, and goes on with shard 0
    with pytest.raises(Fenced):
        a.commit()
    assert any_broker.committed("g", "t") == {1: 4}
    clock.up += 20_000  # b is silent from here on
    got: dict[int, list[int]] = {0: [], 1: []}
    while (records := a.poll(0)) is not None:
        got[records.shard] += records.offsets.tolist()
    a.commit()
    assert got == {0: [0, 1, 2, 3, 4], 1: [4]}


STEPS = st.lists(
    st.tuples(st.sampled_from(["poll", "poll", "commit", "die", "wait"]), st.integers(0, 2)),
    max_size=60,
)


@settings(max_examples=50)
@given(STEPS)
def test_committed_records_are_each_record_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        broker = EmbeddedBroker(Path(folder), clock=clock, threads=clock)
        fill(broker, 3, 6)
        done: dict[int, list[int]] = {0: [], 1: [], 2: []}  # what was committed, by shard
        alive: dict[int, Consumer] = {}
        held: dict[int, list[tuple[int, int]]] = {}
        lives = 0
        for act, who in [*steps, *[("poll", 9), ("commit", 9)] * 40]:
            if who not in alive:
                lives += 1
                if who == 9:  # the last one: all others fall silent
                    alive = {}
                    clock.up += 10_000
                alive[who] = Consumer(
                    broker, "g", f"life-{lives}", "t", start="earliest", session_ms=900, clock=clock
                )
                held[who] = []
            consumer = alive[who]
            if act == "poll":
                records = consumer.poll(0, max_records=2)
                if records is not None:
                    held[who] += [(records.shard, offset) for offset in records.offsets.tolist()]
            elif act == "commit":
                try:
                    consumer.commit()
                except Fenced:
                    held[who] = []  # of no use: it comes again
                for shard, offset in held[who]:
                    done[shard].append(offset)
                held[who] = []
            elif act == "die":
                del alive[who]
            else:
                clock.up += 300
        assert done == {shard: list(range(6)) for shard in range(3)}
        broker.close()
