"""Durability in a power failure: everything acknowledged in the mode 'epoch', also after an earlier
crash."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerFull
from sqlengine.connectors.filesystem.sink import FileSink
from tests.connectors.tables import table
from tests.connectors.test_filesystem_sink import write
from tests.simulation.disk import SimulatedDisk
from tests.simulation.world import Death, World

DATA = Path("/server/data")


class Fate:
    """Lets the process die within its `at`-th change of the disk from now on."""

    def __init__(self) -> None:
        self.at = -1

    def __call__(self) -> bool:
        self.at -= 1
        return self.at == 0


def _disk(seed: int) -> tuple[SimulatedDisk, Fate]:
    fate = Fate()
    return SimulatedDisk(World(seed), "a", fate), fate


def _open(disk: SimulatedDisk) -> EmbeddedBroker:
    return EmbeddedBroker(DATA, fsync="epoch", clock=lambda: 0, disk=disk)


def _dies(disk: SimulatedDisk, work: Callable[[], object]) -> None:
    with pytest.raises(Death):
        work()
    disk.end_process()


def _values(broker: EmbeddedBroker) -> list[bytes]:
    records = broker.read("t", 0, 0)
    return [] if records is None else records.values.to_pylist()


@pytest.mark.parametrize("seed", range(8))
def test_a_new_data_folder_and_a_new_topic_stay(seed: int) -> None:
    disk, _ = _disk(seed)
    broker = _open(disk)
    broker.create_topic("t")
    broker.append("t", 0, [b"a"], timestamp_ms=0)
    disk.lose_power(wild=True)
    assert _values(_open(disk)) == [b"a"]


@pytest.mark.parametrize("seed", range(8))
def test_the_new_folder_of_a_shard_that_moved_stays(seed: int) -> None:
    disk, _ = _disk(seed)
    broker = _open(disk)
    broker.create_topic("t")
    broker.move_shard("t", 0, Path("/another/disk/folder"))
    broker.append("t", 0, [b"a"], timestamp_ms=0)
    disk.lose_power(wild=True)
    assert _values(_open(disk)) == [b"a"]


@pytest.mark.parametrize("seed", range(8))
def test_a_data_folder_stays_that_a_process_made_which_died_then(seed: int) -> None:
    for at in range(1, 8):
        disk, fate = _disk(seed)
        fate.at = at
        _dies(disk, partial(_open, disk))
        broker = _open(disk)
        broker.create_topic("t")
        broker.append("t", 0, [b"a"], timestamp_ms=0)
        disk.lose_power(wild=True)
        assert _values(_open(disk)) == [b"a"]


@pytest.mark.parametrize("seed", range(8))
def test_data_read_by_a_process_stay(seed: int) -> None:
    """The one before wrote it, and died before it was synced."""
    disk, fate = _disk(seed)
    broker = _open(disk)
    broker.create_topic("t")
    fate.at = 2  # the sync behind the write
    _dies(disk, lambda: broker.append("t", 0, [b"a"], timestamp_ms=0))
    found = _values(_open(disk))
    assert found == [b"a"]
    disk.lose_power(wild=True)
    assert _values(_open(disk)) == found


@pytest.mark.parametrize("seed", range(8))
def test_data_read_by_a_process_stay_whatever_crashed(seed: int) -> None:
    """Segments roll, and the death is anywhere."""
    for at in range(1, 30):
        _check_found(seed, at)


def _check_found(seed: int, at: int) -> None:
    disk, fate = _disk(seed)
    broker = EmbeddedBroker(DATA, fsync="epoch", clock=lambda: 0, disk=disk, segment_bytes=300)
    broker.create_topic("t")
    told: list[int] = []
    fate.at = at

    def append() -> None:
        for number in range(100):
            broker.append("t", 0, [b"%d" % number], timestamp_ms=0)
            told.append(number)

    _dies(disk, append)
    found = _values(_open(disk))
    assert len(found) in (len(told), len(told) + 1)
    disk.lose_power(wild=True)
    assert _values(_open(disk)) == found == [b"%d" % n for n in range(len(found))]


@pytest.mark.parametrize("seed", range(30))
def test_a_segment_that_another_follows_ends_where_it_did(seed: int) -> None:
    """What was written of a batch before there was no space is cut off; the next one may go
    elsewhere."""
    disk, _ = _disk(seed)
    broker = _open(disk)
    broker.create_topic("t")
    broker.append("t", 0, [b"a"], timestamp_ms=0)
    for _ in range(3):
        disk.full = lambda _: True
        with pytest.raises(BrokerFull):
            broker.append("t", 0, [b"never" * 20], timestamp_ms=0)
    disk.full = lambda _: False
    broker.move_shard("t", 0, Path("/volume"))
    broker.append("t", 0, [b"b"], timestamp_ms=0)
    disk.lose_power(wild=True)
    assert _values(_open(disk)) == [b"a", b"b"]


def test_a_group_continues_with_records_that_replace_lost_ones() -> None:
    """Where what it has committed is on disk, and the records are not."""
    disk, _ = _disk(0)
    broker = _open(disk)
    broker.create_topic("t")
    broker.append("t", 0, [b"a", b"b"], timestamp_ms=0)
    broker.commit("g", "t", {0: 2})
    folder = DATA / "topics" / "t.topic" / "0"
    (segment,) = disk.names(folder)
    file = disk.open(folder / segment)
    disk.truncate(file, disk.size(file) - 8)
    disk.end_process()
    broker = _open(disk)
    assert (broker.committed("g", "t"), broker.end_offset("t", 0)) == ({0: 0}, 0)
    broker.append("t", 0, [b"c", b"d", b"e"], timestamp_ms=0)
    disk.end_process()
    assert _open(disk).committed("g", "t") == {0: 0}


def test_without_space_a_server_says_so_and_one_that_was_there_starts() -> None:
    disk, _ = _disk(0)
    disk.full = lambda _: True
    with pytest.raises(BrokerFull, match="no space to write to data folder"):
        _open(disk)
    disk.full = lambda _: False
    _open(disk).create_topic("t")
    disk.end_process()
    disk.full = lambda _: True
    assert _values(_open(disk)) == []


@pytest.mark.parametrize("seed", range(8))
def test_committed_lines_stay(seed: int) -> None:
    """After a loss of power; and so does what a process has found that followed one which died
    before its sync."""
    disk, fate = _disk(seed)
    known = table({"connector": "filesystem", "path": "/out", "format": "json"})

    def sink() -> FileSink:
        return FileSink(known, Path("/out"), "w", fsync=True, disk=disk)

    target = sink()
    assert write(target, 1, [1]) == 1
    disk.lose_power(wild=True)
    target = sink()
    assert target.last_epoch() == 1
    fate.at = 7  # the sync behind lines, sync, journal, after three of opening the file
    _dies(disk, lambda: write(target, 2, [2]))
    assert sink().last_epoch() == 2
    disk.lose_power(wild=True)
    assert sink().last_epoch() == 2
