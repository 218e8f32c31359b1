"""Retention removes old segments and keeps epochs; offsets by time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerError, OffsetOutOfRange

ROW = b"x" * 1000


def open_at(folder: Path, now: Callable[[], int] = lambda: 0) -> EmbeddedBroker:
    return EmbeddedBroker(folder, clock=now, segment_bytes=100_000)


def test_size_keeps_the_newest_and_bounds_the_disk(folder: Path) -> None:
    broker = open_at(folder)
    broker.create_topic("t", retention_bytes=300_000)
    for epoch in range(1000):
        broker.append(
            "t", 0, [ROW], timestamp_ms=epoch, writer="w" if epoch < 100 else "v", epoch=epoch
        )
    info = broker.topic("t")
    assert 300_000 <= info.bytes <= 450_000
    assert info.end == (1000,)
    assert 500 < info.begin[0] < 1000
    with pytest.raises(OffsetOutOfRange, match=f"begins at {info.begin[0]} and ends before 1000"):
        broker.read("t", 0, 0)
    broker.close()
    broker = open_at(folder)
    assert broker.topic("t") == info
    assert broker.last_epoch("t", 0, "w") == 99  # long gone, and still not to be appended again
    assert broker.append("t", 0, [ROW], timestamp_ms=0, writer="w", epoch=99).duplicate
    broker.close()


def test_time_removes_what_is_older_also_when_nothing_comes(folder: Path) -> None:
    now = 0
    broker = open_at(folder, lambda: now)
    broker.create_topic("t", retention_ms=100)
    for timestamp in range(0, 500, 10):
        broker.append("t", 0, [ROW] * 10, timestamp_ms=timestamp)
    broker.apply_retention()
    assert broker.begin_offset("t", 0) == 0
    now = 450
    broker.apply_retention()
    begin = broker.begin_offset("t", 0)
    records = broker.read("t", 0, begin)
    assert records is not None
    assert 250 <= records.timestamps[0] <= 350
    now = 10_000
    broker.apply_retention()
    assert broker.begin_offset("t", 0) == broker.end_offset("t", 0) == 500
    assert broker.read("t", 0, 500) is None
    broker.close()
    broker = open_at(folder)
    assert broker.append("t", 0, [b"next"], timestamp_ms=0).first_offset == 500
    broker.close()


def test_a_reader_meets_no_vanished_file(folder: Path) -> None:
    broker = open_at(folder)
    broker.create_topic("t", retention_bytes=100_000)
    offset = 0
    for number in range(600):
        broker.append("t", 0, [ROW], timestamp_ms=number)
        begin = broker.begin_offset("t", 0)
        records = broker.read("t", 0, max(offset, begin), max_records=1)
        assert records is not None
        offset = records.next_offset
    broker.close()


@pytest.mark.parametrize("reopen", [False, True])
def test_a_time_is_the_first_offset_since_then(folder: Path, reopen: bool) -> None:
    broker = open_at(folder)
    broker.create_topic("t")
    times = [100, 100, 120, 110, 130, 130, 200]  # they may go back
    for timestamp in times:
        broker.append("t", 0, [ROW] * 45, timestamp_ms=timestamp)
    if reopen:
        broker.close()
        broker = open_at(folder)
    for timestamp in range(90, 210):
        first = next((place for place, time in enumerate(times) if time >= timestamp), len(times))
        assert broker.offset_for_time("t", 0, timestamp) == 45 * first
    broker.close()


def test_options_that_make_no_sense_are_refused(folder: Path) -> None:
    broker = open_at(folder)
    for options in ({"shards": 0}, {"retention_ms": -1}, {"compacted": True, "retention_ms": 1}):
        with pytest.raises(BrokerError):
            broker.create_topic("t", **options)  # type: ignore[arg-type]
    broker.close()
