"""What lives have in common: how a server is set up, who uses it while it lives, and how the last
life ends."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.snapshots.savepoint_files import Savepoint
from sqlengine.system.durability import Checkpoints, Fsync
from tests.recovery import workload
from tests.recovery.children import READY
from tests.recovery.workload import Workload
from tests.support import PATIENCE_S

Batches = Callable[[int], int]


@dataclass(frozen=True)
class Setting:
    """Of a life. `seed` decides what it does besides reading; None: nothing else, and it reads more
    at once."""

    folder: Path
    seed: int | None = None
    store: Checkpoints = "rocksdb"
    fsync: Fsync = "none"

    def config(self) -> Config:
        return Config(
            data=self.folder / "data",
            rows_per_read=1000 if self.seed is None else 64,
            segment_bytes=64 << 10,
            checkpoint_ms=50,
            checkpoint_rows=500,
            checkpoints=self.store,
            fsync=self.fsync,
            volumes=(self.folder,),
        )


def prepare(engine: Engine, folder: Path, what: Workload) -> None:
    """All that is not there yet; a job that a savepoint has stopped goes on from it."""
    for name, shards in what.topics.items():
        engine.broker.create_topic(name, shards, if_not_exists=True)
    for name, retained in what.retained.items():
        engine.broker.create_topic(name, retention_bytes=retained, if_not_exists=True)
    for name in ("incoming", "volume"):
        (folder / name).mkdir(exist_ok=True)
    with closing(sqlite3.connect(str(folder / "app.db"))) as database:
        database.executescript(what.database)
    engine.submit("tables", what.tables.replace("{folder}", str(folder)))
    names = {j.name.partition("-")[0] for j in engine.jobs()}
    for name, sql in what.jobs.items():
        if name not in names:
            engine.submit(name, sql)
        elif name in what.saved:
            go_on(engine, name)


def go_on(engine: Engine, name: str) -> None:
    """Starts a job where it was stopped, or being stopped when the last life ended."""
    if engine.job(name).state is JobState.RUNNING:
        return
    mine = [s for s in engine.savepoints.all() if isinstance(s, Savepoint) and s.job == name]
    engine.start_job(name, max(mine, key=lambda s: (s.created_ms, s.epoch, s.path)).path)
    for old in mine:
        engine.savepoints.delete(old.path)


class Operator:
    """Changes the jobs of an engine, one after the other, and keeps its topics up, which may happen
    at the same time."""

    def __init__(self, engine: Engine, folder: Path, chance: random.Random, what: Workload) -> None:
        self._engine = engine
        self._folder = folder
        self._random = chance
        self._what = what

    def change(self) -> None:
        """One change of a job."""
        match self._random.choice(("save", "replace", "rename", "roll back", *["isolate"] * 4)):
            case "save":
                name = self._random.choice(self._what.saved)
                self._engine.save_job(name, stop=self._random.random() < 0.8)
                time.sleep(self._random.uniform(0.0, 0.03))
                go_on(self._engine, name)
            case "isolate":
                self._isolate()
            case "replace":
                name = self._random.choice(list(self._what.replaced))
                text = self._what.replaced[name].format(self._random.randint(1, 99))
                self._engine.submit(self._named(name), text)
            case "rename":
                old = self._named("hot")
                new = "hot" if old != "hot" else f"hot-{self._random.randint(1, 9)}"
                self._engine.change(Request(Origin.SDK, renames={old: new}))
            case _:
                name = self._named("hot")
                self._engine.rollback(name, self._random.choice(self._engine.history(name)).version)

    def _isolate(self) -> None:
        """One into a graph of its own, or back to the others: rather back, or most are away after
        some lives, since what goes on from a savepoint is, too."""
        graphs = self._engine.graphs
        shared = self._engine._placement.shared_graph
        at_home = {n: graphs.of(n) is shared(self._engine.job(n)) for n in self._what.isolated}
        away = [name for name, here in at_home.items() if not here]
        if away and self._random.random() < 3 / 4:
            self._engine.merge(self._random.choice(away))
        elif len(away) < len(at_home):
            self._engine.isolate(
                self._random.choice([name for name, here in at_home.items() if here])
            )

    def _named(self, name: str) -> str:
        """How the job is called now."""
        return next(j.name for j in self._engine.jobs() if j.name.partition("-")[0] == name)

    def care(self) -> None:
        """What a server does now and then."""
        broker = self._engine.broker
        compacted = [t.name for t in broker.topics() if t.compacted]
        match self._random.choice(("retain", "retain", "compact", "sync", "letters", "move")):
            case "retain":
                broker.apply_retention()
            case "compact":
                broker.compact(self._random.choice(compacted))
            case "sync":
                broker.sync()
            case "letters":
                self._engine.dead_letters.refresh()
            case _:
                self._move()

    def _move(self) -> None:
        topic, shards = self._random.choice(list(self._what.moved.items()))
        place = self._folder / "volume" / str(self._random.randint(0, 1 << 40))
        self._engine.broker.move_shard(topic, self._random.randrange(shards), place, data=True)


class ServerUsers(ABC):
    """Who uses an engine while it lives. `fed`: the topic that tells how many batches there are. A
    batch comes after each pause; lines of so many batches are in a file."""

    fed: ClassVar[str]
    pause_s: ClassVar[float]
    lines_per_batch: ClassVar[int]
    batches_per_file: ClassVar[int]

    def __init__(self, engine: Engine, setting: Setting, say: int, what: Workload) -> None:
        self.engine = engine
        self.folder = setting.folder
        self.chance = random.Random(setting.seed)
        self.operator = Operator(engine, setting.folder, self.chance, what)
        self._say = say

    def live(self, batches: Batches | None) -> None:
        """With `batches` until so many are read (given how many there are), else until somebody
        kills the process. Says READY when all runs, and again with every batch."""
        os.write(self._say, READY)
        if batches is None:
            self._work()
            return
        begun = self._begun()
        total = batches(begun)
        for number in range(begun, total):
            self._feed(number)
        self._finish(total)

    @abstractmethod
    def works(self) -> Iterable[tuple[Callable[[], None], float]]:
        """What is done again and again beside the feeding, with the pause in seconds after each
        time."""

    @abstractmethod
    def rows(self, number: int) -> Iterable[tuple[str, int, list[bytes]]]:
        """The numbered batch: topics, shards, and records for them."""

    @abstractmethod
    def missing(self, batches: int) -> str | None:
        """What has not come out yet, and how much has; None when all has."""

    # ---- while it lives --------------------------------------------------------------------------

    def _work(self) -> None:
        """All at once."""
        number = self._begun()

        def feed() -> None:
            nonlocal number
            self._feed(number)
            number += 1

        for work in ((feed, self.pause_s), *self.works()):
            threading.Thread(target=self._repeat, args=work, daemon=True).start()
        time.sleep(PATIENCE_S)  # who is to be killed is killed before

    def _repeat(self, work: Callable[[], None], pause_s: float) -> None:
        """What fails ends the process: the life has failed."""
        try:
            while True:
                work()
                time.sleep(pause_s)
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            print(self.problems(), file=sys.stderr, flush=True)
            os._exit(1)

    def _begun(self) -> int:
        """The first batch of which not all may be there."""
        return max(0, (self.engine.broker.last_epoch(self.fed, 0, "feeder") or 0) - 1)

    def _feed(self, number: int) -> None:
        """A batch of everything; what is there of it already is not doubled."""
        for topic, shard, values in self.rows(number):
            self.engine.broker.append(
                topic, shard, values, timestamp_ms=0, writer="feeder", epoch=number + 1
            )
        self._write_lines(number)
        os.write(self._say, READY)

    def _write_lines(self, number: int) -> None:
        """Lines have one length: each batch has its place in the files."""
        file, place = divmod(number, self.batches_per_file)
        start = number * self.lines_per_batch
        lines = b"".join(map(workload.line, range(start, start + self.lines_per_batch)))
        out = os.open(self.folder / "incoming" / f"{file:06}", os.O_WRONLY | os.O_CREAT)
        os.pwrite(out, lines, place * len(lines))
        os.close(out)

    def problems(self) -> str:
        """What stands still, and why."""
        views = [
            (i.instance, i.state, i.subtasks, i.problem) for i in self.engine.instances.views()
        ]
        return f"{self.engine.graphs.problem}, {views}"

    # ---- the end ---------------------------------------------------------------------------------

    def _finish(self, batches: int) -> None:
        """Until everything is read and has come out."""
        found, since, began = "", time.monotonic(), time.monotonic()
        while (missing := self.missing(batches)) is not None:
            looked_s = time.monotonic() - began
            if missing != found:
                found, since = missing, time.monotonic()
                os.write(self._say, READY)
            assert time.monotonic() - since < PATIENCE_S, (
                f"not all has come out: {missing}, {self.problems()}"
            )
            # A look at all that has come out costs more than it takes to come.
            time.sleep(max(self.pause_s, looked_s))
            began = time.monotonic()
