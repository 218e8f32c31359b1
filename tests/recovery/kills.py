"""Runs: lives of one data folder that are killed one after the other, one that ends by itself, and
the comparison of what came out with a run that nobody disturbs."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from sqlengine.system.durability import Checkpoints, Fsync
from tests.recovery import outcome
from tests.recovery.children import Kill, run_in_child
from tests.recovery.crash_injection import LastChange, PlannedCrash
from tests.recovery.life import live
from tests.recovery.outcome import Outputs, batches_of, compare
from tests.recovery.points import MOMENTS, POINTS, SERVER
from tests.recovery.server_users import Setting
from tests.recovery.tally import Place, Tally

# Of lives that are killed at no named place: so many changes, or so long after their start.
_MOST_CHANGES = 800
_MOST_S = 0.4
# Points that come all the time: not the first one is meant.
OFTEN = frozenset(
    {
        "append",
        "record",
        "group commit",
        "new segment",
        "sync",
        "part record",
        "rows between parts",
        "checkpoint of a part",
    }
)
# Kinds of servers, with the points that each does not have.
KINDS: tuple[tuple[Checkpoints, Fsync, frozenset[str]], ...] = (
    ("rocksdb", "none", frozenset({"topic checkpoint"})),
    ("topic", "epoch", frozenset({"checkpoint", "graph removed"})),
)

log = logging.getLogger(__name__)
Places = Iterable[tuple[str, str]]


def crash_at(chance: random.Random, point: str, moment: str, most: int = 10) -> PlannedCrash:
    """At which of the first `most` is drawn where there are many."""
    often = point in OFTEN or point.startswith("output")
    return PlannedCrash(point, chance.randint(1, most) if often else 1, moment)


class Run:
    """Of one folder. `seed` decides how its lives are disturbed and when they are killed, and the
    kind of server where that is not given."""

    fed: ClassVar[str] = "events"

    def __init__(self, folder: Path, tally: Tally, seed: int, kind: int | None = None) -> None:
        self.chance = random.Random(seed)
        store, fsync, _ = self.chance.choice(KINDS) if kind is None else KINDS[kind]
        self.setting = Setting(folder / "killed", store=store, fsync=fsync)
        self.tally = tally
        self.last = LastChange()

    def kill(self, most: int) -> None:
        """A life that is killed at any moment: from outside, or at a change that is drawn. `most`:
        no more kills than these."""
        draw = self.chance.random()
        if draw < 0.5:
            self._live(
                crash=PlannedCrash(
                    None, self.chance.randint(1, _MOST_CHANGES), self.chance.choice(MOMENTS)
                )
            )
        else:
            self._live(kill=Kill(self.chance.uniform(0.0, _MOST_S), when_ready=draw < 0.85))
        self.tally.count(Place(SERVER, *self.last.read()), named=False)

    def kill_at(self, point: str, moment: str) -> None:
        """A life that dies at the named point."""
        self._live(crash=crash_at(self.chance, point, moment))
        self.tally.count(Place(SERVER, point, moment), named=True)

    def seeded(self) -> Setting:
        """Of the next life."""
        return replace(self.setting, seed=self.chance.randrange(1 << 32))

    def _live(self, crash: PlannedCrash | None = None, kill: Kill | None = None) -> None:
        self.last.forget()
        setting = self.seeded()
        began = time.monotonic()
        ended = run_in_child(
            partial(live, setting, batches=None, crash=crash, last=self.last), kill
        )
        log.info(
            "%.1f s: %s, last seen at %s", time.monotonic() - began, crash or kill, self.last.read()
        )
        assert not ended, f"a life was not killed: {crash or kill}"

    def finish(self) -> None:
        """A last life that nobody kills, and the comparison with one that nobody disturbs at
        all."""
        killed, quiet = (
            self.setting,
            replace(self.setting, folder=self.setting.folder.with_name("quiet")),
        )
        self.live_last(killed)

        def live_quietly(say: int) -> None:
            batches = batches_of(killed.folder, self.fed)
            self.live_quietly(quiet, say, batches)

        def check(_: int) -> None:
            batches = batches_of(killed.folder, self.fed)
            compare(self.outputs(killed.folder, batches), self.outputs(quiet.folder, batches))

        run_in_child(live_quietly)
        run_in_child(check)

    def outputs(self, folder: Path, batches: int) -> Outputs:
        return outcome.outputs(folder, batches)

    def live_last(self, setting: Setting) -> None:
        run_in_child(
            partial(live, setting, batches=lambda begun: begun + 20, crash=None, last=self.last)
        )

    def live_quietly(self, setting: Setting, say: int, batches: int) -> None:
        live(setting, say, batches=lambda _: batches, crash=None, last=self.last)


def run_drawn(run: Run, kills: int) -> None:
    """So many kills at any moment. AssertionError where anything was lost or doubled."""
    while (left := kills - run.tally.kills) > 0:
        run.kill(left)
    run.finish()


def run_named(run: Run, places: Sequence[tuple[str, str]]) -> None:
    """A kill at each of these points and moments, in an order that is drawn. AssertionError where
    anything was lost or doubled, or a point was not met."""
    for point, moment in run.chance.sample(places, len(places)):
        if point == "recovery":  # of what was torn before
            run.kill_at("append", "within")
        run.kill_at(point, moment)
    run.finish()


def places_of(who: str, kind: int, places: Places) -> list[tuple[str, str]]:
    """Those that a server of that kind comes to."""
    return [place for place in places if place[0] in POINTS[who].keys() - KINDS[kind][2]]
