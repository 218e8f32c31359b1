"""What a log that was closed cleanly must still have when it is opened again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import CorruptSegment
from sqlengine.broker.storage.end_mark import NAME
from sqlengine.system.disk import MachineDisk
from sqlengine.system.durability import Fsync


def write_log(folder: Path, *, batches: int = 3) -> tuple[Path, list[int]]:
    """Writes batches of 1,000 records and closes the log cleanly. Returns its only segment, and
    where its head and each batch end."""
    broker = EmbeddedBroker(folder)
    broker.create_topic("t", if_not_exists=True)
    (path,) = (folder / "topics" / "t.topic" / "0").glob("*.seg")
    ends = [path.stat().st_size]
    for number in range(batches):
        broker.append("t", 0, [b"%d" % number] * 1_000, timestamp_ms=number)
        ends.append(path.stat().st_size)
    broker.close()
    return path, ends


@pytest.mark.parametrize("damage", ["flip", "cut", "batch", "empty"])
def test_what_is_missing_at_the_end_is_named_and_nothing_is_cut(folder: Path, damage: str) -> None:
    path, ends = write_log(folder)
    content = path.read_bytes()
    damaged = {
        "flip": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
        "cut": content[:-8],
        "batch": content[: ends[1]],
        "empty": content[: ends[0]],
    }[damage]
    path.write_bytes(damaged)
    broker = EmbeddedBroker(folder)
    with pytest.raises(CorruptSegment) as error:
        broker.read("t", 0, 0)
    first = {"flip": 2_000, "cut": 2_000, "batch": 1_000, "empty": 0}[damage]
    assert error.value.detail is not None
    assert f"records {first:,} to 2,999" in error.value.detail
    assert error.value.hint is not None
    assert "sql topic repair t --data" in error.value.hint
    broker.close()
    assert path.read_bytes() == damaged


def test_the_remedy_gives_up_the_records_that_are_named(folder: Path) -> None:
    path, _ = write_log(folder)
    os.truncate(path, path.stat().st_size - 8)
    (path.parent / NAME).unlink()
    broker = EmbeddedBroker(folder)
    assert broker.end_offset("t", 0) == 2_000
    broker.close()


def test_a_log_that_died_is_cut_behind_its_last_clean_stop_only(folder: Path) -> None:
    path, _ = write_log(folder)
    kept = (path.parent / NAME).read_bytes()
    write_log(folder, batches=1)
    (path.parent / NAME).write_bytes(kept)  # as if that process had died
    os.truncate(path, path.stat().st_size - 8)
    broker = EmbeddedBroker(folder)
    assert broker.end_offset("t", 0) == 3_000
    broker.close()


@pytest.mark.parametrize("mark", [b"", b"\0" * 40, b"9999 none 0 deadbeef\n"])
def test_a_damaged_mark_says_nothing(folder: Path, mark: bytes) -> None:
    path, _ = write_log(folder)
    (path.parent / NAME).write_bytes(mark)
    broker = EmbeddedBroker(folder)
    assert broker.end_offset("t", 0) == 3_000
    broker.close()


def test_a_power_loss_may_take_what_was_not_synced(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a sync, records of before the last start of the machine may be gone: that is said,
    and the log goes on."""

    class Restarted(MachineDisk):
        def boot_id(self) -> str:
            return "another"

    path, _ = write_log(folder)
    os.truncate(path, path.stat().st_size - 8)
    broker = EmbeddedBroker(folder, disk=Restarted())
    assert broker.end_offset("t", 0) == 2_000
    assert "records 2,000 to 2,999 of topic 't' shard 0 are lost" in caplog.text
    broker.close()


def test_one_damaged_topic_does_not_keep_the_others_from_opening(folder: Path) -> None:
    path, _ = write_log(folder)
    os.truncate(path, path.stat().st_size - 8)
    (folder / "topics" / "empty.topic").mkdir()
    broker = EmbeddedBroker(folder)
    broker.create_topic("u")
    broker.append("u", 0, [b"x"], timestamp_ms=0)
    assert {"t", "empty", "u"} <= broker.topic_names()
    damage = {topic.name: topic.damage for topic in broker.topics() if topic.damage}
    assert damage.keys() == {"t", "empty"}
    assert "topic.json" in damage["empty"]
    for name in damage:
        with pytest.raises(CorruptSegment):
            broker.append(name, 0, [b"x"], timestamp_ms=0)
        with pytest.raises(CorruptSegment):
            broker.create_topic(name, if_not_exists=True)
    broker.delete_topic("t")
    broker.create_topic("t")
    assert broker.end_offset("t", 0) == 0
    broker.close()


def test_a_segment_that_is_cut_while_it_is_read_is_an_error(folder: Path) -> None:
    broker = EmbeddedBroker(folder)
    broker.create_topic("t")
    ends = []
    for number in range(50):
        broker.append("t", 0, [b"%d" % number * 100] * 1_000, timestamp_ms=number)
        ends.append(broker.shards("t")[0].bytes)
    assert broker.read("t", 0, 0) is not None
    (path,) = (folder / "topics" / "t.topic" / "0").glob("*.seg")
    os.truncate(path, ends[1] + 80)
    for offset in (0, 20_000, 49_000):
        with pytest.raises(CorruptSegment, match=rf"{path.name}' .* byte {ends[1]}, offset 2000"):
            broker.read("t", 0, offset, until=50_000)
    with pytest.raises(CorruptSegment, match=path.name):
        broker.append("t", 0, [b"x"], timestamp_ms=0)
    broker.close()


def run_program(program: str, folder: Path) -> str:
    """What a program says that works on a broker in a process of its own."""
    begin = "import os, resource, sys; from sqlengine.broker.embedded import EmbeddedBroker\n"
    command = [sys.executable, "-c", begin + program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


HOLD = """
broker = EmbeddedBroker(sys.argv[1])
broker.create_topic("t")
broker.append("t", 0, [b"abc"] * 100_000, timestamp_ms=0)
records = broker.read("t", 0, 0, max_records=200_000)
os.truncate(broker._log("t", 0).segments[0].path, 0)
print(len(set(records.values.to_pylist())), records.num_rows)
"""


def test_records_that_were_read_outlive_a_cut(folder: Path) -> None:
    assert run_program(HOLD, folder) == "1 100000\n"


WIDE = """
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
for life in range(2):
    broker = EmbeddedBroker(sys.argv[1])
    broker.create_topic("wide", 1_000, if_not_exists=True)
    for shard in range(1_000):
        broker.append("wide", shard, [b"x"], timestamp_ms=0)
    for shard in range(1_000):
        assert broker.read("wide", shard, 0).num_rows == life + 1
    assert len(os.listdir("/proc/self/fd")) < 100
    broker.close()
assert len(os.listdir("/proc/self/fd")) < 15, os.listdir("/proc/self/fd")
"""


def test_shards_share_descriptors(folder: Path) -> None:
    run_program(WIDE, folder)


def test_what_was_on_disk_at_a_clean_stop_is_not_synced_again(folder: Path) -> None:
    class Counting(MachineDisk):
        synced = 0

        def sync(self, file: int) -> None:
            Counting.synced += 1
            super().sync(file)

    def life(writer: str | None = None, *, fsync: Fsync = "interval") -> int:
        """How many files one more process syncs when it starts."""
        before = Counting.synced
        broker = EmbeddedBroker(folder, fsync=fsync, disk=Counting())
        started = Counting.synced - before
        broker.create_topic("t", 100, if_not_exists=True)
        if writer is not None:
            broker.append("t", 0, [], timestamp_ms=0, writer=writer, epoch=1)
        broker.close()
        return started

    life()
    assert life() == 0
    assert life("unsynced", fsync="none") == 0
    assert life() == 1
    assert life() == 0
