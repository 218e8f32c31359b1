"""Dead letters that cannot be written for now wait, with their graph: they are no job's table, and
nobody could write them later."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from parser.errors import ServiceError, TryAgain
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.machine import THIS
from sqlengine.system.disk import MachineDisk
from tests.engine.by_hand import EVENTS, die, next_life, of_job, step


class SickDisk(MachineDisk):
    """While it is `sick`, the file of dead letters cannot be written, for another reason than
    space."""

    sick = False

    def __init__(self) -> None:
        self._letters: set[int] = set()

    def open(
        self, path: Path, *, make: bool = False, empty: bool = False, mode: int = 0o600
    ) -> int:
        file = super().open(path, make=make, empty=empty, mode=mode)
        (self._letters.add if "_dead_letters.topic" in path.parts else self._letters.discard)(file)
        return file

    def pwritev(self, file: int, parts: Sequence[bytes], position: int) -> int:
        if self.sick and file in self._letters:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().pwritev(file, parts, position)


@pytest.fixture
def disk() -> SickDisk:
    return SickDisk()


@pytest.fixture
def engine(tmp_path: Path, disk: SickDisk) -> Iterator[Engine]:
    engine = opened(tmp_path, disk)
    engine.submit("tables", EVENTS)
    engine.submit("good", "INSERT INTO outs SELECT 'good', id FROM events")
    yield engine
    engine.close()


def opened(folder: Path, disk: SickDisk) -> Engine:
    engine = Engine(Config(data=folder / "data", checkpoint_ms=1 << 60), replace(THIS, disk=disk))
    for topic in ("events", "out"):
        engine.broker.create_topic(topic, if_not_exists=True)
    return engine


def write(engine: Engine, number: int) -> None:
    """Writes a row, and a record that the table cannot read."""
    lines = [json.dumps({"id": number, "ms": number}).encode(), b"bad %d" % number]
    engine.broker.append("events", 0, lines, timestamp_ms=0)


def letters(engine: Engine) -> list[str]:
    records = engine.broker.read("_dead_letters", 0, 0)
    values = [] if records is None else records.values.to_pylist()
    return [json.loads(value)["payload"] for value in values]


def test_dead_letters_wait_until_they_can_be_written(engine: Engine, disk: SickDisk) -> None:
    disk.sick = True
    write(engine, 0)
    with pytest.raises(TryAgain, match="dead letters cannot be written now"):
        step(engine)
    assert of_job(engine, "good") == [0]
    with pytest.raises(ServiceError):  # a change waits for them, as for a full disk
        engine.submit("late", "INSERT INTO outs SELECT 'late', id FROM events")
    disk.sick = False
    step(engine)
    engine.submit("late", "INSERT INTO outs SELECT 'late', id FROM events")
    write(engine, 1)
    step(engine)
    assert letters(engine) == ["bad 0", "bad 1"]
    assert of_job(engine, "good") == [0, 1]


def test_a_crash_meanwhile_loses_no_dead_letter(
    engine: Engine, disk: SickDisk, tmp_path: Path
) -> None:
    disk.sick = True
    write(engine, 0)
    with pytest.raises(TryAgain):
        step(engine)
    die(engine)
    disk.sick = False
    with next_life(engine, replace(THIS, disk=disk)) as risen:
        write(risen, 1)
        step(risen)
        assert letters(risen) == ["bad 0", "bad 1"]
