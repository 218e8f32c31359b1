"""Moving a shard to another folder, unnoticed by readers, writers and groups."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerError
from sqlengine.system.disk import MACHINE, MachineDisk

VALUES = [b"%03d" % number * 20 for number in range(60)]


def fill(broker: EmbeddedBroker, start: int, stop: int) -> None:
    for number in range(start, stop):
        broker.append("t", 0, [VALUES[number]], timestamp_ms=number, writer="w", epoch=number)


def holds(broker: Broker, count: int) -> None:
    for begin in range(0, count, 7):
        records = broker.read("t", 0, begin, until=count)
        assert records is not None
        assert records.values.to_pylist() == VALUES[begin:count]
        assert broker.offset_for_time("t", 0, begin) == begin
    assert (broker.begin_offset("t", 0), broker.end_offset("t", 0)) == (0, count)
    assert broker.last_epoch("t", 0, "w") == count - 1


@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("fsync", ["none", "epoch"])
def test_a_shard_moves_while_it_is_used(
    folder: Path, tmp_path: Path, data: bool, fsync: str
) -> None:
    broker = EmbeddedBroker(folder, segment_bytes=600, fsync=fsync)  # type: ignore[arg-type]
    broker.create_topic("t", 2)
    fill(broker, 0, 30)
    held = broker.read("t", 0, 3)
    broker.commit("g", "t", {0: 11})
    for place in ("disk-1", "disk-2"):
        broker.move_shard("t", 0, tmp_path / place, data=data)
    holds(broker, 30)
    fill(broker, 30, 40)
    holds(broker, 40)
    broker.close()
    broker = EmbeddedBroker(folder, segment_bytes=600)
    holds(broker, 40)
    fill(broker, 40, 60)
    holds(broker, 60)
    segments = {
        Path(place).parent.name: count for place, count in broker.shards("t")[0].folders.items()
    }
    assert segments.keys() == ({"disk-2"} if data else {"t.topic", "disk-2"})
    assert broker.shards("t")[0].end == 60
    assert broker.committed("g", "t") == {0: 11}
    assert held is not None
    assert held.values[0].as_py() == VALUES[3]
    broker.delete_topic("t")
    assert list((tmp_path / "disk-1").iterdir()) == list((tmp_path / "disk-2").iterdir()) == []
    broker.close()


class Dying(MachineDisk):
    """Refuses to rename once it has done so `left` times: what is there then is what a killed
    process leaves."""

    left = 10**9

    def rename(self, old: Path, new: Path) -> None:
        if self.left <= 0:
            raise OSError(errno.EIO, "dead")
        self.left -= 1
        MACHINE.rename(old, new)

    def remove(self, path: Path) -> None:
        if self.left > 0:
            super().remove(path)

    def remove_folder(self, path: Path) -> None:
        if self.left > 0:
            super().remove_folder(path)


def test_a_death_at_any_step_of_a_move_loses_nothing(folder: Path, tmp_path: Path) -> None:
    renames = 0
    while True:
        disk = Dying()
        broker = EmbeddedBroker(folder, segment_bytes=600, disk=disk)
        broker.create_topic("t")
        fill(broker, 0, 30)
        disk.left = renames
        try:
            broker.move_shard("t", 0, tmp_path / "other", data=True)
            died = False
        except BrokerError:
            died = True
        copied = tmp_path / f"life-{renames}"
        shutil.copytree(folder, copied)
        survivor = EmbeddedBroker(copied, segment_bytes=600)
        holds(survivor, 30)
        fill(survivor, 30, 40)
        holds(survivor, 40)
        survivor.close()
        broker.close()
        shutil.rmtree(folder)
        shutil.rmtree(tmp_path / "other", ignore_errors=True)
        if not died:
            break
        renames += 1
    assert renames > 5


def test_a_compacted_shard_moves(folder: Path, tmp_path: Path) -> None:
    broker = EmbeddedBroker(folder, segment_bytes=600)
    broker.create_topic("t", compacted=True)
    for number in range(50):
        broker.append("t", 0, [b"%d" % number], keys=[b"%d" % (number % 4)], timestamp_ms=number)
        if number == 20:
            broker.move_shard("t", 0, tmp_path / "other")
        if number % 15 == 14:
            broker.compact("t")
    table = {b"%d" % (number % 4): b"%d" % number for number in range(46, 50)}
    assert broker.read_latest("t") == table
    broker.close()
    broker = EmbeddedBroker(folder)
    assert broker.read_latest("t") == table
    assert len(broker.shards("t")[0].folders) == 1
    broker.close()


def test_moves_that_are_rejected(folder: Path, tmp_path: Path) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic("t")
    fill(broker, 0, 3)
    with pytest.raises(BrokerError, match="is not absolute"):
        broker.move_shard("t", 0, Path("here"))
    with pytest.raises(BrokerError, match="no shard 1"):
        broker.move_shard("t", 1, tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BrokerError, match="cannot write to folder"):
        broker.move_shard("t", 0, tmp_path / "file")
    holds(broker, 3)
    broker.move_shard("t", 0, tmp_path / "other")
    fill(broker, 3, 6)
    broker.close()
    shutil.move(tmp_path / "other", tmp_path / "unplugged")
    broker = EmbeddedBroker(folder)
    with pytest.raises(BrokerError, match="of a topic is not there") as error:
        broker.read("t", 0, 0)
    broker.close()
    assert "mount its disk" in str(error.value.hint)
    shutil.move(tmp_path / "unplugged", tmp_path / "other")
    broker = EmbeddedBroker(folder)
    holds(broker, 6)
    broker.close()
