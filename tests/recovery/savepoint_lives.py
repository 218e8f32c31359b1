"""Lives in which jobs are stopped with savepoints and go on from them, again and again under load, and which are killed at
random moments: what comes out equals a run that nobody disturbs.

Runs as a process of its own, as `kills` does."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.config import Config
from sqlengine.durability import Checkpoints
from sqlengine.engine import Engine
from sqlengine.executors.savepoint_files import Savepoint
from sqlengine.jobs import JobState
from tests.recovery.workload import EVENTS_PER_BATCH, TABLES, WINDOW, event, feed

JOBS = {
    "rule": "INSERT INTO alerts SELECT 'rule', id FROM events WHERE amount > 3",
    "window": WINDOW,
    "counts": "INSERT INTO per_host SELECT host, COUNT(*), SUM(amount) FROM events WHERE host IS NOT NULL GROUP BY host",
}
COUNTS = """CREATE TABLE per_host (host STRING, n BIGINT, total INT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'per_host', 'format' = 'json', 'upsert' = 'true');"""
TOPICS = ("alerts", "totals", "per_host")


def live(folder: Path, batches: int, seed: int | None, store: Checkpoints, say: int) -> None:
    """One life. `seed` decides when which job is stopped and goes on; None disturbs nothing."""
    engine = Engine(Config(data=folder, rows_per_read=64, checkpoint_ms=50, checkpoint_rows=500, checkpoints=store))
    for name in ("events", *TOPICS):
        engine.broker.create_topic(name, if_not_exists=True)
    engine.submit("tables", TABLES.replace("{folder}", str(folder)) + COUNTS)
    for name, sql in JOBS.items():
        if name not in engine.log.jobs:
            engine.submit(name, sql)
    engine.start()
    for name in JOBS:
        go_on(engine, name)
    os.write(say, b"r")
    feeder = threading.Thread(target=feed, args=(engine, batches, 0.0 if seed is None else 0.01), daemon=True)
    feeder.start()
    moments = random.Random(seed)
    while feeder.is_alive() and seed is not None:
        name = moments.choice(list(JOBS))
        engine.save_job(name, stop=moments.random() < 0.8)
        time.sleep(moments.uniform(0.0, 0.03))
        go_on(engine, name)
    feeder.join()
    wait_until_read(engine, batches * EVENTS_PER_BATCH)
    engine.close()


def go_on(engine: Engine, name: str) -> None:
    """Starts a job that was stopped, or that was being stopped when the last life ended, where it stopped."""
    if engine.job(name).state is JobState.RUNNING:
        return
    mine = [s for s in engine.savepoints.all() if isinstance(s, Savepoint) and s.job == name]
    engine.start_job(name, max(mine, key=lambda s: (s.created_ms, s.path)).path)
    for old in mine:
        engine.savepoints.delete(old.path)


def wait_until_read(engine: Engine, records: int) -> None:
    while True:
        sources = [s for g in list(engine.fleet.graphs.values()) for s in list(g.runner.inputs.running.values())]
        if sources and all(at >= records for s in sources for at in s.positions.values()):
            return
        if engine.fleet.problem is not None:
            raise RuntimeError(engine.fleet.problem)
        time.sleep(0.01)


def one_life(folder: Path, batches: int, seed: int | None, store: Checkpoints, kill_after_s: float | None) -> bool:
    """A life in a forked child; True when it ended by itself."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            live(folder, batches, seed, store, writing)
            code = 0
        except BaseException:  # noqa: BLE001  the child ends here, and says why
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    try:
        if kill_after_s is not None and os.read(reading, 1) == b"r":
            time.sleep(kill_after_s)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(reading)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, "a life ended with an error"
    return not os.WIFSIGNALED(status)


def outputs(folder: Path) -> dict[str, list[bytes]]:
    broker = EmbeddedBroker(folder, fsync="none", clock=lambda: 0)
    found: dict[str, list[bytes]] = {}
    for topic in TOPICS:
        found[topic], offset = [], 0
        while (records := broker.read(topic, 0, offset)) is not None:
            found[topic] += records.values.to_pylist()
            offset = records.next_offset
    broker.close()
    return found


def run(folder: Path, kills: int, batches: int, seed: int, store: Checkpoints) -> int:
    """Kills lives until one ends by itself or enough were killed, compares, and gives the kills."""
    moments = random.Random(seed)
    done = 0
    while done < kills and not one_life(folder / "killed", batches, seed + done, store, moments.uniform(0.0, 0.4)):
        done += 1
    one_life(folder / "killed", batches, seed + 1000, store, None)
    one_life(folder / "quiet", batches, None, store, None)
    ours, quiet = outputs(folder / "killed"), outputs(folder / "quiet")
    wanted = [n for n in range(batches * EVENTS_PER_BATCH) if int(str(event(n)["amount"])) > 3]
    assert len(ours["alerts"]) == len(wanted), (len(ours["alerts"]), len(wanted))
    assert {t: ours[t] for t in ("alerts", "totals")} == {t: quiet[t] for t in ("alerts", "totals")}
    assert last_by_host(ours["per_host"]) == last_by_host(quiet["per_host"])
    assert ours["totals"]
    return done


def last_by_host(records: list[bytes]) -> dict[bytes, bytes]:
    """What an upserting topic says in the end: how many changes of a key come together differs."""
    return {record.split(b",")[0]: record for record in records}


if __name__ == "__main__":
    wanted: Checkpoints = "topic" if sys.argv[5] == "topic" else "rocksdb"
    print(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), wanted))
