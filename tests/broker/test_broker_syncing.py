"""Group commit: appends that wait for the disk are written together, with one sync."""

from __future__ import annotations

import errno
import threading
from functools import partial
from pathlib import Path

import pytest

from sqlengine.broker.base import Appended
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.ownership import Membership
from sqlengine.system.disk import MACHINE, MachineDisk
from tests.support import PATIENCE_S, eventually


class SlowDisk(MachineDisk):
    """Syncs when it is told to."""

    def __init__(self) -> None:
        self.syncs = 0
        self.go = threading.Event()
        self.fails = False

    def sync(self, file: int) -> None:
        self.syncs += 1
        assert self.go.wait(PATIENCE_S)
        if self.fails:
            raise OSError(errno.EIO, "Input/output error")
        MACHINE.sync(file)


@pytest.mark.parametrize("fails", [False, True])
def test_waiting_appends_are_written_together(folder: Path, fails: bool) -> None:
    disk = SlowDisk()
    disk.go.set()
    broker = EmbeddedBroker(folder, fsync="epoch", disk=disk)
    broker.create_topic("t")
    disk.go.clear()
    disk.syncs = 0
    done: dict[int, Appended] = {}
    refused: list[str] = []

    def append(number: int) -> None:
        try:
            done[number] = broker.append(
                "t",
                0,
                [b"%d" % number] * 2,
                timestamp_ms=0,
                writer=str(number % 6),
                epoch=number // 6,
            )
        except BrokerError as error:
            refused.append(error.message)

    def is_waiting(count: int) -> bool:
        return len(broker._log("t", 0)._queue) == count

    threads = [threading.Thread(target=append, args=(number,)) for number in range(9)]
    threads[0].start()
    eventually(lambda: disk.syncs == 1)
    for number, thread in enumerate(threads[1:], 1):
        thread.start()
        eventually(partial(is_waiting, number))
    assert broker.end_offset("t", 0) == 0  # what is not on disk is not there yet
    disk.fails = fails
    disk.go.set()
    for thread in threads:
        thread.join()
    if fails:
        assert done == {}
        assert len(refused) == 9
        assert set(refused) == {"cannot write to topic 't' shard 0"}
        disk.fails = False
        append(3)
        assert broker.end_offset("t", 0) == 2
    else:
        # The first alone, then the others at once, but for the second epochs of writers 0, 1 and 2.
        assert disk.syncs <= 4
        assert sorted(a.first_offset for a in done.values()) == list(range(0, 18, 2))
        records = broker.read("t", 0, 0)
        assert records is not None
        assert [records.values[a.first_offset].as_py() for a in done.values()] == [
            b"%d" % n for n in done
        ]
    broker.close()


def test_members_wait_for_the_disk_together_and_changes_come_between(folder: Path) -> None:
    disk = SlowDisk()
    disk.go.set()
    broker = EmbeddedBroker(folder, fsync="epoch", disk=disk)
    broker.create_topic("t", 2)
    broker.join("g", "a", ["t"])
    members = [broker.join("g", "b", ["t"]), broker.heartbeat("g", "a", 1)]
    disk.go.clear()
    disk.syncs = 0
    joined: list[int] = []

    def append(member: Membership) -> None:
        (shard,) = member.shards["t"]
        broker.append("t", shard, [b"v"], timestamp_ms=0, fence=member.fence("t", shard))

    def join() -> None:
        joined.append(broker.join("g", "c", ["t"]).generation)

    writers = [threading.Thread(target=append, args=(member,)) for member in members]
    newcomer = threading.Thread(target=join)
    for thread in writers:
        thread.start()
    eventually(lambda: disk.syncs == 2)
    newcomer.start()
    newcomer.join(0.1)
    assert joined == []  # nobody loses a shard while he writes
    disk.go.set()
    for thread in (*writers, newcomer):
        thread.join()
    assert joined == [3]
    assert [broker.end_offset("t", shard) for shard in range(2)] == [1, 1]
    broker.close()
