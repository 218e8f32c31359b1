"""A life of a server whose jobs run in parts, in two instances that are killed, stopped and ended while rows come.

What comes out is compared with a run without parts that nobody disturbs."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sized
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.config import Config
from sqlengine.engine.engine import Engine
from sqlengine.machine import THIS
from sqlengine.state.stores import RocksStores
from tests.recovery.children import READY
from tests.recovery.mortal import Fate, LastChange, MortalDisk, MortalStores
from tests.recovery.mortal_instance import Lives
from tests.recovery.nursery import Nursery
from tests.recovery.outcome import folded, latest, records
from tests.support import PATIENCE_S

SHARDS = 4
ROWS_PER_BATCH = 5  # of each shard
SESSION_MS = 2000
TOPICS = {"readings": SHARDS, "bids": SHARDS, "found": 1, "minutes": 1, "pairs": 2, "grown": 1, "hot": 1}
TABLES = """
CREATE TABLE readings (id BIGINT, ts TIMESTAMP(3), host STRING, amount INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = 'readings', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE bids (id BIGINT, price INT)
WITH ('connector' = 'topic', 'topic' = 'bids', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE found (id BIGINT, host STRING) WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json');
CREATE TABLE all_found (id BIGINT, host STRING)
WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE minutes (host STRING, n BIGINT, total INT, window_end TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'minutes', 'format' = 'json');
CREATE TABLE pairs (id BIGINT, host STRING, price INT)
WITH ('connector' = 'topic', 'topic' = 'pairs', 'format' = 'json', 'key.fields' = 'host');
CREATE TABLE grown (host STRING, n BIGINT, total INT)
WITH ('connector' = 'topic', 'topic' = 'grown', 'format' = 'debezium-json');
CREATE TABLE sums (host STRING, n BIGINT, total INT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'sums', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE seen (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'seen', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE hot (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'hot', 'format' = 'json');
"""
HOT = "INSERT INTO hot SELECT id FROM readings WHERE amount > 3 AND amount <> -{}"
SUMS = """SET 'job.state' = 'keep';
INSERT INTO sums SELECT host, COUNT(*), SUM(amount) FROM readings WHERE amount <> -{} GROUP BY host"""
REPLACED = {"hot": HOT, "sums": SUMS}
JOBS = {
    "rule": "INSERT INTO found SELECT id, host FROM readings WHERE amount > 6",
    "chained": "INSERT INTO seen SELECT host, COUNT(*) FROM all_found GROUP BY host",
    "window": "INSERT INTO minutes SELECT host, COUNT(*), SUM(amount), window_end "
    "FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY host, window_start, window_end",
    "join": "INSERT INTO pairs SELECT r.id, r.host, b.price FROM readings r JOIN bids b ON r.id = b.id",
    "grown": "INSERT INTO grown SELECT host, COUNT(*), SUM(amount) FROM readings GROUP BY host",
    **{name: text.format(100) for name, text in REPLACED.items()},
}
# By where they end: who takes them, and what must hold of what comes out.
PATHS = {
    "found": ("a rule", "the records of each shard in the same order"),
    "minutes": ("a window", "the same records"),
    "pairs": ("a join", "the same records"),
    "grown": ("counts as a changelog", "each change fits those before it, the same rows"),
    "sums": ("counts by a text that is replaced, state kept", "keys only grow, the same table"),
    "seen": ("counts of what the rule found", "keys only grow, the same table"),
    "hot": ("a rule that is replaced", "the records of each shard in the same order"),
}


def reading(shard: int, number: int) -> dict[str, object]:
    """The numbered reading of a shard: times jump back, but never so far that one is late."""
    ms = number * 500 - (1_500 if number % 5 == 3 else 0)
    at = max(0, ms)
    moment = f"2026-01-01 {at // 3_600_000:02}:{at // 60_000 % 60:02}:{at // 1000 % 60:02}.{at % 1000:03}"
    unlike = number * 7919 + shard * 104_729
    return {"id": number * SHARDS + shard, "ts": moment, "host": f"h{unlike % 9}", "amount": unlike // 9 % 12}


def bid(shard: int, number: int) -> dict[str, object]:
    """Every other reading has one, in another shard."""
    known = number * SHARDS + (shard + 1) % SHARDS
    return {"id": known if number % 2 else -known - 1, "price": number % 50}


@dataclass(frozen=True)
class Setting:
    """Of a life. `seed` decides what is done with the jobs and instances; None: nothing, and more is read at once. `kills`: whether instances are killed
    from outside; those that are `spared` die by themselves."""

    folder: Path
    instances: int = 2
    seed: int | None = None
    spared: frozenset[int] = frozenset()
    kills: bool = False


def live(
    setting: Setting, say: int, *, batches: Callable[[int], int] | None, last: LastChange,
    nursery: Nursery | None = None, lives: Lives | None = None,
) -> None:  # fmt: skip
    """One life: with `batches` until so many are read (given how many there are), else until it is killed. Says READY with
    every batch."""
    setting.folder.mkdir(parents=True, exist_ok=True)
    engine = _open(setting, Fate(None, last), nursery)
    for name, shards in TOPICS.items():
        engine.broker.create_topic(name, shards, if_not_exists=True)
    engine.submit("tables", TABLES)
    there = {j.name for j in engine.jobs()}
    for name, sql in JOBS.items():
        if name not in there:
            engine.submit(name, sql)
    engine.start()
    os.write(say, READY)
    crew = _Crew(engine, setting, say, nursery, lives)
    if batches is None:
        crew.work()
    else:
        begun = crew.begun()
        total = batches(begun)
        for number in range(begun, total):
            crew.feed(number)
        crew.finish(total)
    engine.close()


def _open(setting: Setting, fate: Fate, nursery: Nursery | None) -> Engine:
    config = Config(
        data=setting.folder / "data",
        rows_per_read=1000 if setting.seed is None else 64,
        segment_bytes=64 << 10,
        checkpoint_ms=100,
        checkpoint_rows=300,
        instances=setting.instances,
        parts=4,
        session_ms=SESSION_MS,
        isolation=False,
    )
    machine = replace(THIS, disk=MortalDisk(fate), stores=lambda folder: MortalStores(RocksStores(folder), fate))
    return Engine(config, machine if nursery is None else replace(machine, spawn=nursery.spawn))


class _Crew:
    """Who uses a server while it lives, and who kills its instances."""

    def __init__(
        self, engine: Engine, setting: Setting, say: int, nursery: Nursery | None, lives: Lives | None
    ) -> None:
        self._engine = engine
        self._setting = setting
        self._say = say
        self._nursery = nursery
        self._lives = lives
        self._random = random.Random(setting.seed)

    def work(self) -> None:
        """All at once, until somebody kills the process."""
        number = self.begun()

        def feed() -> None:
            nonlocal number
            self.feed(number)
            number += 1

        for work, pause_s in ((feed, 0.1), (self._operate, 0.3), (self._care, 0.1), (self._disturb, 0.0)):
            threading.Thread(target=self._repeat, args=(work, pause_s), daemon=True).start()
        time.sleep(PATIENCE_S)

    @staticmethod
    def _repeat(work: Callable[[], None], pause_s: float) -> None:
        """What fails ends the process: the life has failed."""
        try:
            while True:
                work()
                time.sleep(pause_s)
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            os._exit(1)

    def begun(self) -> int:
        """The first batch of which not all may be there."""
        return max(0, (self._engine.broker.last_epoch("readings", 0, "feeder") or 0) - 1)

    def feed(self, number: int) -> None:
        """A batch of everything; what is there of it already is not doubled."""
        numbers = range(number * ROWS_PER_BATCH, (number + 1) * ROWS_PER_BATCH)
        for topic, row in (("readings", reading), ("bids", bid)):
            for shard in range(SHARDS):
                values = [json.dumps(row(shard, n)).encode() for n in numbers]
                self._engine.broker.append(topic, shard, values, timestamp_ms=0, writer="feeder", epoch=number + 1)
        os.write(self._say, READY)

    def _operate(self) -> None:
        name = self._random.choice(list(REPLACED))
        text = REPLACED[name].format(self._random.randint(1, 99))
        self._engine.submit(name, text)

    def _care(self) -> None:
        match self._random.choice(("retain", "compact", "sync")):
            case "retain":
                self._engine.broker.apply_retention()
            case "compact":
                self._engine.broker.compact(self._random.choice(("sums", "seen")))
            case _:
                self._engine.broker.sync()

    def _disturb(self) -> None:
        """An instance is killed, ended, or stopped: for a moment, or for longer than its session."""
        assert self._nursery is not None
        assert self._lives is not None
        time.sleep(self._random.uniform(0.05, 0.5))
        owners = {i.pid for i in self._engine.instances.views() if i.parts}
        living = [f for f in self._nursery.forked if f.code is None and f.number not in self._setting.spared]
        living = [f for f in living if f.pid in owners or self._setting.kills]
        if not living:
            return
        forked = self._random.choice(living)
        draw = self._random.random()
        if draw < 0.2 or not self._setting.kills:
            forked.terminate()
        elif draw < 0.8:
            self._lives.mark(forked.number)
            forked.kill()
        else:
            forked.signal(signal.SIGSTOP)
            time.sleep(SESSION_MS / 1000 * self._random.choice((0.1, 1.2, 2.0)))
            forked.signal(signal.SIGCONT)

    # ---- the end -----------------------------------------------------------------------------------------------

    def finish(self, batches: int) -> None:
        """Until everything is read and has come out."""
        wanted = _Wanted(batches)
        found, since = Counter[str](), time.monotonic()
        while missing := wanted.missing(now := _appended(self._engine.broker)) or wanted.missing(
            now := now + _counted(self._engine.broker)
        ):
            if now != found:
                found, since = now, time.monotonic()
                os.write(self._say, READY)
            assert time.monotonic() - since < PATIENCE_S, f"not all has come out: {missing}, {self._problems()}"
            time.sleep(0.1)

    def _problems(self) -> str:
        return f"{self._engine.fleet.problem}, {[(i.instance, i.state, i.parts, i.problem) for i in self._engine.instances.views()]}"


class _Wanted:
    """How much must have come out after so many batches."""

    def __init__(self, batches: int) -> None:
        numbers = batches * ROWS_PER_BATCH
        rows = [[reading(shard, n) for n in range(numbers)] for shard in range(SHARDS)]
        every = [r for shard in rows for r in shard]
        ids = {r["id"] for r in every}
        found = sum(int(str(r["amount"])) > 6 for r in every)
        over = (numbers * 500 - 500 - 2_000 - (1_500 if (numbers - 1) % 5 == 3 else 0)) // 10_000
        windows = {(r["host"], ms // 10_000) for r in every if (ms := _ms(r)) // 10_000 < over}
        self._counts = {
            "found": found,
            "seen": found,
            "hot": sum(int(str(r["amount"])) > 3 for r in every),
            "sums": len(every),
            "grown": len(every),
            "minutes": len(windows),
            "pairs": sum(bid(shard, n)["id"] in ids for shard in range(SHARDS) for n in range(numbers)),
        }

    def missing(self, found: Counter[str]) -> dict[str, tuple[int, int]]:
        """What has not come out yet of what was looked at: how much is there, and how much there must be."""
        return {name: (found[name], n) for name, n in self._counts.items() if name in found and found[name] < n}


def _ms(row: dict[str, object]) -> int:
    hours, minutes, seconds = str(row["ts"])[11:].split(":")
    return int((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000 + 0.5)


def _appended(broker: Broker) -> Counter[str]:
    """How many records have come out."""
    return Counter(
        {n: sum(broker.end_offset(n, s) for s in range(TOPICS[n])) for n in ("found", "minutes", "pairs", "hot")}
    )


def _counted(broker: Broker) -> Counter[str]:
    """How many rows counts tell of."""
    counted = {name: sum(json.loads(v)["n"] for v in broker.read_latest(name).values()) for name in ("sums", "seen")}
    grown = sum(json.loads(row)["n"] for row in folded(records(broker, "grown", 0)))
    return Counter({**counted, "grown": grown})


def batches_of(folder: Path) -> int:
    """How many batches were fed."""
    with _broker(folder) as broker:
        return broker.last_epoch("readings", 0, "feeder") or 0


def check(killed: Path, quiet: Path) -> None:
    """AssertionError unless both runs gave the same."""
    ours, theirs = _outputs(killed), _outputs(quiet)
    assert ours.keys() == theirs.keys()
    for name, found in ours.items():
        assert found, f"nothing came of {name}"
        assert found == theirs[name], f"{name}: {len(found)} and {len(theirs[name])}"


def _outputs(folder: Path) -> dict[str, Sized]:
    with _broker(folder) as broker:
        found: dict[str, Sized] = {}
        for name in ("found", "hot"):
            rows = [json.loads(v) for v in records(broker, name, 0)]
            found |= {f"{name} of shard {s}": [r for r in rows if r["id"] % SHARDS == s] for s in range(SHARDS)}
        found["minutes"] = Counter(records(broker, "minutes", 0))
        found |= {f"pairs {s}": Counter(records(broker, "pairs", s)) for s in range(2)}
        found["grown"] = folded(records(broker, "grown", 0))
        found |= {name: latest(broker, name) for name in ("sums", "seen")}
        assert not records(broker, "_dead_letters", 0)
    return found


def _broker(folder: Path) -> closing[EmbeddedBroker]:
    return closing(EmbeddedBroker(folder / "data", fsync="none", clock=lambda: 0))
