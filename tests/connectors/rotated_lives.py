"""Random lives of a log that is followed: its writer, what rotates it, and a reader that is
killed."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parser.errors import ExecutionError
from sqlengine.connectors.filesystem.opened import open_file
from tests.connectors.rotations import COMPRESSIONS, Log, Reader, followed

HEADERS: Final = ("", "id,name")
EVENTS: Final = (
    "write", "write", "write", "poll", "poll", "kill", "checkpoint", "rotate", "move", "reopen",
    "one by one", "compress 1", "compress 2", "copy", "copy and truncate", "copy late", "logrotate",
)  # fmt: skip


@dataclass(frozen=True)
class Habits:
    """How a log is written and rotated. `header`: the first line of all its files; `below`: the
    folder for older files, beside the log (logrotate's `olddir`), '' for none; `delays`: the newest
    of the older files is not compressed (`delaycompress`); `empties`: logrotate copies and empties
    (`copytruncate`)."""

    header: str = ""
    below: str = ""
    delays: bool = False
    empties: bool = False

    @staticmethod
    def drawn(chance: random.Random) -> Habits:
        """Draws habits."""
        return Habits(
            chance.choice(HEADERS),
            "",
            chance.random() < 0.5,
            chance.random() < 0.5,
        )


class Life:
    """A writer, a reader, and what happens to both. `unseen`: lines that were written between
    copying and emptying, and may be nowhere. `over`: what the reader has to repeat is nowhere."""

    def __init__(self, folder: Path, habits: Habits, chance: random.Random) -> None:
        self.chance, self.habits = chance, habits
        self.log = Log(folder / "app.log", habits.header, below=habits.below)
        for _ in range(chance.choice([0, 0, 2])):  # files of before the job, which are not read
            self.log.write()
            self.log.rotate()
            self.log.compress(1)
        self.log.written.clear()
        self.unseen: set[bytes] = set()
        if chance.random() < 0.7:
            self.log.write()
        self.reader = Reader(lambda: followed(self.log.path))
        self.reader.poll_all()
        self.reader.checkpoint()
        self.up, self.over = True, False

    def happens(self, event: str) -> None:
        """One of `EVENTS`."""
        log, (kind, _, number) = self.log, event.partition(" ")
        if event == "write":
            log.write(self.chance.randint(1, 4))
        elif kind == "compress":
            log.compress(int(number), self.chance.choice([*COMPRESSIONS]))
        elif event == "reopen":
            log.reopen()
        elif kind in ("rotate", "move", "copy", "logrotate"):
            self._rotates(event)
        else:
            self._reads(event)

    def _rotates(self, event: str) -> None:
        log = self.log
        if not log.path.exists():
            return
        if event == "rotate":
            log.rotate()
        elif event == "move":
            log.move()
        elif event == "logrotate":
            self._as_logrotate()
        else:
            log.reopen()
            # Of a copy that does not empty the log a first line alone tells nothing.
            if event == "copy" and log.path.read_bytes().count(b"\n") < 2 + bool(log.header):
                return
            log.copy()
        if event == "copy late":
            before = len(log.written)
            log.write(self.chance.randint(1, 2))
            self.unseen |= {*log.written[before:]}
            if self.up and self.chance.random() < 0.5:
                self.reader.poll(self.chance.choice([1, 9]))
            log.truncate()
        if event == "copy and truncate":
            if self.up and self.chance.random() < 0.5:
                self.reader.poll_all()
            log.truncate()

    def _as_logrotate(self) -> None:
        log, ending = self.log, self.chance.choice([*COMPRESSIONS])
        log.reopen()
        if self.habits.empties:
            log.copy()
            log.truncate()
        else:
            log.rotate()
        log.compress(1 + self.habits.delays, ending)

    def _reads(self, event: str) -> None:
        reader = self.reader
        if event == "kill":
            reader.kill() if self.up else self._recovers()
            self.up = not self.up
        elif self.up:
            reader.poll_all(1) if event == "one by one" else reader.poll(self.chance.choice([1, 9]))
            if event == "checkpoint":
                reader.checkpoint()

    def _recovers(self) -> None:
        """Recovers the reader; that fails only where what was read is in no file any more."""
        again = {line for epoch in self.reader.epochs for r in epoch.ranges for line in r[3]}
        try:
            self.reader.recover()
        except ExecutionError:
            gone = again - self._there()
            assert gone & self.unseen, (gone, self.habits)
            self.over = True

    def _files(self) -> list[Path]:
        return [p for p in self.log.path.parent.rglob("*") if p.is_file()]

    def _there(self) -> set[bytes]:
        """All lines that are in a file or an archive."""
        files = [file for p in self._files() if (file := open_file(str(p)))]
        data = [file.read(0, 1 << 20) for file in files]
        for file in files:
            file.close()
        return {line for one in data for line in one.splitlines()}

    def ends(self) -> list[bytes]:
        """Returns all that was read, but for headers."""
        self.log.reopen()
        if not self.up:
            self._recovers()
        if not self.over:
            self.reader.poll_all(self.chance.choice([1, 100]))
        self.log.close()
        self.reader.kill()
        return [line for line in self.reader.lines if line != self.habits.header.encode()]


def live(folder: Path, habits: Habits, events: Sequence[str], chance: random.Random) -> None:
    """Lives through the events, and asserts that every line came once."""
    life = Life(folder, habits, chance)
    for event in events:
        if not life.over:
            life.happens(event)
    read = Counter(life.ends())
    if life.over:
        return
    missing = {*life.log.written} - life.unseen - read.keys()
    again = [line for line, times in read.items() if times > 1]
    others = read.keys() - {*life.log.written}
    wrong = missing, again, others
    assert not any(wrong), (habits, events, wrong)


def live_at_random(folder: Path, seed: int) -> None:
    """Lives a random life in a new folder, which is removed when it was a good one."""
    chance = random.Random(seed)
    habits = Habits.drawn(chance)
    events = chance.choices(EVENTS, k=chance.randint(1, 25))
    folder.mkdir(parents=True)
    live(folder, habits, events, chance)
    shutil.rmtree(folder)
