"""Topics, appends and reads as callers see them."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from sqlengine.broker.base import Broker, Records, is_system
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerError, OffsetOutOfRange, TopicExists, TopicNotFound
from sqlengine.broker.rehearsal import rehearsal
from sqlengine.broker.storage.segment import Segment, Tail
from sqlengine.broker.storage.window import Window
from sqlengine.system.disk import MachineDisk
from sqlengine.system.durability import Fsync
from tests.broker.epochs import require_once_over_restarts
from tests.support import PATIENCE_S, eventually


def read(broker: Broker, offset: int, **limits: int) -> Records:
    records = broker.read("t", 0, offset, **limits)
    assert records is not None
    return records


def test_a_batch_comes_back_as_it_was_appended(any_broker: Broker) -> None:
    any_broker.create_topic("t", 2)
    first = any_broker.append(
        "t", 1, [b"a", None, b"", b"dd"], keys=[None, b"k", b"", b"l"], timestamp_ms=7
    )
    second = any_broker.append("t", 1, pa.array([b"x", b"y", b"z"])[1:], timestamp_ms=9)
    assert (first.first_offset, first.next_offset, second.first_offset, second.next_offset) == (
        0,
        4,
        4,
        6,
    )
    records = any_broker.read("t", 1, 1)
    assert records is not None
    assert (records.topic, records.shard, records.first_offset, records.next_offset) == (
        "t",
        1,
        1,
        6,
    )
    assert records.values.to_pylist() == [None, b"", b"dd", b"y", b"z"]
    assert records.keys is not None
    assert records.keys.to_pylist() == [b"k", b"", b"l", None, None]
    assert records.offsets.tolist() == [1, 2, 3, 4, 5]
    assert records.timestamps.tolist() == [7, 7, 7, 9, 9]
    assert any_broker.read("t", 0, 0) is None
    assert any_broker.read("t", 1, 6) is None


@pytest.mark.parametrize("count", [1, 15, 16, 17, 1000])
def test_bytes_and_arrow_are_the_same(any_broker: Broker, count: int) -> None:
    values = [b"v" * (number % 23) for number in range(count)]
    any_broker.create_topic("t")
    for same in (
        values,
        tuple(values),
        pa.array(values),
        pa.array([value.decode() for value in values]),
    ):
        any_broker.append("t", 0, same, timestamp_ms=0)
    for number in range(4):
        assert read(any_broker, number * count, max_records=count).values.to_pylist() == values
    assert read(any_broker, 0, max_records=10_000).values.to_pylist() == values * 4


def test_limits_cut_a_read_and_one_record_always_comes(any_broker: Broker) -> None:
    any_broker.create_topic("t")
    for start in (0, 4):
        any_broker.append(
            "t", 0, [b"%03d" % number for number in range(start, start + 4)], timestamp_ms=0
        )
    assert read(any_broker, 2, max_records=3).values.to_pylist() == [b"002", b"003", b"004"]
    assert read(any_broker, 0, max_bytes=17).values.to_pylist() == [
        b"000",
        b"001",
        b"002",
        b"003",
        b"004",
    ]
    assert read(any_broker, 7, max_bytes=1).values.to_pylist() == [b"007"]
    exact = read(any_broker, 1, max_records=1, max_bytes=1, until=6)
    assert (exact.num_rows, exact.next_offset) == (5, 6)
    assert any_broker.read("t", 0, 5, until=5) is None


def test_records_outlive_file_and_broker(folder: Path) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic("t")
    broker.append("t", 0, [b"stays"], timestamp_ms=0)
    records = read(broker, 0)
    broker.delete_topic("t")
    broker.close()
    assert records.values.to_pylist() == [b"stays"]


def test_many_small_batches_are_read_together_as_they_are_one_by_one(folder: Path) -> None:
    broker = EmbeddedBroker(folder, segment_bytes=20_000)
    broker.create_topic("t")
    values: list[bytes] = []
    times: list[int] = []
    number = 0
    while len(values) < 2000:
        rows = [b"%d" % (len(values) + row) * (number % 7) for row in range(1 + number % 3)]
        writer = {"writer": "w" * (number % 9 + 1), "epoch": number} if number % 4 == 0 else {}
        broker.append("t", 0, rows, timestamp_ms=number, **writer)  # type: ignore[arg-type]
        if number % 50 == 0:
            broker.append("t", 0, [], timestamp_ms=0, writer="empty", epoch=number)
        values += rows
        times += [number] * len(rows)
        number += 1
    for limits in (
        {},
        {"max_records": 100},
        {"max_bytes": 700},
        {"max_records": 61, "max_bytes": 300},
    ):
        offset, got = 0, 0
        while offset < len(values):
            records = read(broker, offset, **limits)
            behind = offset + records.num_rows
            assert (records.first_offset, records.next_offset) == (offset, behind)
            assert records.values.to_pylist() == values[offset:behind]
            assert records.timestamps.tolist() == times[offset:behind]
            assert records.offsets.tolist() == list(range(offset, behind))
            assert records.num_rows <= limits.get("max_records", 10_000)
            assert records.num_rows == 1 or records.values.nbytes - 4 * (
                behind - offset + 1
            ) <= limits.get("max_bytes", 1 << 30)
            offset, got = behind, got + 1
        assert got < 400
    broker.close()


def test_one_batch_is_read_without_a_copy(broker: EmbeddedBroker) -> None:
    broker.create_topic("t")
    broker.append("t", 0, [b"x" * 1000] * 1000, timestamp_ms=0)
    before = pa.total_allocated_bytes()
    records = read(broker, 500)
    assert pa.total_allocated_bytes() == before
    assert records.values.buffers()[2].address % 8 == 0


def test_each_of_many_readers_goes_on_where_it_ended(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the others have read meanwhile is nothing to it: what it reads of the file is what it
    has not read, and not what the index knows."""
    broker.create_topic("t")
    readers = [0] * 100
    for n in range(300):
        broker.append("t", 0, [b"%d" % n], timestamp_ms=1)
        readers[n % 100] = read_on(broker, readers[n % 100])
    read, window = [0], Segment.window

    def counted(segment: Segment, position: int, size: int, tail: Tail) -> Window:
        read[0] += len((found := window(segment, position, size, tail)).view)
        return found

    monkeypatch.setattr(Segment, "window", counted)
    before = broker.topic("t").bytes
    broker.append("t", 0, [b"last"], timestamp_ms=1)
    one = broker.topic("t").bytes - before
    assert {read_on(broker, offset) for offset in readers} == {301}
    assert read[0] < 100 * 101 * one


def read_on(broker: EmbeddedBroker, offset: int) -> int:
    """Returns where a reader is that has read all from an offset on."""
    while (records := broker.read("t", 0, offset)) is not None:
        assert records.values[0].as_py() in (b"%d" % offset, b"last")
        offset = records.next_offset
    return offset


def test_every_range_over_many_segments(folder: Path) -> None:
    broker = EmbeddedBroker(folder, segment_bytes=400)
    broker.create_topic("t")
    values = [b"%d" % number for number in range(60)]
    for start in range(0, 60, 3):
        broker.append("t", 0, values[start : start + 3], timestamp_ms=start)
    for begin in range(60):
        for end in range(begin + 1, 61):
            records = read(broker, begin, until=end)
            assert (records.values.to_pylist(), records.first_offset) == (values[begin:end], begin)
            assert records.timestamps.tolist() == [number // 3 * 3 for number in range(begin, end)]
    broker.close()


def test_offsets_outside_name_begin_and_end(any_broker: Broker) -> None:
    any_broker.create_topic("t")
    any_broker.append("t", 0, [b"a", b"b"], timestamp_ms=0)
    for offset, until in ((-1, None), (3, None), (0, 3)):
        with pytest.raises(OffsetOutOfRange, match="begins at 0 and ends before 2"):
            any_broker.read("t", 0, offset, until=until)


def test_errors_name_the_topic_and_what_to_do(any_broker: Broker) -> None:
    any_broker.create_topic("orders")
    with pytest.raises(TopicNotFound, match="'order' does not exist") as missing:
        any_broker.read("order", 0, 0)
    assert missing.value.hint == "did you mean 'orders'?"
    with pytest.raises(TopicExists):
        any_broker.create_topic("orders")
    assert any_broker.create_topic("orders", if_not_exists=True).shards == 1
    with pytest.raises(BrokerError, match="no shard 1"):
        any_broker.append("orders", 1, [b""], timestamp_ms=0)


def test_names_are_compared_when_the_hint_is_read(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job whose thousands of topics are created asks for each whether it is there."""
    compared: list[str] = []

    def similar(name: str, known: list[str], n: int) -> list[str]:
        compared.append(name)
        return [topic for topic in known if name in topic][:n]

    broker.create_topic("orders")
    monkeypatch.setattr("difflib.get_close_matches", similar)
    with pytest.raises(TopicNotFound) as missing:
        broker.topic("order")
    assert compared == []
    assert missing.value.hint == missing.value.hint == "did you mean 'orders'?"
    assert compared == ["order"]


def test_numbers_that_fit_nowhere_are_refused(any_broker: Broker) -> None:
    any_broker.create_topic("t")
    for shards, largest, words in (
        (0, None, "at least one"),
        (1025, None, "at most 1024"),
        (1, 2**63, "2\\^63"),
    ):
        with pytest.raises(BrokerError, match=words):
            any_broker.create_topic("u", shards, max_bytes=largest)
    with pytest.raises(BrokerError, match="2\\^63"):
        any_broker.alter_topic("t", retention_ms=2**63)
    with pytest.raises(BrokerError, match="is not a time"):
        any_broker.append("t", 0, [b""], timestamp_ms=2**63)
    for offset in (-1, 2**63):
        with pytest.raises(BrokerError, match="is not an offset"):
            any_broker.commit("g", "t", {0: offset})
    for group in ("", "g" * 201):
        with pytest.raises(BrokerError, match="is not the name of a group"):
            any_broker.commit(group, "t", {0: 0})
    assert [t.name for t in any_broker.topics() if not is_system(t.name)] == ["t"]
    assert (any_broker.end_offset("t", 0), any_broker.groups()) == (0, [])


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a\n", "ä", "x" * 201, ".", ".."])
def test_bad_names_are_refused(broker: EmbeddedBroker, name: str) -> None:
    with pytest.raises(BrokerError, match="is not a topic name"):
        broker.create_topic(name)


@pytest.mark.parametrize("name", ["...", "_epochs", "A-1.z", "x" * 200])
def test_good_names_are_topics_and_come_back(folder: Path, name: str) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic(name, 3, retention_ms=5, retention_bytes=6)
    broker.append(name, 2, [b"v"], timestamp_ms=0)
    before = broker.topic(name)
    broker.close()
    broker = EmbeddedBroker(folder)
    assert broker.topic(name) == before
    assert (before.begin, before.end, before.retention_ms, before.retention_bytes) == (
        (0, 0, 0),
        (0, 0, 1),
        5,
        6,
    )
    broker.delete_topic(name)
    assert [topic.name for topic in broker.topics()] == ["_offsets"]
    broker.close()
    assert is_system(name) == (name == "_epochs")


def test_the_folder_is_private(broker: EmbeddedBroker, folder: Path) -> None:
    broker.create_topic("t")
    modes = {
        path.stat().st_mode & 0o077
        for path in (folder, *folder.rglob("*.seg"), *folder.rglob("topics/*"))
    }
    assert modes == {0}


def test_an_epoch_is_appended_once_over_restarts(folder: Path) -> None:
    require_once_over_restarts(partial(EmbeddedBroker, segment_bytes=300), folder)


def test_an_epoch_without_rows_is_remembered(folder: Path) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic("t")
    assert broker.append("t", 0, [], timestamp_ms=0).next_offset == 0
    broker.append("t", 0, [], timestamp_ms=0, writer="graph", epoch=3)
    broker.append("t", 0, [b"a"], timestamp_ms=0)
    broker.close()
    broker = EmbeddedBroker(folder)
    assert broker.append("t", 0, [b"late"], timestamp_ms=0, writer="graph", epoch=3).duplicate
    assert read(broker, 0).values.to_pylist() == [b"a"]
    broker.close()


def test_committed_offsets_survive_and_go_with_their_topic(folder: Path) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic("t", 3)
    broker.create_topic("u")
    for topic, shard, count in (("t", 0, 5), ("t", 2, 8), ("u", 0, 1)):
        broker.append(topic, shard, [b"v"] * count, timestamp_ms=0)
    broker.commit("g", "t", {0: 5, 2: 7})
    broker.commit("g", "t", {2: 8})
    broker.commit("h", "u", {0: 1})
    broker.close()
    broker = EmbeddedBroker(folder)
    assert broker.committed("g", "t") == {0: 5, 2: 8}
    assert broker.committed("h", "t") == {}
    with pytest.raises(BrokerError, match="no shard 3"):
        broker.commit("g", "t", {3: 0})
    broker.delete_topic("t")
    broker.create_topic("t", 3)
    assert broker.committed("g", "t") == {}
    broker.close()
    broker = EmbeddedBroker(folder)
    assert (broker.committed("g", "t"), broker.committed("h", "u")) == ({}, {0: 1})
    broker.close()


def test_the_log_of_committed_offsets_stays_small(broker: EmbeddedBroker) -> None:
    broker.create_topic("t")
    for offset in range(12_000):
        broker.commit("g", "t", {0: offset})
    assert broker.topic("_offsets").bytes < 1_200_000
    assert broker.committed("g", "t") == {0: 11_999}


def test_who_waits_for_records_of_a_shard_is_not_woken_by_others(any_broker: Broker) -> None:
    for name in ("quiet", "busy"):
        any_broker.create_topic(name, 2)
    assert not any_broker.wait_for_records("quiet", 0, 0, 0.01)
    found: list[tuple[bool, float]] = []

    def wait(seconds: float) -> None:
        began = time.monotonic()
        came = any_broker.wait_for_records("quiet", 1, 0, seconds)
        found.append((came, time.monotonic() - began))

    waiting = threading.Thread(target=wait, args=(0.3,))
    waiting.start()
    while waiting.is_alive():
        any_broker.append("busy", 1, [b"1"], timestamp_ms=1)
        any_broker.append("quiet", 0, [b"1"], timestamp_ms=1)
        time.sleep(0.01)
    assert found[0][0] is False
    assert found[0][1] > 0.29
    waiting = threading.Thread(target=wait, args=(PATIENCE_S,))
    waiting.start()
    time.sleep(0.02)
    any_broker.append("quiet", 1, [b"1"], timestamp_ms=1)
    waiting.join()
    assert found[1][0] is True
    assert any_broker.wait_for_records("quiet", 1, 0, 0)
    with pytest.raises(TopicNotFound):
        any_broker.wait_for_records("missing", 0, 0, 0)


def test_nothing_is_kept_of_topics_that_nobody_waits_for(broker: EmbeddedBroker) -> None:
    for number in range(3):
        broker.create_topic(f"t{number}")
        broker.wait_for_records(f"t{number}", 0, 0, 0)
    assert not broker._appends._of_topics
    waiting = [
        threading.Thread(target=broker.wait_for_records, args=("t0", 0, 0, PATIENCE_S))
        for _ in range(2)
    ]
    for thread in waiting:
        thread.start()
    broker.wait_for_records("t0", 0, 0, 0.01)  # who goes takes nothing from others
    broker.append("t0", 0, [b"1"], timestamp_ms=1)
    for thread in waiting:
        thread.join(PATIENCE_S / 2)
        assert not thread.is_alive()
    assert not broker._appends._of_topics


REFUSED: Mapping[str, Callable[[Broker], object]] = {
    "a name that is none": lambda broker: broker.create_topic("../t"),
    "a topic that is there": lambda broker: broker.create_topic("t"),
    "no shards": lambda broker: broker.create_topic("other", 0),
    "a limit that is none": lambda broker: broker.create_topic("other", max_bytes=-1),
    "options of a topic that is not there": lambda broker: broker.alter_topic("missing"),
    "an option that does not fit": lambda broker: broker.alter_topic("t", delete_retention_ms=1),
    "a deletion of what is not there": lambda broker: broker.delete_topic("missing"),
    "a group that cannot be": lambda broker: broker.commit("", "t", {0: 0}),
    "an offset that is none": lambda broker: broker.commit("g", "t", {0: -1}),
    "a shard that is not there": lambda broker: broker.commit("g", "t", {7: 0}),
    "a topic of offsets that is not there": lambda broker: broker.commit("g", "missing", {0: 0}),
    "a shard that a member has": lambda broker: broker.commit("read", "t", {0: 0}),
    "a group with members": lambda broker: broker.delete_group("read"),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_a_dry_run_refuses_what_is_refused(
    broker: EmbeddedBroker, change: Callable[[Broker], object]
) -> None:
    broker.create_topic("t")
    broker.join("read", "m", ["t"])
    told = []
    for one in (rehearsal(broker), broker):
        with pytest.raises(BrokerError) as error:
            change(one)
        told.append((type(error.value), str(error.value), error.value.hint))
    assert told[0] == told[1]


def test_a_dry_run_changes_nothing(broker: EmbeddedBroker) -> None:
    broker.create_topic("t", 2)
    broker.commit("g", "t", {0: 0})
    before = broker.topics(), broker.groups()
    dry = rehearsal(broker)
    assert dry.create_topic("new", 3, max_bytes=9).max_bytes == 9
    assert dry.create_topic("t", if_not_exists=True) == broker.topic("t")
    assert dry.alter_topic("t", max_bytes=7).max_bytes == 7
    dry.commit("g", "t", {1: 0})
    dry.delete_group("g")
    dry.delete_topic("t")
    assert (broker.topics(), broker.groups()) == before


def test_waiting_misses_no_append(any_broker: Broker) -> None:
    any_broker.create_topic("t")
    any_broker.wait_for_data(0)
    assert not any_broker.wait_for_data(0.01)
    any_broker.append("t", 0, [b"before the call"], timestamp_ms=0)
    assert any_broker.wait_for_data(PATIENCE_S)
    timer = threading.Timer(
        0.05, lambda: any_broker.append("t", 0, [b"during the call"], timestamp_ms=0)
    )
    timer.start()
    began = time.monotonic()
    assert any_broker.wait_for_data(PATIENCE_S)
    assert time.monotonic() - began < PATIENCE_S / 2
    timer.join()


@pytest.mark.parametrize(
    ("fsync", "least", "most"), [("none", 0, 0), ("interval", 1, 10), ("epoch", 10, 10)]
)
def test_a_mode_syncs_as_often_as_it_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fsync: Fsync, least: int, most: int
) -> None:
    broker = EmbeddedBroker(folder, fsync=fsync, fsync_interval_s=0.02)
    broker.create_topic("t")
    synced: list[int] = []
    monkeypatch.setattr(MachineDisk, "sync", staticmethod(synced.append))
    for _ in range(10):
        broker.append("t", 0, [b"v"], timestamp_ms=0)
    eventually(lambda: len(synced) >= least)
    assert len(synced) <= most
    broker.append("t", 0, [b"v"], timestamp_ms=0)
    broker.sync()
    assert len(synced) > least
    broker.close()


def test_an_append_that_cannot_be_synced_was_not_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = EmbeddedBroker(folder, fsync="epoch")
    broker.create_topic("t")
    broker.append("t", 0, [b"a"], timestamp_ms=0)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(MachineDisk, "sync", staticmethod(fail))
        with pytest.raises(BrokerError, match="cannot write to topic 't' shard 0"):
            broker.append("t", 0, [b"lost"], timestamp_ms=0, writer="w", epoch=1)
    assert not broker.append("t", 0, [b"b"], timestamp_ms=0, writer="w", epoch=1).duplicate
    broker.close()
    broker = EmbeddedBroker(folder)
    assert read(broker, 0).values.to_pylist() == [b"a", b"b"]
    broker.close()


@pytest.mark.parametrize("fsync", ["none", "interval", "epoch"])
def test_threads_append_and_read_at_once(folder: Path, fsync: Fsync) -> None:
    broker = EmbeddedBroker(folder, fsync=fsync, segment_bytes=20_000, fsync_interval_s=0.001)
    broker.create_topic("t", 2)
    rounds = 300 if fsync != "epoch" else 20
    seen: list[list[bytes]] = []

    def write(name: int) -> None:
        for number in range(rounds):
            values = [b"%d:%d:%d" % (name, number, row) for row in range(5)]
            broker.append("t", 0, values, timestamp_ms=number, writer=str(name), epoch=number)

    def follow() -> None:
        got: list[bytes] = []
        offset = 0
        while len(got) < 3 * 5 * rounds:
            records = broker.read("t", 0, offset, max_records=17)
            if records is None:
                broker.wait_for_data(1)
            else:
                assert records.first_offset == offset
                got += records.values.to_pylist()
                offset = records.next_offset
        seen.append(got)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(3)]
    threads += [threading.Thread(target=follow) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    broker.sync()
    assert len(seen) == 2
    assert seen[0] == seen[1]
    for name in range(3):
        mine = [value for value in seen[0] if value.startswith(b"%d:" % name)]
        assert mine == [
            b"%d:%d:%d" % (name, number, row) for number in range(rounds) for row in range(5)
        ]
    broker.close()
