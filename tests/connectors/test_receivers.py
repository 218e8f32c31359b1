"""Receivers of a place made for tests: what is acknowledged is in the log, whatever happens between."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from parser.errors import OptionError
from sqlengine.broker.base import Appended
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerFull
from sqlengine.broker.ownership import Fence
from sqlengine.broker.storage.codec import Payload
from sqlengine.connectors.receivers import worker
from sqlengine.connectors.receivers.base import (
    Batch,
    KeyOf,
    Receiver,
    Stream,
    Tail,
    Taken,
    Unreachable,
)
from sqlengine.connectors.receivers.service import Receivers, Wanted
from sqlengine.system.back_off import BackOff
from tests.connectors.tables import Clock
from tests.support import eventually

HOUR = 3_600_000


class Place:
    """A place outside, which outlives receivers. It gives messages by the name of their stream until
    they are acknowledged; after a reconnection from the last acknowledged one on."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self.acknowledged = 0
        self.connections = 0
        self.away = False
        self.loses_acknowledgements = 0
        self.fault: Exception | None = None
        self.asked: set[str] = set()
        self.lock = threading.Lock()

    def send(self, name: str, *values: bytes) -> None:
        with self.lock:
            self.messages += [(name, value) for value in values]

    def has_acknowledged(self, number: int) -> bool:
        return self.acknowledged >= number

    def receiver(self) -> Receiver:
        return OfPlace(self)


class OfPlace(Receiver):
    def __init__(self, place: Place) -> None:
        self._place = place
        self._streams: dict[str, str] = {}
        self._at = 0
        self._taken = 0

    def key_of(self, stream: Stream) -> tuple[KeyOf, int] | None:
        window = stream.what.get("window")
        return None if window is None else (lambda value, _: value, int(window))

    def connect(self, streams: Sequence[Stream], gone: Sequence[Stream], tail: Tail) -> None:
        if self._place.away:
            raise Unreachable("the place is away")
        if self._place.fault is not None:
            raise self._place.fault
        self._place.connections += 1
        self._at = self._place.acknowledged
        self.follow(streams, gone)

    def follow(self, streams: Sequence[Stream], gone: Sequence[Stream]) -> None:
        self._streams = {s.what["name"]: s.topic for s in streams}
        self._place.asked = (self._place.asked | {*self._streams}) - {s.what["name"] for s in gone}

    def take(self, wait_s: float) -> Batch:
        if self._place.away:
            raise Unreachable("the place is away")
        found: dict[str, Taken] = {}
        with self._place.lock:
            new = self._place.messages[self._at : self._at + 10]
        for name, value in new:
            taken = found.setdefault(self._streams[name], Taken())
            taken.values.append(value)
            taken.metadata.append(b"m")
        self._at += len(new)
        if not found:
            threading.Event().wait(0.01)
        return found

    def acknowledge(self) -> None:
        if self._place.loses_acknowledgements:
            self._place.loses_acknowledgements -= 1
            raise Unreachable("the connection is lost")
        self._place.acknowledged = self._at

    def rest(self) -> None: ...

    def close(self) -> None: ...


class Full(EmbeddedBroker):
    """A broker whose disk may be full for what is received."""

    full = False

    def append_payload(
        self,
        topic: str,
        shard: int,
        payload: Payload,
        *,
        timestamp_ms: int,
        writer: str | None = None,
        epoch: int | None = None,
        fence: Fence | None = None,
    ) -> Appended:
        if self.full and topic.startswith("_received_"):
            raise BrokerFull("no space")
        return super().append_payload(
            topic,
            shard,
            payload,
            timestamp_ms=timestamp_ms,
            writer=writer,
            epoch=epoch,
            fence=fence,
        )


@pytest.fixture
def broker(tmp_path: Path) -> Full:
    return Full(tmp_path, segment_bytes=4096)


def stream(name: str = "a", *, unread: int = 1 << 20, kept: int = HOUR, **what: str) -> Stream:
    return Stream("place", {"name": name, **what}, unread, kept, 1 << 30, HOUR)


def wanted(place: Place, of: Stream, table: str = "t", **settings: str) -> Wanted:
    return Wanted(table, of, settings, place.receiver)


def values(broker: EmbeddedBroker, of: Stream) -> list[bytes]:
    found, at = list[bytes](), broker.begin_offset(of.topic, 0)
    while (records := broker.read(of.topic, 0, at)) is not None:
        found += records.values.to_pylist()
        at = records.next_offset
    return found


NUMBERS = [b"%d" % n for n in range(25)]


def test_nothing_is_acknowledged_that_is_not_in_the_log(broker: Full) -> None:
    place, of = Place(), stream()
    receivers = Receivers(broker, Clock())
    broker.full = True
    reading = receivers.open(wanted(place, of))
    place.send("a", *NUMBERS)
    eventually(lambda: reading.health.trouble == "no space")
    assert place.acknowledged == 0
    broker.full = False
    eventually(lambda: place.acknowledged == 25)
    assert values(broker, of) == NUMBERS
    eventually(lambda: reading.health.trouble is None)
    assert place.connections == 1, "it waited, and did not begin anew"
    receivers.stop()


@pytest.mark.parametrize("window", [None, "100"])
def test_what_was_not_acknowledged_comes_again(broker: Full, window: str | None) -> None:
    """With a key it is known, also by the next process, from the end of the log."""
    place, of = Place(), stream() if window is None else stream(window=window)
    place.loses_acknowledgements = 1
    receivers = Receivers(broker, Clock())
    place.send("a", *NUMBERS)
    receivers.open(wanted(place, of))
    eventually(lambda: place.acknowledged == 25)
    receivers.stop()
    twice = [] if window else NUMBERS[:10]
    assert sorted(values(broker, of)) == sorted([*NUMBERS, *twice])
    place.acknowledged = 20  # the process died between append and acknowledgement
    receivers = Receivers(broker, Clock())
    receivers.open(wanted(place, of))
    eventually(lambda: place.acknowledged == 25)
    (view,) = receivers.views()
    assert (view.messages, view.repeated) == ((0, 5) if window else (5, 0))
    receivers.stop()


def test_streams_are_taken_before_their_tables_are_open(broker: Full) -> None:
    place, streams = Place(), [stream("a"), stream("b")]
    receivers = Receivers(broker, Clock())
    for of in streams:
        receivers.open(wanted(place, of))
    eventually(lambda: place.asked == {"a", "b"})
    receivers.stop()
    place.send("b", b"1")  # while the server is down
    receivers = Receivers(broker, Clock())
    receivers.open(wanted(place, streams[0]))
    eventually(lambda: place.acknowledged == 1)
    assert values(broker, streams[1]) == [b"1"]
    receivers.stop()


def test_a_stream_ends_long_after_its_last_reader(
    broker: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlengine.connectors.receivers.worker._TIDY_S", 0.0)
    place, clock, streams = Place(), Clock(), [stream("a"), stream("b")]
    receivers = Receivers(broker, clock)
    _, second = [receivers.open(wanted(place, of)) for of in streams]
    eventually(lambda: place.asked == {"a", "b"})
    second.close()
    place.send("b", b"1")
    eventually(lambda: place.acknowledged == 1)
    clock.now = HOUR - 1
    place.send("a", b"2")
    eventually(lambda: place.acknowledged == 2)
    assert place.asked == {"a", "b"}
    clock.now = HOUR
    eventually(lambda: place.asked == {"a"})
    assert values(broker, streams[1]) == [b"1"], "it is kept for its retention"
    clock.now = 2 * HOUR
    third = receivers.open(wanted(place, stream("c")))
    third.close()
    clock.now = 4 * HOUR
    eventually(lambda: streams[1].topic not in broker.topic_names())
    receivers.stop()


@pytest.mark.parametrize("place", ["place", "another"])
def test_a_stream_ends_whose_reader_never_came_back(
    broker: Full, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Its server was killed, and the next one has no such table; others may be at its place."""
    monkeypatch.setattr("sqlengine.connectors.receivers.worker._TIDY_S", 0.0)
    monkeypatch.setattr("sqlengine.connectors.receivers.worker._LINGER_S", 0.0)
    outside, clock, lost = Place(), Clock(), stream("lost")
    receivers = Receivers(broker, clock)
    receivers.open(wanted(outside, lost))
    receivers.stop()
    other = msgspec.structs.replace(stream("other"), place=place)
    receivers = Receivers(broker, clock)
    receivers.open(wanted(outside, other))
    receivers.stop()
    clock.now = 2 * HOUR - 1
    receivers = Receivers(broker, clock)
    receivers.open(wanted(outside, other))
    receivers.stop()
    assert lost.topic in broker.topic_names()
    clock.now = 2 * HOUR
    receivers = Receivers(broker, clock)
    receivers.open(wanted(outside, other))
    eventually(lambda: lost.topic not in broker.topic_names())
    receivers.stop()


def test_what_all_readers_have_behind_them_goes(
    broker: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlengine.connectors.receivers.worker._TIDY_S", 0.0)
    place, clock, of = Place(), Clock(), stream(kept=1000)
    receivers = Receivers(broker, clock)
    fast, slow = receivers.open(wanted(place, of)), receivers.open(wanted(place, of))
    wide = [b"%04d" % n + b"x" * 200 for n in range(200)]
    place.send("a", *wide)
    eventually(lambda: place.acknowledged == 200)
    fast.begins(0)
    fast.checkpointed(200)
    fast.checkpointed(200)
    clock.now = 10_000
    place.send("a", b"")  # the thread has looked once more when this is there
    eventually(lambda: place.acknowledged == 201)
    assert broker.begin_offset(of.topic, 0) == 0, "the other reader has not said where it begins"
    slow.begins(100)
    eventually(lambda: broker.begin_offset(of.topic, 0) > 50)
    assert broker.begin_offset(of.topic, 0) <= 100
    slow.checkpointed(200)
    place.send("a", b"")
    eventually(lambda: place.acknowledged == 202)
    assert broker.begin_offset(of.topic, 0) <= 100, "the checkpoint at 200 may not be complete"
    slow.checkpointed(200)
    eventually(lambda: broker.begin_offset(of.topic, 0) > 150)
    receivers.stop()


def test_no_more_is_taken_than_the_slowest_reads(broker: Full) -> None:
    place, of = Place(), stream(unread=1000)
    receivers = Receivers(broker, Clock())
    fast, slow = receivers.open(wanted(place, of)), receivers.open(wanted(place, of))
    place.send("a", *[b"x" * 99] * 100)
    eventually(lambda: slow.health.trouble)
    assert place.acknowledged == 10
    fast.moved(10)
    assert place.acknowledged == 10
    slow.moved(10)
    eventually(lambda: place.acknowledged == 20)
    slow.close()
    for at in range(20, 110, 10):
        fast.moved(at)
        eventually(partial(place.has_acknowledged, min(at + 10, 100)))
    assert len(values(broker, of)) == 100
    receivers.stop()


def test_tables_that_differ_in_how_a_place_is_reached(broker: Full) -> None:
    place = Place()
    receivers = Receivers(broker, Clock())
    receivers.open(wanted(place, stream("a"), "t", keep="1 s"))
    eventually(lambda: place.connections == 1)
    with pytest.raises(OptionError, match="table 'other' shares a connection to place with 't', "):
        receivers.open(wanted(place, stream("b"), "other", keep="2 s"))
    receivers.open(wanted(place, stream("a"), "t", keep="2 s"))  # its new version
    eventually(lambda: place.connections == 2)
    receivers.stop()


def test_a_table_that_nobody_reads_any_more_decides_nothing(broker: Full) -> None:
    place = Place()
    receivers = Receivers(broker, Clock())
    receivers.open(wanted(place, stream("a"), "t", keep="1 s")).close()
    receivers.open(wanted(place, stream("a"), "other", keep="2 s"))
    eventually(lambda: place.connections >= 1)
    receivers.stop()


def test_a_new_reader_is_no_reason_to_wait(broker: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts grow; whoever changes something sees at once whether it helps."""
    monkeypatch.setattr(worker, "BackOff", partial(BackOff, 0.0, 1000.0))
    place = Place()
    place.away = True
    receivers = Receivers(broker, Clock())
    reading = receivers.open(wanted(place, stream()))
    eventually(lambda: reading.health.trouble == "the place is away")
    place.away = False
    receivers.open(wanted(place, stream()))
    eventually(lambda: place.connections == 1)
    receivers.stop()


def test_a_fault_of_a_receiver_may_pass(broker: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "BackOff", partial(BackOff, 0.0, 0.01))
    place, of = Place(), stream()
    place.fault = UnicodeError("label too long")
    receivers = Receivers(broker, Clock())
    reading = receivers.open(wanted(place, of))
    trouble = eventually(lambda: reading.health.trouble)
    assert trouble == "a fault of its own, see the log of the server: UnicodeError: label too long"
    place.fault = None
    place.send("a", b"1")
    eventually(lambda: place.acknowledged == 1)
    assert reading.health.trouble is None
    receivers.stop()
