"""One life of an engine under load, made to be killed: jobs run, change, stop and go on, members of a group come and go,
topics are compacted, shortened and moved, and all of that at once."""

from __future__ import annotations

import gc
import json
import os
import random
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from planner.catalog import Catalog
from planner.codec import classes
from sqlengine.config import Config
from sqlengine.durability import Checkpoints, Fsync
from sqlengine.engine import Engine
from sqlengine.engine.changes import Request
from sqlengine.executors.savepoint_files import Savepoint
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.log import MAIN, JobState, Origin
from sqlengine.jobs.planning import JobText, PlannedJob, plan_jobs
from sqlengine.machine import THIS
from tests.recovery import in_parts, workload
from tests.recovery.children import READY
from tests.recovery.copier import Copier
from tests.recovery.mortal import Doom, Fate, LastChange, MortalDisk, make_databases_mortal, stores
from tests.recovery.outcome import lake, records
from tests.recovery.workload import BATCHES_PER_FILE, EVENTS_PER_BATCH, LINES_PER_BATCH, ORDERS_PER_BATCH
from tests.support import PATIENCE_S


@dataclass(frozen=True)
class Settings:
    """Of a life. `seed` decides what it does besides reading; None: nothing else, and it reads more at once."""

    folder: Path
    seed: int | None = None
    store: Checkpoints = "rocksdb"
    fsync: Fsync = "none"


Batches = Callable[[int], int]


def warm() -> None:
    """Does what every life would do first, once for all that are forked from this process."""
    for tables, jobs in ((workload.TABLES, workload.JOBS), (in_parts.TABLES, in_parts.JOBS)):
        planned = plan_jobs([JobText(*t) for t in {"tables": tables, **jobs}.items()], Catalog(), {})
        assert all(isinstance(p, PlannedJob) for p in planned), planned
    classes()
    import_module("rocksdict")
    gc.collect()
    gc.freeze()


def live(settings: Settings, say: int, *, batches: Batches | None, doom: Doom | None, last: LastChange) -> None:
    """One life: with `batches` until so many are read (given how many there are), else until it is killed. Says READY when
    it runs, and again with every batch."""
    fate = Fate(doom, last)
    make_databases_mortal(fate)
    settings.folder.mkdir(parents=True, exist_ok=True)
    engine = _open(settings, fate)
    _submit(engine, settings.folder)
    engine.start()
    os.write(say, READY)
    crew = Crew(engine, settings, say)
    if batches is None:
        crew.work(PATIENCE_S)  # a life that meets its doom meets it before
    else:
        begun = crew.begun()
        total = batches(begun)
        for number in range(begun, total):
            crew.feed(number)
        crew.finish(total)
    engine.close()


def _open(settings: Settings, fate: Fate) -> Engine:
    config = Config(
        data=settings.folder / "data",
        rows_per_read=1000 if settings.seed is None else 64,
        segment_bytes=64 << 10,
        checkpoint_ms=50,
        checkpoint_rows=500,
        checkpoints=settings.store,
        fsync=settings.fsync,
        volumes=(settings.folder,),
    )
    return Engine(config, replace(THIS, disk=MortalDisk(fate), stores=lambda folder: stores(fate, folder)))


def _submit(engine: Engine, folder: Path) -> None:
    """All that is not there yet; a job that a savepoint has stopped goes on from it."""
    for name, shards in workload.TOPICS.items():
        engine.broker.create_topic(name, shards, if_not_exists=True)
    engine.broker.create_topic("archive", retention_bytes=workload.ARCHIVE_BYTES, if_not_exists=True)
    for name in ("incoming", "volume"):
        (folder / name).mkdir(exist_ok=True)
    with closing(sqlite3.connect(str(folder / "app.db"))) as database:
        database.executescript(workload.DATABASE)
    engine.submit("tables", workload.TABLES.replace("{folder}", str(folder)))
    names = {j.name.partition("-")[0] for j in engine.jobs()}
    for name, sql in workload.JOBS.items():
        if name not in names:
            engine.submit(name, sql)
        elif name in workload.SAVED:
            go_on(engine, name)


def go_on(engine: Engine, name: str) -> None:
    """Starts a job where it was stopped, or being stopped when the last life ended."""
    if engine.job(name).state is JobState.RUNNING:
        return
    mine = [s for s in engine.savepoints.all() if isinstance(s, Savepoint) and s.job == name]
    engine.start_job(name, max(mine, key=lambda s: (s.created_ms, s.epoch, s.path)).path)
    for old in mine:
        engine.savepoints.delete(old.path)


class Crew:
    """Who uses an engine while it lives."""

    def __init__(self, engine: Engine, settings: Settings, say: int) -> None:
        self._engine = engine
        self._folder = settings.folder
        self._say = say
        self._random = random.Random(settings.seed)
        self._disturbs = settings.seed is not None

    def work(self, seconds: float) -> None:
        """All at once, for so long."""
        ends = time.monotonic() + seconds
        number = self.begun()

        def feed() -> None:
            nonlocal number
            self.feed(number)
            number += 1

        works: list[tuple[Callable[[], None], float]] = [(feed, 0.02)]
        if self._disturbs:
            works += [
                (self._operate, 0.02),
                (self._care, 0.02),
                *((Copier(self._engine.broker, n).turn, 0.003) for n in "ab"),
            ]
        threads = [threading.Thread(target=self._repeat, args=(*w, ends), daemon=True) for w in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @staticmethod
    def _repeat(work: Callable[[], None], pause_s: float, ends: float) -> None:
        """What fails ends the process: the life has failed."""
        try:
            while time.monotonic() < ends:
                work()
                time.sleep(pause_s)
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            os._exit(1)

    # ---- what comes in -----------------------------------------------------------------------------------------

    def begun(self) -> int:
        """The first batch of which not all may be there."""
        done = self._engine.broker.last_epoch("events", 0, "feeder")
        return max(0, (done or 0) - 1)

    def feed(self, number: int) -> None:
        """A batch of everything; what is there of it already is not doubled."""
        start = number * EVENTS_PER_BATCH
        self._append("events", 0, [workload.encoded(n) for n in range(start, start + EVENTS_PER_BATCH)], number)
        start = number * ORDERS_PER_BATCH
        for shard in range(2):
            orders = [workload.order(shard, n) for n in range(start, start + ORDERS_PER_BATCH)]
            self._append("orders", shard, orders, number)
        self._write_lines(number)
        os.write(self._say, READY)

    def _append(self, topic: str, shard: int, values: list[bytes], number: int) -> None:
        self._engine.broker.append(topic, shard, values, timestamp_ms=0, writer="feeder", epoch=number + 1)

    def _write_lines(self, number: int) -> None:
        """Lines have one length: each batch has its place in the files."""
        file, place = divmod(number, BATCHES_PER_FILE)
        start = number * LINES_PER_BATCH
        lines = b"".join(map(workload.line, range(start, start + LINES_PER_BATCH)))
        out = os.open(self._folder / "incoming" / f"{file:06}", os.O_WRONLY | os.O_CREAT)
        os.pwrite(out, lines, place * len(lines))
        os.close(out)

    # ---- what is changed, and kept up --------------------------------------------------------------------------

    def _operate(self) -> None:
        """One change of a job, or of a place."""
        match self._random.choice(("save", "save", "replace", "rename", "roll back", "move", *["isolate"] * 3)):
            case "save":
                name = self._random.choice(workload.SAVED)
                self._engine.save_job(name, stop=self._random.random() < 0.8)
                time.sleep(self._random.uniform(0.0, 0.03))
                go_on(self._engine, name)
            case "isolate":
                name = self._random.choice(workload.ISOLATED)
                if self._engine.job(name).graph == MAIN:
                    self._engine.isolate(name)
                else:
                    self._engine.merge(name)
            case "replace":
                name = self._random.choice(list(workload.REPLACED))
                text = workload.REPLACED[name].format(self._random.randint(1, 99))
                self._engine.submit(self._named(name), text)
            case "rename":
                old = self._named("hot")
                new = "hot" if old != "hot" else f"hot-{self._random.randint(1, 9)}"
                self._engine.change(Request(Origin.SDK, renames={old: new}))
            case "roll back":
                name = self._named("hot")
                self._engine.rollback(name, self._random.choice(self._engine.history(name)).version)
            case _:
                topic, shards = self._random.choice(list(workload.MOVED.items()))
                shard = self._random.randrange(shards)
                place = self._folder / "volume" / str(self._random.randint(0, 1 << 40))
                self._engine.broker.move_shard(topic, shard, place, data=True)

    def _named(self, name: str) -> str:
        """How the job is called now."""
        return next(j.name for j in self._engine.jobs() if j.name.partition("-")[0] == name)

    def _care(self) -> None:
        """What a server does now and then."""
        broker = self._engine.broker
        compacted = [t.name for t in broker.topics() if t.compacted]
        match self._random.choice(("retain", "retain", "compact", "sync", "letters")):
            case "retain":
                broker.apply_retention()
            case "compact":
                broker.compact(self._random.choice(compacted))
            case "sync":
                broker.sync()
            case _:
                self._engine.letters.look()

    # ---- the end -----------------------------------------------------------------------------------------------

    def finish(self, batches: int) -> None:
        """Until everything is read and has come out."""
        copiers = [Copier(self._engine.broker, name) for name in "ab"]
        read, since = -1, time.monotonic()
        while missing := self._missing(copiers, batches):
            now = sum(g.runner.progress.rows_in for g in self._engine.fleet.graphs.values())
            if now != read:
                read, since = now, time.monotonic()
                os.write(self._say, READY)
            assert time.monotonic() - since < PATIENCE_S, f"not all that came in has come out: {missing}"
            time.sleep(0.01)

    def _missing(self, copiers: list[Copier], batches: int) -> str | None:
        """What has not come out yet; None when all has."""
        broker = self._engine.broker
        for copier in copiers:
            copier.turn()
        copied = broker.committed(Copier.GROUP, "orders")
        if any(copied.get(shard) != broker.end_offset("orders", shard) for shard in range(2)):
            return f"copies, {copied} of orders are committed"
        if broker.end_offset("tailed", 0) != batches * LINES_PER_BATCH:
            return f"lines of files: {broker.end_offset('tailed', 0)}"
        if not self._has_read_all():
            return f"a graph has not read all: {self._engine.fleet.problem}"
        ticks = sum(int(json.loads(t)["n"]) for t in records(broker, "ticks", 0))
        if ticks < batches * EVENTS_PER_BATCH:
            return f"a window of processing time: {ticks} events"
        rows = len(lake(self._folder))
        return None if rows == workload.in_the_lake(batches * EVENTS_PER_BATCH) else f"Parquet files: {rows} rows"

    def _has_read_all(self) -> bool:
        """Twice, since what comes out of one job is read by another."""
        graphs = list(self._engine.fleet.graphs.values())

        def at_end(graph: RunningGraph) -> bool:
            sources = graph.runner.inputs.running.values()
            return all(at >= (s.source.end(shard) or 0) for s in sources for shard, at in s.positions.items())

        return all(g.loop.call(lambda g=g: at_end(g)) for g in graphs * 2)
