"""Logs that are rotated while they are followed: every line once, whatever happens to files and to
the reader."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connectors.interleaved import Calls
from tests.connectors.rotated_lives import EVENTS, Habits, live, live_at_random
from tests.connectors.rotations import COMPRESSIONS, Log, Reader, followed
from tests.connectors.tables import Clock

_LIVES = 3000


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_line_comes_once(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    chance = random.Random(data.draw(st.integers(0, 1000)))
    happening = data.draw(st.lists(st.sampled_from(EVENTS), max_size=25))
    live(tmp_path_factory.mktemp("log"), Habits.drawn(chance), happening, chance)


@pytest.mark.slow
def test_every_line_comes_once_in_many_lives(tmp_path: Path) -> None:
    for seed in range(_LIVES):
        live_at_random(tmp_path / str(seed), seed)


def _begun(folder: Path, header: str = "") -> tuple[Log, Reader]:
    """A log of three lines, and its reader at a checkpoint."""
    log = Log(folder / "app.log", header)
    log.write(3)
    reader = Reader(lambda: followed(log.path))
    reader.poll_all()
    reader.checkpoint()
    return log, reader


def _do(log: Log, script: str) -> None:
    """Does what the words say, one after the other."""
    for word in script.split():
        if word == "write":
            log.write(2)
            continue
        if not log.path.exists():
            log.reopen()
        if word == "compress":
            log.compress(1)
        else:
            getattr(log, word)()


_SINCE = ["", "rotate", "write copy", "move write", "write copy truncate write"]
_MEANWHILE = [
    ("rotate", "write"), ("write rotate", "rotate write"), ("copy", "truncate write"),
    ("write copy", "truncate"), ("move write", "reopen"), ("compress", "write"),
]  # fmt: skip


def _reads_while(folder: Path, killed: bool, since: str, meanwhile: Mapping[int, str]) -> int:
    """A look at a log and a read, or a recovery. Between its calls something happens to the files.
    Returns the number of calls, and asserts that every line comes once."""
    log, reader = _begun(folder)
    log.write()
    reader.poll_all()
    if killed:
        reader.kill()
    _do(log, since)
    if killed and not log.path.exists():
        log.reopen()
    calls = Calls({number: partial(_do, log, script) for number, script in meanwhile.items()})
    with calls.counted():
        if killed:
            reader.recover()
        reader.poll()
        reader.poll()
    log.reopen()
    log.write()
    reader.poll_all()
    assert sorted(reader.lines) == sorted(log.written), (since, meanwhile)
    reader.kill()
    log.close()
    return calls.count


def _walk(folder: Path, killed: bool, chance: random.Random, points: int | None) -> None:
    """Reads with rotations before every call (`points` None), or before some."""
    for i, since in enumerate(_SINCE):
        for j, (first, second) in enumerate(_MEANWHILE):
            place = folder / f"{i}-{j}"
            (place / "none").mkdir(parents=True)
            count = _reads_while(place / "none", killed, since, {})
            whole = [{n: f"{first} {second}"} for n in range(count + 1)]
            pairs = [{n: first, m: second} for n in range(count) for m in range(n + 1, count + 1)]
            for k, meanwhile in enumerate(
                [*whole, *chance.sample(pairs, count)]
                if points is None
                else [*chance.sample(whole, points), *chance.sample(pairs, points)]
            ):
                (place / str(k)).mkdir()
                _reads_while(place / str(k), killed, since, meanwhile)


# Slow, since it traces all calls of its thread: that is for a process without much else.
@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True], ids=["up", "recovering"])
def test_rotations_between_two_calls_lose_and_repeat_nothing(tmp_path: Path, killed: bool) -> None:
    _walk(tmp_path, killed, random.Random(1), 1)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True], ids=["up", "recovering"])
def test_rotations_before_every_call_lose_and_repeat_nothing(tmp_path: Path, killed: bool) -> None:
    _walk(tmp_path, killed, random.Random(2), None)


@pytest.mark.slow
def test_a_file_that_is_emptied_while_it_is_read_again_is_found_in_its_copy(
    tmp_path: Path,
) -> None:
    for number in range(1, 60):
        (tmp_path / str(number)).mkdir()
        meanwhile = {number // 2: "copy", number: "truncate"}
        _reads_while(tmp_path / str(number), True, "", meanwhile)


def test_a_copy_without_an_emptied_file_is_not_read(tmp_path: Path) -> None:
    log, reader = _begun(tmp_path)
    for killed in (False, True, True):
        if killed:
            reader.kill()
        log.copy()  # and whoever copied it died
        log.write()
        log.copy()
        log.truncate()
        log.write(2)
        if killed:
            reader.recover()
        reader.poll_all()
        assert reader.lines == log.written
        reader.checkpoint()
    reader.kill()
    log.close()


def test_a_link_to_the_present_file_is_followed(tmp_path: Path) -> None:
    """As in Kubernetes: `current.log` is a link to `0.log`, which is rotated."""
    folder = tmp_path / "pod"
    folder.mkdir()
    log = Log(folder / "0.log")
    log.write(2)
    (tmp_path / "current.log").symlink_to(log.path)
    reader = Reader(lambda: followed(tmp_path / "current.log"))
    reader.poll_all()
    reader.checkpoint()
    for killed in (False, True):
        if killed:
            reader.kill()
        log.write()
        log.path.rename(folder / f"0.log.2026010{1 + killed}-000000")
        log.reopen()
        log.write(2)
        if killed:
            reader.recover()
        reader.poll_all()
        assert reader.lines == log.written
        reader.checkpoint()
    reader.kill()
    log.close()


@pytest.mark.parametrize("ending", [*COMPRESSIONS])
def test_rotations_while_nobody_reads_are_read_in_order(tmp_path: Path, ending: str) -> None:
    log = Log(tmp_path / "app.log")
    log.write(2)
    for _ in range(2):
        log.rotate()  # before the job: never read
        log.write(2)
    log.compress(2, ending)
    reader = Reader(lambda: followed(log.path))
    reader.poll_all()
    reader.checkpoint()
    reader.kill()
    assert reader.lines == log.written[-2:]
    log.write()
    for _ in range(3):
        log.rotate()
        log.write(3)
    for number in (1, 2, 3):
        log.compress(number, ending)
    reader.recover()
    reader.poll_all(2)
    assert reader.lines == log.written[4:]
    reader.kill()
    log.close()


def test_a_truncated_file_is_known_when_it_is_longer_again(tmp_path: Path) -> None:
    log, reader = _begun(tmp_path)
    for up in (True, False):
        log.write(2)
        if not up:
            reader.kill()
        log.copy()
        log.truncate()
        log.write(20)
        if not up:
            reader.recover()
        reader.poll_all(4)
        assert reader.lines == log.written
    reader.kill()
    log.close()


def test_a_rest_that_is_nowhere_is_told_and_the_job_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, reader = _begun(tmp_path)
    reader.kill()
    log.write(2)
    log.move()
    log.numbered(1).unlink()
    log.reopen()
    log.write(4)
    reader.recover()
    reader.poll_all()
    assert reader.lines == log.written[:3] + log.written[5:]
    (message,) = [r.getMessage() for r in caplog.records]
    assert f"what followed byte 21 of '{log.path}'" in message
    assert list(reader.positions.values()) == [28], "the position of the lost file is dropped"
    assert reader.source.lost() == 1
    reader.kill()
    log.close()


def test_an_inode_that_is_used_again_is_another_file(tmp_path: Path) -> None:
    log = Log(tmp_path / "app.log")
    reader = Reader(lambda: followed(log.path))
    for _ in range(20):
        log.write(2)
        reader.poll_all()
        reader.checkpoint()
        reader.kill()
        log.path.unlink()
        log.reopen()  # often under the inode of the file before
        log.write(3)
        reader.recover()
        reader.poll_all()
    assert reader.lines == log.written
    reader.kill()
    log.close()


def test_positions_of_an_older_version_are_read_on(tmp_path: Path) -> None:
    """They are those of paths, and say nothing of the file."""
    log = Log(tmp_path / "app.log")
    log.write(3)
    reader = Reader(lambda: followed(log.path))
    reader.positions = {str(log.path): 14}
    reader.source.resume(reader.positions, {})
    reader.poll_all()
    assert reader.lines == [b"line 2"]
    reader.checkpoint()
    reader.kill()
    log.rotate()
    log.write(2)
    reader.recover()
    reader.poll_all()
    assert reader.lines == log.written[2:]
    reader.kill()
    log.close()


def test_archives_in_a_watched_folder_are_no_data(tmp_path: Path) -> None:
    log, other = Log(tmp_path / "app.log"), Log(tmp_path / "web.log")
    log.write(2)
    log.rotate()
    log.write(2)
    other.path.write_bytes(b"of another log\n")
    clock = Clock()
    reader = Reader(lambda: followed(tmp_path, clock, monitor_interval="1 s"))
    reader.poll_all()
    reader.checkpoint()
    assert sorted(reader.lines) == sorted([*log.written, b"of another log"])
    log.compress(1)
    log.rotate()
    log.write(2)
    clock.now += 2000
    reader.poll_all()
    reader.kill()
    log.compress(1)
    log.path.rename(tmp_path / "put-away.txt")
    log.reopen()
    log.write()
    reader.recover()
    clock.now += 2000
    reader.poll_all()
    assert sorted(reader.lines) == sorted([*log.written, b"of another log"])
    reader.kill()
    log.close()
    other.close()


def _only_header(folder: Path) -> tuple[Log, Reader]:
    """A log of which nothing but a header is there, and was read, beside one of before."""
    log = Log(folder / "app.log", "id,name")
    log.write()
    log.rotate()
    log.compress(1)
    log.written.clear()
    reader = Reader(lambda: followed(log.path))
    reader.poll_all()
    reader.checkpoint()
    return log, reader


@pytest.mark.parametrize("killed", [False, True], ids=["up", "recovering"])
@pytest.mark.parametrize("rotation", ["copy truncate", "copy truncate compress", "rotate compress"])
def test_files_with_nothing_but_a_header_are_told_apart(
    tmp_path: Path, killed: bool, rotation: str
) -> None:
    log, reader = _only_header(tmp_path)
    if killed:
        reader.kill()
    for _ in range(2):
        _do(log, f"write {rotation} write")
    if killed:
        reader.recover()
    reader.poll_all()
    assert sorted(line for line in reader.lines if line != b"id,name") == sorted(log.written)
    assert reader.source.lost() == 0
    reader.kill()
    log.close()


def test_rows_that_were_seen_and_are_in_no_copy_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, reader = _begun(tmp_path, "id,name")
    log.copy()
    log.write(50)  # which the copy has not
    reader.poll(1)
    log.truncate()
    log.write(2)
    reader.poll_all()
    assert reader.lines[-2:] == log.written[-2:]
    assert len(reader.lines) == len({*reader.lines}) + 1, "the header, and no row, comes twice"
    assert reader.source.lost() == 1
    assert "was rotated away or truncated before it was read" in caplog.text
    reader.kill()
    log.close()


@pytest.mark.parametrize("killed", [False, True], ids=["up", "recovering"])
def test_a_link_that_is_switched_to_another_file_is_followed(tmp_path: Path, killed: bool) -> None:
    log, current = Log(tmp_path / "0.log"), tmp_path / "current.log"
    log.write(2)
    current.symlink_to(log.path)
    reader = Reader(lambda: followed(current))
    reader.poll_all()
    reader.checkpoint()
    if killed:
        reader.kill()
    log.write()
    (tmp_path / "1.log").write_bytes(b"of the next file\n")
    current.unlink()
    current.symlink_to(tmp_path / "1.log")
    if killed:
        reader.recover()
    reader.poll_all()
    assert reader.lines == [*log.written, b"of the next file"]
    reader.kill()
    log.close()


@pytest.mark.parametrize("killed", [False, True], ids=["up", "recovering"])
def test_files_in_another_folder_are_read_while_they_are_open(tmp_path: Path, killed: bool) -> None:
    log = Log(tmp_path / "app.log", below="old")
    log.write(2)
    reader = Reader(lambda: followed(log.path))
    reader.poll_all()
    reader.checkpoint()
    if killed:
        reader.kill()
    log.write()
    log.rotate()
    log.write(2)
    if killed:
        reader.recover()
    reader.poll_all()
    unread = log.written[2:3] if killed else []
    assert reader.lines == [line for line in log.written if line not in unread]
    assert reader.source.lost() == len(unread)
    reader.kill()
    log.close()
