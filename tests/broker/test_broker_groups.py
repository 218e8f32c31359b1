"""Consumer groups: each shard has one owner, and a former owner is fenced."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerError, Fenced, TopicNotFound
from sqlengine.broker.ownership import Fence, Membership, assign_shards
from tests.broker.conftest import Clock


def owned(broker: Broker, group: str = "g") -> dict[str, tuple[int, ...]]:
    """Member -> its shards of the topic `t`."""
    return {
        m.name: m.shards.get("t", ()) for g in broker.groups() if g.name == group for m in g.members
    }


def test_shards_are_reassigned_on_join_leave_and_expiry(any_broker: Broker, clock: Clock) -> None:
    any_broker.create_topic("t", 4)
    a = any_broker.join("g", "a", ["t"], session_ms=1000)
    assert (a.generation, a.shards) == (1, {"t": (0, 1, 2, 3)})
    b = any_broker.join("g", "b", ["t"], session_ms=5000)
    assert (b.generation, b.shards) == (2, {"t": (2, 3)})
    assert any_broker.heartbeat("g", "a", a.generation) == Membership(
        "g", "a", 2, {"t": (0, 1)}, {"t": (1, 1)}
    )
    c = any_broker.join("g", "c", ["t"], session_ms=5000)
    assert owned(any_broker) == {"a": (0, 1), "b": (2,), "c": (3,)}
    any_broker.leave("g", "c")
    any_broker.leave("g", "c")
    assert owned(any_broker) == {"a": (0, 1), "b": (2, 3)}
    clock.up += 1500
    assert any_broker.heartbeat("g", "b", b.generation).shards == {"t": (0, 1, 2, 3)}
    assert owned(any_broker) == {"b": (0, 1, 2, 3)}
    with pytest.raises(Fenced, match="'a' is no member of group 'g' any more"):
        any_broker.heartbeat("g", "a", a.generation)
    with pytest.raises(Fenced, match="'c' is no member"):
        any_broker.heartbeat("g", "c", c.generation)
    assert any_broker.join("g", "a", ["t"]).shards == {"t": (2, 3)}


@pytest.mark.parametrize("by", [-86_400_000, 86_400_000])
def test_a_session_lasts_as_long_whatever_the_clock_is_set_to(
    any_broker: Broker, clock: Clock, by: int
) -> None:
    any_broker.create_topic("t", 2)
    any_broker.join("g", "a", ["t"], session_ms=1000)
    b = any_broker.join("g", "b", ["t"], session_ms=5000)
    clock.set = by
    clock.up += 900
    assert owned(any_broker) == {"a": (0,), "b": (1,)}
    clock.up += 200
    assert any_broker.heartbeat("g", "b", b.generation).shards == {"t": (0, 1)}


def test_a_former_owner_is_fenced(any_broker: Broker, clock: Clock) -> None:
    any_broker.create_topic("t", 2)
    any_broker.create_topic("out")
    a = any_broker.join("g", "a", ["t"])
    any_broker.commit("g", "t", {0: 5, 1: 6}, fence=a.fence("t", 0, 1))
    b = any_broker.join("g", "b", ["t"])
    assert b.shards == {"t": (1,)}
    with pytest.raises(Fenced, match="shard 1 is not owned by 'a' in generation 1"):
        any_broker.commit("g", "t", {0: 7, 1: 7}, fence=a.fence("t", 0, 1))
    with pytest.raises(Fenced, match="belongs to 'b' since generation 2"):
        any_broker.append("out", 0, [b"old"], timestamp_ms=0, fence=a.fence("t", 1))
    assert any_broker.committed("g", "t") == {0: 5, 1: 6}
    # What a kept is its own still, also before it has heard of the change.
    any_broker.commit("g", "t", {0: 7}, fence=a.fence("t", 0))
    any_broker.append("out", 0, [b"kept"], timestamp_ms=0, fence=a.fence("t", 0))
    any_broker.append("out", 0, [b"new"], timestamp_ms=0, fence=b.fence("t", 1))
    any_broker.leave("g", "b")
    # It got the shard back, but what it read before it lost it is another's.
    with pytest.raises(Fenced, match="belongs to 'a' since generation 3"):
        any_broker.append(
            "out", 0, [b"old"], timestamp_ms=0, writer="w", epoch=1, fence=a.fence("t", 1)
        )
    again = any_broker.heartbeat("g", "a", a.generation)
    any_broker.append(
        "out", 0, [b"again"], timestamp_ms=0, writer="w", epoch=1, fence=again.fence("t", 1)
    )
    records = any_broker.read("out", 0, 0)
    assert records is not None
    assert records.values.to_pylist() == [b"kept", b"new", b"again"]


def test_a_name_that_joins_again_takes_over(any_broker: Broker) -> None:
    any_broker.create_topic("t", 2)
    first = any_broker.join("g", "a", ["t"])
    second = any_broker.join("g", "a", ["t"])
    assert second.shards == first.shards == {"t": (0, 1)}
    with pytest.raises(Fenced, match="generation 1 of member 'a' of group 'g' is over"):
        any_broker.heartbeat("g", "a", first.generation)
    with pytest.raises(Fenced):
        any_broker.commit("g", "t", {0: 1}, fence=first.fence("t", 0))
    any_broker.commit("g", "t", {0: 2}, fence=second.fence("t", 0))
    assert any_broker.committed("g", "t") == {0: 2}


def test_nobody_else_commits_while_there_are_owners(any_broker: Broker, clock: Clock) -> None:
    any_broker.create_topic("t")
    any_broker.create_topic("u")
    member = any_broker.join("g", "a", ["t"], session_ms=1000)
    with pytest.raises(Fenced, match="belongs to the member 'a' of group 'g'"):
        any_broker.commit("g", "t", {0: 1})
    with pytest.raises(Fenced, match="has members: a"):
        any_broker.delete_group("g")
    with pytest.raises(Fenced, match="does not commit for group 'h'"):
        any_broker.commit("h", "t", {0: 1}, fence=member.fence("t", 0))
    any_broker.commit("g", "u", {0: 1})
    clock.up += 2000
    any_broker.commit("g", "t", {0: 1})
    assert [(g.name, g.members, g.offsets) for g in any_broker.groups()] == [
        ("g", (), {"t": {0: 1}, "u": {0: 1}})
    ]
    any_broker.delete_group("g")
    assert any_broker.groups() == []


def test_invalid_requests_are_rejected(any_broker: Broker) -> None:
    any_broker.create_topic("t")
    with pytest.raises(TopicNotFound):
        any_broker.join("g", "a", ["missing"])
    for group, member in (("", "a"), ("g", ""), ("g", "a\n"), ("g" * 201, "a")):
        with pytest.raises(BrokerError, match="is not the name of a"):
            any_broker.join(group, member, ["t"])
    with pytest.raises(BrokerError, match="session of 1 ms"):
        any_broker.join("g", "a", ["t"], session_ms=1)
    with pytest.raises(Fenced, match="'g' has no members"):
        any_broker.heartbeat("g", "a", 0)
    with pytest.raises(Fenced):
        any_broker.append("t", 0, [b"v"], timestamp_ms=0, fence=Fence("g", "a", 9, (("t", 0),)))
    assert any_broker.end_offset("t", 0) == 0


def test_owners_and_generations_survive_a_restart(folder: Path, clock: Clock) -> None:
    broker = EmbeddedBroker(folder, clock=clock, threads=clock)
    broker.create_topic("t", 2)
    a = broker.join("g", "a", ["t"], session_ms=1000)
    b = broker.join("g", "b", ["t"], session_ms=1000)
    broker.close()
    clock.up += 60_000  # nobody could tell of himself meanwhile
    broker = EmbeddedBroker(folder, clock=clock, threads=clock)
    assert broker.heartbeat("g", "b", b.generation) == b
    with pytest.raises(Fenced):
        broker.commit("g", "t", {1: 1}, fence=a.fence("t", 1))
    broker.delete_topic("t")
    assert broker.heartbeat("g", "b", b.generation).shards == {}
    clock.up += 1000
    assert broker.groups() == []
    broker.create_topic("t")
    assert broker.join("g", "a", ["t"]).generation > b.generation
    broker.close()


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "beat", "commit", "wait"]),
        st.sampled_from("abc"),
        st.integers(0, 3),
    ),
    max_size=30,
)


@settings(max_examples=60)
@given(ACTS)
def test_a_shard_has_one_owner_and_offsets_never_go_back(acts: list[tuple[str, str, int]]) -> None:
    """Each member reads on from the committed offset of what it is given: what it commits is never
    before that."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        broker = EmbeddedBroker(Path(folder), clock=clock, threads=clock)
        broker.create_topic("t", 4)
        told: dict[str, Membership] = {}
        at: dict[tuple[str, int], int] = {}  # where a member that owns a shard stands
        for act, name, shard in acts:
            before = broker.committed("g", "t")
            try:
                if act == "join":
                    told[name] = broker.join("g", name, ["t"], session_ms=500)
                    at |= {(name, s): before.get(s, 0) for s in told[name].shards.get("t", ())}
                elif act == "beat" and name in told:
                    now = broker.heartbeat("g", name, told[name].generation)
                    new = set(now.shards.get("t", ())) - set(told[name].shards.get("t", ()))
                    told[name] = now
                    at |= {(name, s): before.get(s, 0) for s in new}
                elif act == "commit" and shard in told.get(
                    name, Membership("", "", 0, {})
                ).shards.get("t", ()):
                    at[name, shard] += 1
                    broker.commit(
                        "g", "t", {shard: at[name, shard]}, fence=told[name].fence("t", shard)
                    )
                elif act == "leave":
                    broker.leave("g", name)
                elif act == "wait":
                    clock.up += 100 * shard
            except Fenced:
                told.pop(name, None)
            after = broker.committed("g", "t")
            assert all(after.get(s, 0) >= before.get(s, 0) for s in range(4))
            shards = sorted(s for member in owned(broker).values() for s in member)
            assert shards in ([], [0, 1, 2, 3])
            sizes = [len(member) for member in owned(broker).values()]
            assert not sizes or max(sizes) - min(sizes) <= 1
        broker.close()


@given(
    st.dictionaries(st.sampled_from("tuv"), st.integers(1, 5), min_size=1),
    st.dictionaries(
        st.sampled_from("abcd"), st.sets(st.sampled_from("tuv"), min_size=1), min_size=1
    ),
    st.data(),
)
def test_a_share_is_fair_and_moves_little(
    topics: dict[str, int], wishes: dict[str, set[str]], data: st.DataObject
) -> None:
    places = [(topic, shard) for topic, count in topics.items() for shard in range(count)]
    owners = {p: data.draw(st.sampled_from("abcdx")) for p in places if data.draw(st.booleans())}
    shared = assign_shards(places, wishes, owners)
    assert shared == assign_shards(places[::-1], dict(reversed(wishes.items())), owners)
    assert set(shared) == {p for p in places if any(p[0] in w for w in wishes.values())}
    assert all(p[0] in wishes[member] for p, member in shared.items())
    assert assign_shards(places, wishes, shared) == shared
    loads = {member: sum(owner == member for owner in shared.values()) for member in wishes}
    for place, member in shared.items():
        assert all(
            loads[other] + 1 >= loads[member] for other, w in wishes.items() if place[0] in w
        )
