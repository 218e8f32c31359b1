"""Runs of a server with instances: lives of it in which instances are killed, each ended by a kill
of the server; one that ends by itself; and the comparison with a run without parts that nobody
disturbs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from tests.recovery import outcome_in_parts
from tests.recovery.children import run_in_child
from tests.recovery.crew import Setting
from tests.recovery.kills import Run, doom_at, log
from tests.recovery.life_in_parts import Instances, live
from tests.recovery.mortal import Doom
from tests.recovery.mortal_instance import Lives, run_instance
from tests.recovery.nursery import Nursery
from tests.recovery.outcome import Outputs
from tests.recovery.points import INSTANCE, LEADER, MOMENTS
from tests.recovery.tally import Place, Tally
from tests.support import PATIENCE_S

# So many instances have a doom in a life of their server: who dies again and again is started later
# each time.
_DOOMS = 6
_MOST_CHANGES = 150
_MOST_FORKED = 200
_LONGEST_S = 30.0
_TRIALS = 10  # lives in which no instance came to its doom
_ENDED = frozenset({"instance leaves", "part given up"})


class RunInParts(Run):
    """Of one folder: instances are killed in each life of a server before it is killed itself."""

    fed: ClassVar[str] = "readings"

    def __init__(self, folder: Path, tally: Tally, seed: int, kind: int | None = None) -> None:
        super().__init__(folder, tally, seed, kind)
        self._lives = Lives(_MOST_FORKED)

    def kill(self, most: int) -> None:
        """Kills of instances, and one of the server, at any moment: half of the servers die at a
        change."""
        chance, count = self.chance, min(_DOOMS, max(1, most - 1))
        dooms = [
            Doom(None, chance.randint(1, _MOST_CHANGES), chance.choice(MOMENTS))
            for _ in range(count // 2)
        ]
        doom = (
            Doom(None, chance.randint(1, _MOST_CHANGES), chance.choice(MOMENTS))
            if chance.random() < 0.5
            else None
        )
        self._live_with(dooms, count, kills=count, doom=doom)
        self._count_instances()
        self.tally.count(Place(LEADER, *self.last.read()), named=False)

    def kill_instances_at(self, places: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Instances that die at the named points, one after the other; those places that none of
        them came to."""
        self._live_with(
            [doom_at(self.chance, *place, most=3) for place in places], len(places), kills=0
        )
        met = [place for number, place in enumerate(places) if self._lives.marked(number)]
        for place in met:
            self.tally.count(Place(INSTANCE, *place), named=True)
        self.tally.count(Place(LEADER, *self.last.read()), named=False)
        return [place for place in places if place not in met]

    def kill_at(self, point: str, moment: str) -> None:
        """A server that dies at the named point; some while instances are killed, too."""
        self._live_with(
            [], 0, kills=self.chance.choice((0, 0, 3)), doom=doom_at(self.chance, point, moment)
        )
        self._count_instances()
        self.tally.count(Place(LEADER, point, moment), named=True)

    def _count_instances(self) -> None:
        for number in self._lives.killed:
            self.tally.count(Place(INSTANCE, *self._lives.last(number).read()), named=False)

    def _live_with(
        self, dooms: Sequence[Doom], count: int, *, kills: int, doom: Doom | None = None
    ) -> None:
        """Until so many instances have been killed; then the server is, at its doom if it has
        one."""
        self._lives.forget()
        self.last.forget()
        began = time.monotonic()
        calm = () if dooms or kills else range(_MOST_FORKED)
        spared = frozenset(
            (*calm, *(number for number, each in enumerate(dooms) if each.point not in _ENDED))
        )
        instances = Instances(
            Nursery(partial(run_instance, self._lives, dooms)), self._lives, spared, kills, doom
        )
        setting = self.seeded()
        server = os.fork()
        if server == 0:
            try:
                out = os.open(os.devnull, os.O_WRONLY)
                live(setting, out, batches=None, last=self.last, instances=instances)
            finally:
                os._exit(1)
        self._see_die(server, instances, count)
        log.info("%.1f s: %s, %s, %s", time.monotonic() - began, doom, dooms, self.last.read())

    def _see_die(self, server: int, instances: Instances, count: int) -> None:
        instances.nursery.leave()
        ends = time.monotonic() + _LONGEST_S
        while len(self._lives.killed) < count and time.monotonic() < ends:
            self._look(server)
            time.sleep(0.01)
        self._lives.let_go()
        ended = False
        if instances.doom is not None:
            while not (ended := self._look(server)):
                assert time.monotonic() < ends + PATIENCE_S, (
                    f"a server was not killed: {instances.doom}"
                )
                time.sleep(0.01)
        if not ended:
            time.sleep(self.chance.uniform(0.0, 0.4))
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
        os.waitpid(instances.nursery.pid, 0)

    @staticmethod
    def _look(server: int) -> bool:
        """Whether the server has met its doom. AssertionError when it has ended otherwise."""
        ended, status = os.waitpid(server, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if ended else 0
        assert code in (0, -signal.SIGKILL), f"a life ended with {code}"
        return ended != 0

    def outputs(self, folder: Path, batches: int) -> Outputs:
        return outcome_in_parts.outputs(folder, batches)

    def live_last(self, setting: Setting) -> None:
        self._lives.forget()
        instances = Instances(Nursery(partial(run_instance, self._lives, ())), self._lives)
        last = partial(
            live, setting, batches=lambda begun: begun + 4, last=self.last, instances=instances
        )
        try:
            run_in_child(last, before=instances.nursery.leave)
        finally:
            os.waitpid(instances.nursery.pid, 0)

    def live_quietly(self, setting: Setting, say: int, batches: int) -> None:
        live(setting, say, batches=lambda _: batches, last=self.last)


def run_instances_named(run: RunInParts, places: Sequence[tuple[str, str]]) -> None:
    """A kill of an instance at each of these points and moments. AssertionError where anything was
    lost or doubled, or, that known, a point was not met."""
    # Those for which instances are ended come last: they need some that live for a while.
    left = sorted(run.chance.sample(places, len(places)), key=lambda place: place[0] in _ENDED)
    in_vain = 0
    while left and in_vain < _TRIALS:
        before, left = len(left), [*left[_DOOMS:], *run.kill_instances_at(left[:_DOOMS])]
        in_vain = in_vain + 1 if len(left) == before else 0
    run.finish()
    assert not left, f"instances did not come to die: {left}"
