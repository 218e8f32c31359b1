"""Runs: lives of one data folder that are killed one after the other, one that ends by itself, and the comparison of what
came out with a run that nobody disturbs."""

from __future__ import annotations

import json
import logging
import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from sqlengine.durability import Checkpoints, Fsync
from tests.recovery.children import Kill, run_in_child
from tests.recovery.life import Settings, live
from tests.recovery.mortal import MOMENTS, POINTS, Doom, LastChange
from tests.recovery.outcome import batches_of, check

# Of lives that are killed at no named place: so many changes, or so long after their start.
_MOST_CHANGES = 800
_MOST_S = 0.4
# Points that come all the time: not the first one is meant.
_OFTEN = frozenset(
    {"append", "record", "group commit", "new segment", "sync", *(p for p in POINTS if p[:6] == "output")}
)
# Where each of the points is met that not every server has.
_KINDS: tuple[tuple[Checkpoints, Fsync, frozenset[str]], ...] = (
    ("rocksdb", "none", frozenset({"topic checkpoint"})),
    ("topic", "epoch", frozenset({"checkpoint", "graph removed"})),
)

log = logging.getLogger(__name__)
Places = Iterable[tuple[str, str]]


@dataclass
class Tally:
    """Kills by point and moment: those that were named, and what the others had changed last."""

    named: Counter[tuple[str, str]] = field(default_factory=Counter)
    drawn: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def kills(self) -> int:
        return self.named.total() + self.drawn.total()

    def add(self, other: Tally) -> None:
        self.named += other.named
        self.drawn += other.drawn

    def save(self, file: Path) -> None:
        kinds = [[[*place, count] for place, count in kind.items()] for kind in (self.named, self.drawn)]
        file.write_text(json.dumps(kinds))

    @classmethod
    def load(cls, file: Path) -> Tally:
        """What was saved; nothing where there is no file."""
        kinds = json.loads(file.read_text()) if file.exists() else [[], []]
        named, drawn = (Counter({(point, moment): count for point, moment, count in kind}) for kind in kinds)
        return cls(named, drawn)


class Run:
    """Of one folder. `chance` decides how its lives are disturbed and when they are killed."""

    def __init__(self, folder: Path, chance: random.Random, store: Checkpoints, fsync: Fsync) -> None:
        self._chance = chance
        self._settings = Settings(folder / "killed", store=store, fsync=fsync)
        self._last = LastChange()
        self.tally = Tally()

    def kill(self) -> None:
        """A life that is killed at any moment: from outside, or at a change that is drawn."""
        draw = self._chance.random()
        if draw < 0.5:
            self._live(doom=Doom(None, self._chance.randint(1, _MOST_CHANGES), self._chance.choice(MOMENTS)))
        else:
            self._live(kill=Kill(self._chance.uniform(0.0, _MOST_S), when_ready=draw < 0.85))
        self.tally.drawn[self._last.read() or ("start", "")] += 1

    def kill_at(self, point: str, moment: str) -> None:
        """A life that dies at the named point; at which of the first ones is drawn."""
        number = self._chance.randint(1, 10) if point in _OFTEN else 1
        self._live(doom=Doom(point, number, moment))
        self.tally.named[point, moment] += 1

    def _live(self, doom: Doom | None = None, kill: Kill | None = None) -> None:
        self._last.forget()
        settings = replace(self._settings, seed=self._chance.randrange(1 << 32))
        began = time.monotonic()
        ended = run_in_child(partial(live, settings, batches=None, doom=doom, last=self._last), kill)
        log.info("%.1f s: %s, last seen at %s", time.monotonic() - began, doom or kill, self._last.read())
        assert not ended, f"a life was not killed: {doom or kill}"

    def finish(self) -> None:
        """A last life that nobody kills, and the comparison with one that nobody disturbs at all."""
        killed, quiet = self._settings, replace(self._settings, folder=self._settings.folder.with_name("quiet"))
        run_in_child(partial(live, killed, batches=lambda begun: begun + 20, doom=None, last=self._last))
        run_in_child(partial(_live_quietly, quiet, killed.folder, self._last))
        run_in_child(lambda _: check(killed.folder, quiet.folder))


def _live_quietly(settings: Settings, killed: Path, last: LastChange, say: int) -> None:
    batches = batches_of(killed)
    live(settings, say, batches=lambda _: batches, doom=None, last=last)


def run_drawn(folder: Path, kills: int, seed: int) -> Tally:
    """So many kills at any moment. AssertionError where anything was lost or doubled."""
    chance = random.Random(seed)
    store, fsync, _ = chance.choice(_KINDS)
    run = Run(folder, chance, store, fsync)
    for _ in range(kills):
        run.kill()
    run.finish()
    return run.tally


def run_named(folder: Path, places: Places, seed: int) -> Tally:
    """A kill at each of these points and moments, in an order that is drawn, in servers of each kind that meets them.
    AssertionError where anything was lost or doubled, or a point was not met."""
    chance, tally = random.Random(seed), Tally()
    for store, fsync, never in _KINDS:
        mine = [place for place in places if place[0] in POINTS.keys() - never]
        run = Run(folder / store, chance, store, fsync)
        for point, moment in chance.sample(mine, len(mine)):
            if point == "recovery":  # of what was torn before
                run.kill_at("append", "within")
            run.kill_at(point, moment)
        run.finish()
        tally.add(run.tally)
    return tally
