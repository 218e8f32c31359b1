"""One server of a life: its disk and checkpoints stay, its engine comes and dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parser.errors import ServiceError
from sqlengine.broker.remote.wire import Served
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.shared_graph import SHARED
from sqlengine.config import Config
from sqlengine.engine.engine import Engine
from sqlengine.functions.pool import POOL
from sqlengine.machine import Machine
from sqlengine.system.spawning import Door, Process, Work
from tests.simulation.database import SimulatedDatabase
from tests.simulation.disk import SimulatedDisk
from tests.simulation.instances import SimulatedDoor, SimulatedProcess
from tests.simulation.planner import RememberingPlanner
from tests.simulation.stores import Shelf, SimulatedStores
from tests.simulation.threads import SimulatedThreads
from tests.simulation.world import Death, World


@dataclass
class PlannedCrash:
    """After so many changes of the disk (within epochs only, or anywhere) the process dies, perhaps
    by loss of power."""

    left: int
    epochs: bool
    power: bool


@dataclass
class Node:
    """`kills`: how many deaths are left to it, `process_kills` to its instances. `short`: there is
    no space for something. `topics`: those that it has from the first start on. `struck`: where it
    has died while an instance asked it; `meanwhile`: what others do while an instance is held
    up."""

    world: World
    name: str
    config: Config
    topics: Mapping[str, int]
    kills: int
    process_kills: int = 0
    short: bool = False
    engine: Engine | None = None
    crash: PlannedCrash | None = None
    struck: str | None = None
    meanwhile: Callable[[], None] | None = None
    lives: int = 0
    processes: list[SimulatedProcess] = field(default_factory=list)
    threads: SimulatedThreads = field(init=False)

    def __post_init__(self) -> None:
        self._shelf: Shelf = {}  # the checkpoints of parts, which are synced
        self._begin_process()
        self.disk = SimulatedDisk(self.world, self.name, self._dies)
        self.stores = SimulatedStores(self.world, self.name, self._dies)
        self.parts = SimulatedStores(self.world, self.name, self._dies, self._shelf)
        self.database = SimulatedDatabase(self.world, self.name, self._dies)

    def _dies(self) -> bool:
        crash = self.crash
        if crash is None or (crash.epochs and self.world.place != "epoch"):
            return False
        crash.left -= 1
        return crash.left == 0

    def _is_dead(self) -> bool:
        return self.disk.dead or self.stores.dead or self.parts.dead or self.database.dead

    def start(self) -> None:
        """A new process. Where the disk is full it may not come up."""
        self.world.note(self.name, "start")
        self._draw_crash()
        self._begin_process()
        machine = Machine(
            self.world.clock,
            self.disk,
            self.threads,
            lambda folder: self.parts if folder.name == "parts" else self.stores,
            RememberingPlanner,
            caches=False,
            door=self._open_door,
            spawn=self._spawn,
        )
        with self.may_crash(), self.world.doing("recovery"):
            try:
                self.engine = Engine(self.config, machine)
                for name, shards in self.topics.items():
                    self.engine.broker.create_topic(name, shards, if_not_exists=True)
                self.engine.graphs.start()
            except ServiceError:
                if not self.short:
                    raise
                self.end(power=False)

    def _draw_crash(self) -> None:
        chance, self.crash = self.world.chance, None
        if self.kills:
            epochs = chance.random() < 0.8
            most = chance.choice((5, 40)) if epochs else chance.choice((10, 60, 200))
            power = self.config.fsync != "none" and chance.random() < 0.6
            self.crash = PlannedCrash(chance.randint(1, most), epochs, power)

    def _begin_process(self) -> None:
        self.threads = SimulatedThreads(self.world, self._others, self._is_dead)
        self.processes, self.struck = [], None

    def _open_door(self, broker: Served) -> Door:
        self._door = SimulatedDoor(broker)
        return self._door

    def _spawn(self, work: Work) -> Process:
        self.world.met["start of an instance"] += 1
        process = SimulatedProcess(
            self, work, self._door, self._shelf, self.world.met["start of an instance"]
        )
        self.processes = [*(p for p in self.processes if p.code is None), process]
        return process

    def crash_of_instance(self) -> tuple[int, bool]:
        """With which of its changes a new process dies (0: with none), and whether only those
        within epochs count."""
        chance = self.world.chance
        return (
            (chance.randint(1, chance.choice((5, 40, 150))), chance.random() < 0.7)
            if self.process_kills > 0
            else (0, False)
        )

    def _others(self) -> list[Callable[[], object]]:
        return [work for process in self.processes for work in process.possible()]

    def possible(self) -> list[Callable[[], object]]:
        """All that may go on now, here and in the instances."""
        return self.threads.possible() + self._others()

    def raise_death(self) -> None:
        """The server has died while an instance asked it."""
        if self.struck is not None:
            self.world.place, self.struck = self.struck, None
            raise Death

    def hold_up(self) -> None:
        """An instance that has asked for something goes on after others have done a lot."""
        if self.meanwhile is not None and not self.threads.waiting and self.world.happens(0.03):
            self.world.met["instance held up"] += 1
            self.meanwhile()

    @contextmanager
    def may_crash(self) -> Iterator[None]:
        """The process may die within."""
        before, life = self.world.place, self.lives
        try:
            yield
        except Death:
            if life == self.lives:  # else it has died already, while an instance was held up
                self._die()
        finally:
            self.world.place = before

    def _die(self) -> None:
        crash, place = self.crash, self.world.place
        assert crash is not None
        self.kills -= 1
        self.world.kills[place or "client"] += 1
        self.world.met["loss of power" if crash.power else "death of a process"] += 1
        self.world.note(self.name, "dies", "power" if crash.power else place)
        self.end(power=crash.power)

    def end(self, *, power: bool = False) -> None:
        """The process is gone, and its instances with it; with loss of power also what was not on
        disk."""
        self.lives += 1
        self._end_processes()
        if self.engine is not None:
            POOL.leave(self.engine)
        self.engine = self.crash = None
        self.disk.dead = self.stores.dead = self.parts.dead = False
        self.database.end_process()
        if power:
            self.disk.lose_power(wild=self.config.fsync == "epoch")
            self.stores.lose_power()
        else:
            self.disk.end_process()

    def stop(self) -> None:
        """A stop in good order; the process may die in it, or not find space for its last
        checkpoint."""
        if self.engine is None:
            return
        self.world.note(self.name, "stop")
        self.threads.waiting += 1
        with self.may_crash(), self.world.doing("stop"):
            try:
                self.engine.close()
            except ServiceError:
                if not self.short:
                    raise
            self.end(power=False)

    def settle(self) -> bool:
        """Lets all go on once; whether anything was done, or is still to be done."""
        before = len(self.world.trace)
        busy = [process.settle() for process in self.processes]
        engine = self.engine
        shared = None if engine is None else engine.graphs.by_name.get(SHARED)
        if isinstance(shared, DistributedGraph):
            parts = [
                p for process in self.processes for p in process.parts.values() if not p.fenced
            ]
            busy.append(
                len({p.name for p in parts}) < shared.parallelism
                or any(p.runner.graph.version != shared.runner.graph.version for p in parts)
            )
        return self.threads.settle() or any(busy) or len(self.world.trace) > before

    def abandon(self) -> None:
        """Nobody looks at it any more."""
        self._end_processes()
        if self.engine is not None:
            POOL.leave(self.engine)
        self.engine = None

    def _end_processes(self) -> None:
        for process in self.processes:
            process.kill()


def config_of(world: World, name: str, fsync: str) -> Config:
    """Small bounds, so that much happens within few rows."""
    chance = world.chance
    parts: dict[str, Any] = (
        {}
        if world.kind != "parts"
        else {
            "instances": 2,
            "parts": chance.randint(2, 3),
            "session_ms": chance.choice((1_000, 5_000)),
        }
    )
    return Config(
        data=Path(f"/{name}/data"),
        fsync=fsync,  # type: ignore[arg-type]
        segment_bytes=chance.choice((1_000, 5_000, 1 << 20)),
        rows_per_read=chance.choice((2, 5, 50)),
        checkpoints=chance.choice(("rocksdb", "rocksdb", "topic")),
        **parts,
        checkpoint_rows=chance.choice((3, 20, 1_000)),
        checkpoint_ms=chance.choice((50, 2_000, 1 << 40)),
        plan_cache=False,
    )
