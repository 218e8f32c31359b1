"""One server of a life: its disk and checkpoints stay, its engine comes and dies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from parser.errors import ServiceError
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.functions.pool import POOL
from sqlengine.machine import Machine
from tests.simulation.database import SimulatedDatabase
from tests.simulation.disk import SimulatedDisk
from tests.simulation.planner import RememberingPlanner
from tests.simulation.stores import SimulatedStores
from tests.simulation.threads import SimulatedThreads
from tests.simulation.world import Death, World


@dataclass
class Doom:
    """After so many changes of the disk (within epochs only, or anywhere) the process dies, perhaps by loss of power."""

    left: int
    epochs: bool
    power: bool


@dataclass
class Node:
    """`kills`: how many deaths are left to it. `short`: there is no space for something. `topics`: those that it has from the first start on."""

    world: World
    name: str
    config: Config
    topics: Mapping[str, int]
    kills: int
    short: bool = False
    engine: Engine | None = None
    doom: Doom | None = None
    threads: SimulatedThreads = field(init=False)

    def __post_init__(self) -> None:
        self.threads = SimulatedThreads(self.world)
        self.disk = SimulatedDisk(self.world, self.name, self._dies)
        self.stores = SimulatedStores(self.world, self.name, self._dies)
        self.database = SimulatedDatabase(self.world, self.name, self._dies)

    def _dies(self) -> bool:
        doom = self.doom
        if doom is None or (doom.epochs and self.world.place != "epoch"):
            return False
        doom.left -= 1
        return doom.left == 0

    def start(self) -> None:
        """A new process. Where the disk is full it may not come up."""
        self.world.note(self.name, "start")
        self._draw_doom()
        self.threads = SimulatedThreads(self.world)
        clock = self.world.clock
        machine = Machine(clock, self.disk, self.threads, lambda _: self.stores, RememberingPlanner, caches=False)
        with self.mortal(), self.world.doing("recovery"):
            try:
                self.engine = Engine(self.config, machine)
                for name, shards in self.topics.items():
                    self.engine.broker.create_topic(name, shards, if_not_exists=True)
                self.engine.fleet.start()
            except ServiceError:
                if not self.short:
                    raise
                self.end(power=False)

    def _draw_doom(self) -> None:
        chance, self.doom = self.world.chance, None
        if self.kills:
            epochs = chance.random() < 0.8
            most = chance.choice((5, 40)) if epochs else chance.choice((10, 60, 200))
            power = self.config.fsync != "none" and chance.random() < 0.6
            self.doom = Doom(chance.randint(1, most), epochs, power)

    @contextmanager
    def mortal(self) -> Iterator[None]:
        """The process may die within."""
        before = self.world.place
        try:
            yield
        except Death:
            doom, place = self.doom, self.world.place
            assert doom is not None
            self.kills -= 1
            self.world.kills[place or "client"] += 1
            self.world.met["loss of power" if doom.power else "death of a process"] += 1
            self.world.note(self.name, "dies", "power" if doom.power else place)
            self.end(power=doom.power)
        finally:
            self.world.place = before

    def end(self, *, power: bool = False) -> None:
        """The process is gone, and with loss of power what was not on disk."""
        if self.engine is not None:
            POOL.leave(self.engine)
        self.engine = self.doom = None
        self.disk.dead = self.stores.dead = False
        self.database.end_process()
        if power:
            self.disk.lose_power(wild=self.config.fsync == "epoch")
            self.stores.lose_power()
        else:
            self.disk.end_process()

    def stop(self) -> None:
        """A stop in good order; the process may die in it, or not find space for its last checkpoint."""
        if self.engine is None:
            return
        self.world.note(self.name, "stop")
        with self.mortal(), self.world.doing("stop"):
            try:
                self.engine.close()
            except ServiceError:
                if not self.short:
                    raise
            self.end(power=False)

    def abandon(self) -> None:
        """Nobody looks at it any more."""
        if self.engine is not None:
            POOL.leave(self.engine)
        self.engine = None


def config_of(world: World, name: str, fsync: str) -> Config:
    """Small bounds, so that much happens within few rows."""
    chance = world.chance
    return Config(
        data=Path(f"/{name}/data"),
        fsync=fsync,  # type: ignore[arg-type]
        segment_bytes=chance.choice((1_000, 5_000, 1 << 20)),
        rows_per_read=chance.choice((2, 5, 50)),
        checkpoints=chance.choice(("rocksdb", "rocksdb", "topic")),
        checkpoint_rows=chance.choice((3, 20, 1_000)),
        checkpoint_ms=chance.choice((50, 2_000, 1 << 40)),
        plan_cache=False,
    )
