"""Packets, however the network cuts them, and the topics that filters take."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlengine.connectors.mqtt.account import Account, address_of
from sqlengine.connectors.mqtt.packets import (
    Kind,
    Malformed,
    Packet,
    PacketReader,
    Publish,
    Version,
    acknowledgements,
    publish,
)
from sqlengine.connectors.mqtt.receiver import MqttReceiver
from sqlengine.connectors.mqtt.topics import filters_of, matches, overlap

MESSAGES = st.tuples(
    st.sampled_from(["a", "plant/north/temp", "ü/" + "x" * 200]),
    st.integers(0, 300).map(lambda n: b"p" * n) | st.just(b"long" * 10_000),
    st.integers(0, 2),
    st.booleans(),
    st.integers(1, 65_535),
)


@settings(max_examples=40)
@given(st.lists(MESSAGES, max_size=6), st.sampled_from([4, 5]), st.data())
def test_packets_come_whole_however_they_are_cut(
    messages: list[tuple[str, bytes, int, bool, int]], version: Version, data: st.DataObject
) -> None:
    sent, expected = b"", list[Publish | Packet]()
    for topic, payload, qos, retain, number in messages:
        sent += publish(
            version, topic.encode(), payload, qos=qos, retain=retain, number=number
        ) + acknowledgements(Kind.PUBREL, [number])
        flags = qos << 1 | retain
        expected.append(Publish(flags, topic.encode(), number if qos else 0, b"", payload))
        expected.append(Packet(Kind.PUBREL, number.to_bytes(2, "big")))
    reader, found, at = PacketReader(version), list[Publish | Packet](), 0
    while at < len(sent):
        size = data.draw(st.sampled_from([1, 2, 3, 50, 4000, len(sent)]))
        found += reader.feed(sent[at : at + size])
        at += size
    assert found == expected


@pytest.mark.parametrize(
    "data",
    [b"\x30\xff\xff\xff\xff\xff", b"\x00\x00", b"\x30\x01\x00\x30\x01\x00"],
    ids=["length", "kind", "short"],
)
def test_what_is_no_packet_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        PacketReader(5).feed(data)


@pytest.mark.parametrize(
    ("filter_", "taken", "left"),
    [
        ("plant/+/temp", ["plant/a/temp", "plant//temp"], ["plant/temp", "plant/a/b/temp"]),
        ("plant/#", ["plant", "plant/a", "plant/a/b"], ["plants", "x/plant"]),
        ("#", ["a", "a/b", "/"], ["$SYS/uptime"]),
        ("+/x", ["a/x", "/x"], ["$SYS/x", "a/b/x"]),
        ("$SYS/#", ["$SYS/uptime"], ["a"]),
        ("$share/group/a/+", ["a/b"], ["$share/group/a/b", "a"]),
    ],
)
def test_filters_take_topics(filter_: str, taken: list[str], left: list[str]) -> None:
    assert [t for t in taken + left if matches(filter_, t)] == taken


LEVELS = st.lists(st.sampled_from(["a", "b", "+"]), min_size=1, max_size=3)
FILTERS = st.tuples(LEVELS, st.booleans()).map(lambda f: "/".join(f[0] + ["#"] * f[1]))
NAMES = [
    "/".join(levels)
    for one in "abc"
    for levels in [[one], *([one, b] for b in "abc"), *([one, b, c] for b in "abc" for c in "abc")]
] + [f"{a}/{b}/{c}/{d}" for a in "ab" for b in "ab" for c in "ab" for d in "ab"]


@given(FILTERS, FILTERS)
def test_filters_overlap_where_a_topic_is_taken_by_both(one: str, other: str) -> None:
    both = any(matches(one, name) and matches(other, name) for name in NAMES)
    assert overlap(one, other) == overlap(other, one) == both


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a/#/b", "stands alone at the end"),
        ("a/b#", "stands alone at the end"),
        ("a/b+/c", "stands for a whole level"),
        ("", "1 to 65,535 bytes"),
        ("$share/group", "no shared subscription"),
        ("a/+;a/b", "of the same topics"),
    ],
)
def test_filters_that_are_none(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        filters_of(text)


def test_what_is_known_of_long_topics_has_so_many_bytes_at_most() -> None:
    """A device that makes a topic of 60,000 levels for each message would take all memory."""
    account = Account(address_of("tcp://127.0.0.1:1"), "c", 5, None, None)
    receiver, long = MqttReceiver(account), b"/" * 60_000
    for number in range(0, 4000, 100):
        some = [Publish(0, b"%d%s" % (n, long), 0, b"", b"v") for n in range(number, number + 100)]
        receiver._sort(some, {})
    assert sum(len(topic) for _, topic, _ in receiver._known) < 64 << 20
    assert receiver.unwanted == 4000
