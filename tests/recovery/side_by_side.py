"""Runs in processes of their own, some of them at a time, each in a folder of its own; and where
they are."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from tests.recovery.tally import Tally

_TALLY = "tally.json"


@dataclass(frozen=True)
class Planned:
    """A run that is to be: what it is called, how many kills there are in it, and what it does in a
    folder. `named`: kills at any moment, which come beside those at points, are not counted."""

    name: str
    kills: int
    work: Callable[[Path, Tally], None]
    named: bool


@dataclass
class _Running:
    planned: Planned
    folder: Path
    pid: int
    began: float = field(default_factory=time.monotonic)

    @property
    def tally(self) -> Tally:
        return Tally(self.folder / _TALLY)

    @property
    def done(self) -> int:
        tally = self.tally
        return min(tally.named.total() if self.planned.named else tally.kills, self.planned.kills)


class SideBySide:
    """`tally` adds up those that have ended well; the folders of others are left. `tell_s`: so
    often it is said how far all is."""

    def __init__(self, planned: Sequence[Planned], jobs: int, tally: Tally, tell_s: float) -> None:
        self.failed: list[str] = []
        self._planned = planned
        self._jobs = jobs
        self._tally = tally
        self._tell_s = tell_s
        self._began = time.monotonic()
        self._done = 0
        self._waiting = list(planned)
        self._running: dict[int, _Running] = {}

    def go(self) -> None:
        told = self._began
        while self._waiting or self._running:
            while self._waiting and len(self._running) < self._jobs:
                run = _start(self._waiting.pop(0))
                self._running[run.pid] = run
            self._end_those_that_have()
            if time.monotonic() - told >= self._tell_s:
                told = time.monotonic()
                self._tell()
            time.sleep(0.05)
        self._tally.wall_s += time.monotonic() - self._began
        self._tally.save()

    def _end_those_that_have(self) -> None:
        for run in list(self._running.values()):
            pid, status, used = os.wait4(run.pid, os.WNOHANG)
            if pid:
                del self._running[pid]
                self._end(run, status == 0, used)

    def _end(self, run: _Running, well: bool, used: resource.struct_rusage) -> None:
        tally, seconds = run.tally, time.monotonic() - run.began
        tally.cpu_s = used.ru_utime + used.ru_stime
        self._done += run.planned.kills
        if well:
            self._tally.add(tally)
            shutil.rmtree(run.folder, ignore_errors=True)
        else:
            self.failed.append(run.planned.name)
        how = "" if well else f"FAILED; what is left is in {run.folder}; "
        _say(
            f"{run.planned.name}: {how}{tally.kills} kills, {seconds:.0f} s, {tally.cpu_s:.0f} s of"
            " processors"
        )

    def _tell(self) -> None:
        """How many kills there were of how many, and about how long it will take; what runs now."""
        every, seconds = sum(p.kills for p in self._planned), time.monotonic() - self._began
        there = {r.planned.name: r.done for r in self._running.values()}
        done = self._done + sum(there.values())
        left = f", about {seconds / done * (every - done):.0f} s left" if done else ""
        now = "; ".join(
            f"{r.planned.name}: {there[r.planned.name]} of {r.planned.kills}"
            for r in self._running.values()
        )
        _say(
            f"{done} of {every} kills after {seconds:.0f} s{left}; {len(self.failed)} failures;"
            f" {now}"
        )


def _say(text: str) -> None:
    print(text, flush=True)


def _start(planned: Planned) -> _Running:
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    pid = os.fork()
    if pid == 0:
        _run(planned, folder)
    return _Running(planned, folder, pid)


def _run(planned: Planned, folder: Path) -> NoReturn:
    code = 1
    try:
        planned.work(folder, Tally(folder / _TALLY))
        code = 0
    except AssertionError as error:
        _say(f"{planned.name}: {error}")
    except BaseException:  # noqa: BLE001  the process ends here, and says why
        traceback.print_exc()
    finally:
        os._exit(code)
