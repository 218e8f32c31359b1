"""A compacted topic is a table: the last value per key, at its offset."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sqlengine.broker.base import Broker, LookupResult
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerError

DAY = 24 * 3600 * 1000


def open_at(folder: Path, now: int = 0) -> EmbeddedBroker:
    return EmbeddedBroker(folder, clock=lambda: now, segment_bytes=2000)


def fill(broker: EmbeddedBroker) -> dict[bytes, bytes]:
    """300 changes of 10 keys, the last of key 3 a deletion; returns the table."""
    broker.create_topic("t", compacted=True)
    table: dict[bytes, bytes] = {}
    for number in range(300):
        key, value = b"%d" % (number % 10), b"value %d" % number if number != 293 else None
        broker.append("t", 0, [value], keys=[key], timestamp_ms=number, writer="w", epoch=number)
        if value is None:
            del table[key]
        else:
            table[key] = value
    return table


def test_compaction_keeps_the_table_its_offsets_and_epochs(folder: Path) -> None:
    broker = open_at(folder)
    table = fill(broker)
    size = broker.topic("t").bytes
    assert broker.read_latest("t") == table
    for _ in range(2):
        broker.compact("t")
        assert broker.read_latest("t") == table
        assert broker.topic("t").bytes < size / 10
        records = broker.read("t", 0, 0)
        assert records is not None
        assert records.offsets.tolist() == records.timestamps.tolist() == list(range(290, 300))
        assert records.values.to_pylist()[3] is None
        assert (broker.begin_offset("t", 0), broker.end_offset("t", 0)) == (0, 300)
        assert broker.offset_for_time("t", 0, 295) == 295
        broker.close()
        broker = open_at(folder)
    assert broker.append(
        "t", 0, [b"x"], keys=[b"k"], timestamp_ms=0, writer="w", epoch=299
    ).duplicate
    broker.append("t", 0, [b"new"], keys=[b"3"], timestamp_ms=400)
    assert broker.read_latest("t") == table | {b"3": b"new"}
    records = broker.read("t", 0, 295)
    assert records is not None
    assert records.offsets.tolist() == [295, 296, 297, 298, 299, 300]
    broker.close()


def test_tombstones_go_after_a_day_and_readers_pass_the_gap(folder: Path) -> None:
    broker = open_at(folder)
    broker.create_topic("t", compacted=True)
    broker.append("t", 0, [b"v", None, b"w", None], keys=[b"a", b"a", b"b", b"b"], timestamp_ms=0)
    broker.close()
    broker = open_at(folder, DAY + 1)
    broker.compact("t")
    assert broker.read_latest("t") == {}
    records = broker.read("t", 0, 0)
    assert records is not None
    assert (records.num_rows, records.next_offset) == (0, 4)
    assert broker.read("t", 0, 4) is None
    broker.append("t", 0, [b"after"], keys=[b"c"], timestamp_ms=0)
    records = broker.read("t", 0, 1)
    assert records is not None
    assert (records.first_offset, records.values.to_pylist()) == (4, [b"after"])
    broker.close()


def test_compaction_in_the_background_disturbs_no_reader(folder: Path) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic("t", compacted=True)
    table: dict[bytes, bytes] = {}
    for turn in range(6):
        values = [b"%d of turn %d" % (number, turn) * 20 for number in range(1000)]
        keys = [b"%d" % number for number in range(1000)]
        broker.append("t", 0, values, keys=keys, timestamp_ms=turn)
        table |= dict(zip(keys, values, strict=True))
    held = broker.read("t", 0, 0)
    steps, size, taken = broker.compaction_steps(), broker.topic("t").bytes, 0
    for _ in steps:
        taken += 1
        assert broker.read_latest("t") == table
        broker.append("t", 0, [b"at step %d" % taken], keys=[b"new"], timestamp_ms=9)
        table[b"new"] = b"at step %d" % taken
        assert (found := broker.lookup("t", b"new")) is not None
        assert found.value == table[b"new"]
    assert taken > 2
    assert broker.topic("t").bytes < size / 3
    assert broker.read_latest("t") == table
    assert list(broker.compaction_steps()) == []  # nothing is due any more
    assert held is not None
    assert held.values[0].as_py() == b"0 of turn 0" * 20
    broker.close()


def test_compaction_that_is_stopped_changes_nothing(folder: Path) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic("t", compacted=True)
    broker.append("t", 0, [bytes(2000)] * 1000, keys=[b"k"] * 1000, timestamp_ms=0)
    steps = broker.compaction_steps()
    next(steps)
    steps.close()
    assert broker.topic("t").bytes > 2_000_000
    assert list(folder.rglob("*.tmp")) == []
    broker.compact("t")
    assert broker.topic("t").bytes < 10_000
    broker.close()


def test_a_key_is_looked_up(any_broker: Broker) -> None:
    any_broker.create_topic("t", 2, compacted=True)
    assert any_broker.lookup("t", b"a") is None
    any_broker.append("t", 0, [b"1", b"2", b"3"], keys=[b"a", b"b", b"a"], timestamp_ms=5)
    assert any_broker.lookup("t", b"a") == LookupResult(0, 2, 5, b"3")
    any_broker.append("t", 1, [b"4"], keys=[b"a"], timestamp_ms=6)
    assert any_broker.lookup("t", b"a") == LookupResult(1, 0, 6, b"4")
    any_broker.append("t", 1, [None], keys=[b"a"], timestamp_ms=7)
    assert any_broker.lookup("t", b"a") == LookupResult(0, 2, 5, b"3")
    any_broker.compact("t")
    any_broker.append("t", 0, [b"5"], keys=[b"b"], timestamp_ms=8)
    assert any_broker.lookup("t", b"a") == LookupResult(0, 2, 5, b"3")
    assert any_broker.lookup("t", b"b") == LookupResult(0, 3, 8, b"5")
    any_broker.create_topic("plain")
    with pytest.raises(BrokerError, match="is not compacted"):
        any_broker.lookup("plain", b"a")


def test_delete_retention_of_tombstones(folder: Path) -> None:
    broker = open_at(folder, 1000)
    broker.create_topic("t", compacted=True, delete_retention_ms=100)
    broker.append("t", 0, [None], keys=[b"old"], timestamp_ms=899)
    broker.append("t", 0, [None], keys=[b"young"], timestamp_ms=901)
    broker.compact("t")
    records = broker.read("t", 0, 0)
    assert records is not None
    assert records.keys is not None
    assert records.keys.to_pylist() == [b"young"]
    broker.close()


def test_a_death_at_any_step_leaves_the_table(folder: Path, tmp_path: Path) -> None:
    broker = open_at(folder)
    table = fill(broker)
    broker.sync()
    before = tmp_path / "before"
    shutil.copytree(folder, before)
    broker.compact("t")
    broker.close()
    shard = Path("topics") / "t.topic" / "0"
    (fresh,) = (folder / shard).glob("*.0001.seg")
    growing = max((folder / shard).glob("*.seg"))
    old = sorted((before / shard).glob("*.seg"))
    for removed in range(len(old) + 1):
        for named in (False, True):
            life = tmp_path / f"life-{removed}-{named}"
            shutil.copytree(before, life)
            shutil.copy(growing, life / shard)
            shutil.copy(
                fresh, life / shard / (fresh.name if named else fresh.with_suffix(".tmp").name)
            )
            for path in old[:removed] if named else []:
                (life / shard / path.name).unlink()
            survivor = open_at(life)
            assert survivor.read_latest("t") == table
            assert survivor.end_offset("t", 0) == 300
            survivor.close()


def test_compaction_needs_a_compacted_topic_and_keys(broker: EmbeddedBroker) -> None:
    broker.create_topic("t", compacted=True)
    broker.create_topic("plain")
    for keys in (None, [b"k", None]):
        with pytest.raises(BrokerError, match="every value needs a key"):
            broker.append("t", 0, [b"v", b"w"], keys=keys, timestamp_ms=0)
    with pytest.raises(BrokerError, match="is not compacted"):
        broker.compact("plain")
    broker.compact("t")
    assert broker.read_latest("t") == {}
