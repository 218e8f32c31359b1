"""A compacted topic is a table: the last value per key, at its offset."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

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
    assert broker.append("t", 0, [b"x"], keys=[b"k"], timestamp_ms=0, writer="w", epoch=299).duplicate
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
            shutil.copy(fresh, life / shard / (fresh.name if named else fresh.with_suffix(".tmp").name))
            for path in old[:removed] if named else []:
                (life / shard / path.name).unlink()
            survivor = open_at(life)
            assert survivor.read_latest("t") == table
            assert survivor.end_offset("t", 0) == 300
            survivor.close()


def test_what_compaction_needs(broker: EmbeddedBroker) -> None:
    broker.create_topic("t", compacted=True)
    broker.create_topic("plain")
    for keys in (None, [b"k", None]):
        with pytest.raises(BrokerError, match="every value needs a key"):
            broker.append("t", 0, [b"v", b"w"], keys=keys, timestamp_ms=0)
    with pytest.raises(BrokerError, match="is not compacted"):
        broker.compact("plain")
    broker.compact("t")
    assert broker.read_latest("t") == {}
