"""Recovery of a log cut or damaged at any byte, or whose process died at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import CorruptSegment, UnknownFormat
from sqlengine.broker.storage import small_batches
from sqlengine.broker.storage.end_mark import NAME
from tests.support import PATIENCE_S

ROOT = Path(__file__).parents[2]

BATCHES: list[list[bytes | None]] = [
    [b"one", b"two"],
    [b"", None, b"three" * 5],
    [b"four"],
    [b"five", b"six"],
]


def write_log(folder: Path) -> tuple[Path, list[int]]:
    """The only segment of topic t with all BATCHES, and where each batch ends; the first end is
    that of the head."""
    broker = EmbeddedBroker(folder)
    broker.create_topic("t")
    (path,) = (folder / "topics" / "t.topic" / "0").glob("*.seg")
    ends = [path.stat().st_size]
    for epoch, values in enumerate(BATCHES):
        keys = [b"key"] * len(values) if epoch % 2 else None
        broker.append("t", 0, values, keys=keys, timestamp_ms=epoch, writer="w", epoch=epoch)
        ends.append(path.stat().st_size)
    broker.close()
    died(path.parent)
    return path, ends


def died(shard: Path) -> None:
    """As if the process had not closed the log: there is no mark of a clean stop."""
    (shard / NAME).unlink(missing_ok=True)


def assert_holds(folder: Path, batches: int) -> None:
    """The log has its first `batches` batches, knows their epochs, and goes on from there."""
    broker = EmbeddedBroker(folder)
    expected = [value for values in BATCHES[:batches] for value in values]
    assert broker.end_offset("t", 0) == len(expected)
    assert broker.last_epoch("t", 0, "w") == (batches - 1 if batches else None)
    broker.append("t", 0, [b"next"], timestamp_ms=9, writer="w", epoch=batches)
    records = broker.read("t", 0, 0)
    assert records is not None
    assert records.values.to_pylist() == [*expected, b"next"]
    assert broker.topic("t").bytes == sum(
        path.stat().st_size for path in folder.glob("topics/t.topic/0/*.seg")
    )
    broker.close()
    died(folder / "topics" / "t.topic" / "0")


@pytest.mark.parametrize("rest", [b"", b"\0" * 100, b"\xff" * 9], ids=["cut", "zeros", "ones"])
def test_a_log_cut_at_any_byte_keeps_its_whole_batches(folder: Path, rest: bytes) -> None:
    path, ends = write_log(folder)
    content = path.read_bytes()
    for size in range(ends[0], ends[-1], 1 if not rest else 7):
        left = content[:size] + rest
        path.write_bytes(left)
        assert_holds(folder, sum(left[:end] == content[:end] for end in ends[1:]))


def test_a_flipped_bit_cuts_the_last_batch_and_is_an_error_anywhere_else(folder: Path) -> None:
    path, ends = write_log(folder)
    content = path.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        if position >= ends[-2]:
            assert_holds(folder, len(BATCHES) - 1)
            continue
        batch_start = max([0] + [end for end in ends if end <= position])
        broker = EmbeddedBroker(folder)
        with pytest.raises((CorruptSegment, UnknownFormat)) as error:
            broker.read("t", 0, 0)
        broker.close()
        assert str(path) in str(error.value)
        assert f"byte {batch_start}" in str(error.value) or isinstance(error.value, UnknownFormat)
        assert path.read_bytes() == damaged


@pytest.mark.parametrize("few", [1, small_batches.FEW])
def test_damage_in_an_older_segment_is_an_error_when_it_is_read(
    folder: Path, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_batches, "FEW", few)
    broker = EmbeddedBroker(folder, segment_bytes=300)
    broker.create_topic("t")
    for number in range(40):
        broker.append("t", 0, [b"%d" % number * 20], timestamp_ms=number)
    broker.close()
    files = sorted((folder / "topics" / "t.topic" / "0").glob("*.seg"))
    content = files[1].read_bytes()
    begins, ends = (int(path.name.split(".")[0]) for path in files[1:3])
    two_batches = 2 * 96
    cut = [content[:-size] for size in range(8, two_batches + 1, 8)]
    for damaged in (*cut, content[:-50] + b"?" + content[-49:]):
        files[1].write_bytes(damaged)
        broker = EmbeddedBroker(folder)
        for offset in (0, begins, ends - 1):
            with pytest.raises(CorruptSegment, match=files[1].name):
                broker.read("t", 0, offset, until=40)
        with pytest.raises(CorruptSegment, match=files[1].name):
            broker.offset_for_time("t", 0, ends - 1)
        assert broker.read("t", 0, ends) is not None
        broker.close()


def test_a_batch_within_a_torn_payload_is_no_batch(folder: Path) -> None:
    """Who appends the bytes of a log to a log must not make its torn end look like damage in the
    middle."""
    path, ends = write_log(folder)
    batch = path.read_bytes()[ends[0] : ends[1]]
    broker = EmbeddedBroker(folder)
    broker.create_topic("u")
    broker.append("u", 0, [batch * 10], timestamp_ms=0)
    broker.close()
    (other,) = (folder / "topics" / "u.topic" / "0").glob("*.seg")
    os.truncate(other, other.stat().st_size - 8)
    died(other.parent)
    broker = EmbeddedBroker(folder)
    assert broker.end_offset("u", 0) == 0
    broker.close()


def test_another_format_is_refused_with_the_remedy(folder: Path) -> None:
    path, _ = write_log(folder)
    content = path.read_bytes()
    path.write_bytes(content[:8] + b"\x07" + content[9:])
    with pytest.raises(UnknownFormat, match="has format 7, this version reads format 2") as error:
        read_first(folder)
    assert error.value.hint
    path.write_bytes(content)
    definition = folder / "topics" / "t.topic" / "topic.json"
    definition.write_bytes(definition.read_bytes().replace(b'"format":1', b'"format":3'))
    with pytest.raises(UnknownFormat, match="has format 3"):
        read_first(folder)


def read_first(folder: Path) -> None:
    broker = EmbeddedBroker(folder)
    try:
        broker.read("t", 0, 0)
    finally:
        broker.close()


def test_leftovers_of_a_crash_are_removed(folder: Path) -> None:
    path, _ = write_log(folder)
    (path.parent / "00000000000000000009.0000.tmp").write_bytes(b"half a head")
    (path.parent / "00000000000000000008.0000.seg").touch()
    (folder / "trash" / "gone").mkdir()
    assert_holds(folder, len(BATCHES))
    assert len(list(path.parent.iterdir())) == 1
    assert list((folder / "trash").iterdir()) == []


# Forks writers and kills each at a random moment. What a writer has told by its pipe was
# acknowledged.
KILLS = """
import os, random, signal, sys, time
from sqlengine.broker.embedded import EmbeddedBroker

folder, fsync, kills, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
chance = random.Random(seed)

def batch(epoch):
    size = random.Random(epoch)
    return [b"%d:%d:" % (epoch, row) + b"x" * size.choice((0, 10, 3000)) for row in range(size.choice((1, 5, 200)))]

def write(pipe):
    broker = EmbeddedBroker(folder, fsync=fsync, segment_bytes=1 << 20)
    broker.create_topic("t", if_not_exists=True)
    epoch = broker.last_epoch("t", 0, "w")
    while True:
        epoch = 0 if epoch is None else epoch + 1
        assert not broker.append("t", 0, batch(epoch), timestamp_ms=epoch, writer="w", epoch=epoch).duplicate
        broker.commit("g", "t", {0: epoch})
        os.write(pipe, epoch.to_bytes(8, "little"))

def live():
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write(theirs)
        finally:
            os._exit(1)
    os.close(theirs)
    told = os.read(ours, 8)
    time.sleep(chance.random() * 0.03)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(ours, 1 << 16):
        told = (told + more)[-8:]
    os.close(ours)
    return int.from_bytes(told, "little")

checked = offset = 0
for _ in range(kills):
    acknowledged = live()
    broker = EmbeddedBroker(folder, segment_bytes=1 << 20)
    last = broker.last_epoch("t", 0, "w")
    assert last in (acknowledged, acknowledged + 1), (last, acknowledged)
    assert broker.committed("g", "t")[0] in (acknowledged, acknowledged + 1)
    expected = b"".join(value for epoch in range(checked, last + 1) for value in batch(epoch))
    found = bytearray()
    while (records := broker.read("t", 0, offset)) is not None:
        found += b"".join(records.values.to_pylist())
        offset = records.next_offset
    assert found == expected
    checked = last + 1
    broker.close()
print(checked)
"""


@pytest.mark.parametrize(("fsync", "kills"), [("none", 20), ("epoch", 5)])
def test_killed_writers_lose_nothing_acknowledged(folder: Path, fsync: str, kills: int) -> None:
    command = [sys.executable, "-c", KILLS, str(folder), fsync, str(kills), "7"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= kills
