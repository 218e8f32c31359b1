"""Runs of a server with instances: lives of it in which instances are killed, each ended by a kill of the server; one that
ends by itself; and the comparison with a run without parts that nobody disturbs."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.recovery.children import run_in_child
from tests.recovery.in_parts import Setting, batches_of, check, live
from tests.recovery.kills import Tally
from tests.recovery.mortal import MOMENTS, PART_POINTS, Doom, LastChange
from tests.recovery.mortal_instance import Lives, run_instance
from tests.recovery.nursery import Nursery

# So many instances have a doom in a life of their server: who dies again and again is started later each time.
_DOOMS = 6
_MOST_CHANGES = 150
_MOST_FORKED = 200
_LONGEST_S = 30.0
_TRIALS = 10
# Points that come all the time: not the first one is meant.
_OFTEN = frozenset({"part record", "rows between parts", "output of a part", "checkpoint of a part"})
_ENDED = frozenset({"instance leaves", "part given up"})


class RunInParts:
    """Of one folder. `chance` decides how its lives are disturbed, and which instances are killed when."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._chance = chance
        self._setting = Setting(folder / "killed")
        self._last = LastChange()
        self._lives = Lives(_MOST_FORKED)
        self.tally = Tally()

    def kill(self, count: int) -> None:
        """So many kills of instances, and one of the server, at any moment."""
        chance = self._chance
        dooms = [Doom(None, chance.randint(1, _MOST_CHANGES), chance.choice(MOMENTS)) for _ in range(count // 2)]
        self._live(dooms, count, kills=True)
        for number in range(_MOST_FORKED):
            if self._lives.marked(number):
                self.tally.drawn[self._lives.last(number).read() or ("start", "")] += 1

    def kill_at(self, places: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Instances that die at the named points, one after the other; those places that none of them came to."""
        chance = self._chance
        dooms = [Doom(p, chance.randint(1, 6) if p in _OFTEN else 1, moment) for p, moment in places]
        self._live(dooms, len(places), kills=False)
        met = [place for number, place in enumerate(places) if self._lives.marked(number)]
        self.tally.named.update(met)
        return [place for place in places if place not in met]

    def _live(self, dooms: Sequence[Doom], count: int, *, kills: bool) -> None:
        """Until so many instances have been killed; then the server is."""
        self._lives.forget()
        self._last.forget()
        spared = frozenset(number for number, doom in enumerate(dooms) if doom.point not in _ENDED)
        setting = replace(self._setting, seed=self._chance.randrange(1 << 32), spared=spared, kills=kills)

        def enough() -> bool:
            return sum(map(self._lives.marked, range(_MOST_FORKED))) >= count

        self._in_child(setting, dooms, enough)
        self.tally.drawn[self._last.read() or ("start", "")] += 1

    def _in_child(self, setting: Setting, dooms: Sequence[Doom], enough: Callable[[], bool]) -> None:
        nursery = Nursery(partial(run_instance, self._lives, dooms))
        server = os.fork()
        if server == 0:
            try:
                out = os.open(os.devnull, os.O_WRONLY)
                live(setting, out, batches=None, last=self._last, nursery=nursery, lives=self._lives)
            finally:
                os._exit(1)
        nursery.leave()
        ends = time.monotonic() + _LONGEST_S
        while not enough() and time.monotonic() < ends:
            ended, status = os.waitpid(server, os.WNOHANG)
            assert not ended, f"a life ended with {os.waitstatus_to_exitcode(status)}"
            time.sleep(0.01)
        time.sleep(self._chance.uniform(0.0, 0.4))
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
        os.waitpid(nursery.pid, 0)

    def finish(self) -> None:
        """A last life that nobody kills, and the comparison with one without parts that nobody disturbs at all."""
        killed, quiet = self._setting, Setting(self._setting.folder.with_name("quiet"), instances=0)
        self._lives.forget()
        nursery = Nursery(partial(run_instance, self._lives, ()))
        last = partial(live, killed, batches=lambda begun: begun + 4, last=self._last, nursery=nursery)
        try:
            run_in_child(last, before=nursery.leave)
        finally:
            os.waitpid(nursery.pid, 0)
        run_in_child(partial(_live_quietly, quiet, killed.folder, self._last))
        run_in_child(lambda _: check(killed.folder, quiet.folder))


def _live_quietly(setting: Setting, killed: Path, last: LastChange, say: int) -> None:
    batches = batches_of(killed)
    live(setting, say, batches=lambda _: batches, last=last)


def run_parts_drawn(folder: Path, kills: int, seed: int) -> Tally:
    """So many kills at any moment, of instances and of their server. AssertionError where anything was lost or doubled."""
    run = RunInParts(folder, random.Random(seed))
    while (left := kills - run.tally.kills) > 0:
        run.kill(min(_DOOMS, max(1, left - 1)))
    run.finish()
    return run.tally


def run_parts_named(folder: Path, places: Iterable[tuple[str, str]], seed: int) -> Tally:
    """A kill of an instance at each of these points and moments. AssertionError where anything was lost or doubled, or a
    point was not met."""
    chance = random.Random(seed)
    mine = [place for place in places if place[0] in PART_POINTS]
    run = RunInParts(folder, chance)
    # Those for which instances are ended come last: they need some that live for a while.
    left = sorted(chance.sample(mine, len(mine)), key=lambda place: place[0] in _ENDED)
    for _ in range(_TRIALS + len(mine) // _DOOMS):
        left = [*left[_DOOMS:], *run.kill_at(left[:_DOOMS])] if left else left
    assert not left, f"instances did not come to die: {left}"
    run.finish()
    return run.tally
