"""Runs of a server with instances: lives of it in which instances are killed, each ended by a kill
of the server; one that ends by itself; and the comparison with a run without subtasks that nobody
disturbs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from tests.recovery import cluster_outcome
from tests.recovery.children import run_in_child
from tests.recovery.cluster_life import Instances, live
from tests.recovery.crash_injection import PlannedCrash
from tests.recovery.crashing_instance import InstanceProcesses, run_instance
from tests.recovery.fork_server import ForkServer
from tests.recovery.kills import Run, crash_at, log
from tests.recovery.outcome import Outputs
from tests.recovery.points import INSTANCE, LEADER, MOMENTS
from tests.recovery.server_users import Setting
from tests.recovery.tally import Place, Tally
from tests.support import PATIENCE_S

# So many instances have a planned crash in a life of their server: who dies again and again is started later
# each time.
_DOOMS = 6
_MOST_CHANGES = 150
_MOST_FORKED = 200
_LONGEST_S = 30.0
_TRIALS = 10  # lives in which no instance came to its planned crash
_ENDED = frozenset({"instance leaves", "part given up"})


class ClusterRun(Run):
    """Of one folder: instances are killed in each life of a server before it is killed itself."""

    fed: ClassVar[str] = "readings"

    def __init__(self, folder: Path, tally: Tally, seed: int, kind: int | None = None) -> None:
        super().__init__(folder, tally, seed, kind)
        self._lives = InstanceProcesses(_MOST_FORKED)

    def kill(self, most: int) -> None:
        """Kills of instances, and one of the server, at any moment: half of the servers die at a
        change."""
        chance, count = self.chance, min(_DOOMS, max(1, most - 1))
        crashes = [
            PlannedCrash(None, chance.randint(1, _MOST_CHANGES), chance.choice(MOMENTS))
            for _ in range(count // 2)
        ]
        crash = (
            PlannedCrash(None, chance.randint(1, _MOST_CHANGES), chance.choice(MOMENTS))
            if chance.random() < 0.5
            else None
        )
        self._live_with(crashes, count, kills=count, crash=crash)
        self._count_instances()
        self.tally.count(Place(LEADER, *self.last.read()), named=False)

    def kill_instances_at(self, places: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Instances that die at the named points, one after the other; those places that none of
        them came to."""
        self._live_with(
            [crash_at(self.chance, *place, most=3) for place in places], len(places), kills=0
        )
        met = [place for number, place in enumerate(places) if self._lives.marked(number)]
        for place in met:
            self.tally.count(Place(INSTANCE, *place), named=True)
        self.tally.count(Place(LEADER, *self.last.read()), named=False)
        return [place for place in places if place not in met]

    def kill_at(self, point: str, moment: str) -> None:
        """A server that dies at the named point; some while instances are killed, too."""
        self._live_with(
            [], 0, kills=self.chance.choice((0, 0, 3)), crash=crash_at(self.chance, point, moment)
        )
        self._count_instances()
        self.tally.count(Place(LEADER, point, moment), named=True)

    def _count_instances(self) -> None:
        for number in self._lives.killed:
            self.tally.count(Place(INSTANCE, *self._lives.last(number).read()), named=False)

    def _live_with(
        self,
        crashes: Sequence[PlannedCrash],
        count: int,
        *,
        kills: int,
        crash: PlannedCrash | None = None,
    ) -> None:
        """Until so many instances have been killed; then the server is, at its planned crash if it has
        one."""
        self._lives.forget()
        self.last.forget()
        began = time.monotonic()
        calm = () if crashes or kills else range(_MOST_FORKED)
        spared = frozenset(
            (*calm, *(number for number, each in enumerate(crashes) if each.point not in _ENDED))
        )
        instances = Instances(
            ForkServer(partial(run_instance, self._lives, crashes)),
            self._lives,
            spared,
            kills,
            crash,
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
        log.info("%.1f s: %s, %s, %s", time.monotonic() - began, crash, crashes, self.last.read())

    def _see_die(self, server: int, instances: Instances, count: int) -> None:
        instances.fork_server.leave()
        ends = time.monotonic() + _LONGEST_S
        while len(self._lives.killed) < count and time.monotonic() < ends:
            self._look(server)
            time.sleep(0.01)
        self._lives.let_go()
        ended = False
        if instances.crash is not None:
            while not (ended := self._look(server)):
                assert time.monotonic() < ends + PATIENCE_S, (
                    f"a server was not killed: {instances.crash}"
                )
                time.sleep(0.01)
        if not ended:
            time.sleep(self.chance.uniform(0.0, 0.4))
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
        os.waitpid(instances.fork_server.pid, 0)

    @staticmethod
    def _look(server: int) -> bool:
        """Whether the server has met its planned crash. AssertionError when it has ended otherwise."""
        ended, status = os.waitpid(server, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if ended else 0
        assert code in (0, -signal.SIGKILL), f"a life ended with {code}"
        return ended != 0

    def outputs(self, folder: Path, batches: int) -> Outputs:
        return cluster_outcome.outputs(folder, batches)

    def live_last(self, setting: Setting) -> None:
        self._lives.forget()
        instances = Instances(ForkServer(partial(run_instance, self._lives, ())), self._lives)
        last = partial(
            live, setting, batches=lambda begun: begun + 4, last=self.last, instances=instances
        )
        try:
            run_in_child(last, before=instances.fork_server.leave)
        finally:
            os.waitpid(instances.fork_server.pid, 0)

    def live_quietly(self, setting: Setting, say: int, batches: int) -> None:
        live(setting, say, batches=lambda _: batches, last=self.last)


def run_instances_named(run: ClusterRun, places: Sequence[tuple[str, str]]) -> None:
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
