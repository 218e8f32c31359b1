"""Broker and subtasks die together, at any change of the disk, by the end of the process or a loss of
power: by seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.system.durability import Fsync
from tests.simulation.disk import SimulatedDisk
from tests.simulation.threads import SimulatedThreads
from tests.simulation.world import Death, World
from tests.subtasks.group import START, Group, Stores
from tests.subtasks.test_schedules import ACTIONS, EXPECTED, JOB, PARALLELISM, events, left

DEATHS = 5
SEEDS = [pytest.param(seed, marks=[] if seed < 1 else [pytest.mark.slow]) for seed in range(40)]


@dataclass
class _Server:
    """What outlives a process: its disk, its checkpoints. `left`: so many changes of the disk until
    it dies."""

    world: World
    power: bool
    left: int = 0
    stores: Stores = field(default_factory=Stores)

    def __post_init__(self) -> None:
        self.disk = SimulatedDisk(self.world, "server", self._dies)

    def _dies(self) -> bool:
        self.left -= 1
        return self.left == 0

    def start(self) -> Group:
        threads = SimulatedThreads(self.world)
        fsync: Fsync = "epoch" if self.power else "none"
        broker = EmbeddedBroker(
            Path("/topics"),
            fsync=fsync,
            clock=lambda: START,
            segment_bytes=8_000,
            disk=self.disk,
            threads=threads,
        )
        return Group(broker, PARALLELISM, rows_per_read=3, stores=self.stores, threads=threads)

    def end(self) -> None:
        if self.power:
            self.disk.lose_power(wild=True)
        else:
            self.disk.end_process()


def _live(group: Group, chance: Random, actions: int | None) -> None:
    """Opens the subtasks and gives the job to those that have not got it yet; then so many actions, or
    all that there is to do."""
    group.plans[JOB.name, 1] = JOB
    group.start()
    for subtask in group.open.values():
        if not subtask.runner.jobs:
            subtask.switch(
                subtask.prepare(subtask.runner.graph, {JOB.name: JOB}, {JOB.name: 1}, {})
            )
    for _ in range(actions or 0):
        group.act(chance.randrange(PARALLELISM), chance.choice(ACTIONS), chance)
    if actions is None:
        group.run(chance)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_doubled(seed: int) -> None:
    world = World(seed)
    server = _Server(world, power=world.happens(0.6))
    first = server.start()
    events(first.broker)
    first.broker.close()
    died = 0
    for _ in range(DEATHS):
        server.left = world.chance.choice(
            (world.chance.randint(1, 60), world.chance.randint(60, 400))
        )
        try:
            _live(server.start(), world.chance, actions=world.chance.randint(5, 40))
        except Death:
            died += 1
        server.left = 0
        server.end()
    last = server.start()
    _live(last, world.chance, actions=None)
    assert left(last.broker) == EXPECTED
    assert died, "or else nothing was shown"
