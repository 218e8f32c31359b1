"""The jobs of an engine whose graphs run on Spark: they come, change and go while rows flow, the
engine dies and comes back, and totals and alerts are those of a count by another path."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from parser.errors import UnsupportedError
from sqlengine.config import Config, Target
from sqlengine.engine import Engine
from sqlengine.executors.spark import state_files
from sqlengine.graphs.event_times import event_times
from sqlengine.machine import THIS, Machine
from tests.engine.by_hand import die
from tests.spark.staged import Staged
from tests.support import eventually

TABLES = """
CREATE TABLE events (id BIGINT, k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE totals (k STRING, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true', 'topic.auto-create' = 'true');
CREATE TABLE alerts (rule STRING, id BIGINT) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE windows (k STRING, e TIMESTAMP(3), n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'windows', 'format' = 'json');
"""
TOTALS = "INSERT INTO totals SELECT k, COUNT(*), SUM(v) FROM events WHERE {} GROUP BY k"
WINDOWS = """INSERT INTO windows SELECT k, window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"""
RULE = "INSERT INTO alerts SELECT '{0}', id FROM events WHERE v >= {0}"
STATEFUL = {"totals": TOTALS.format("TRUE"), "windows": WINDOWS}
SHARDS = 2


@dataclass
class World:
    """An engine over one folder, and the events that were written."""

    folder: Path
    machine: Machine
    events: list[dict[str, Any]] = field(default_factory=list)
    random: random.Random = field(default_factory=lambda: random.Random(7))
    shards: int = SHARDS

    def open(self, target: Target = "spark", kept: Path | None = None) -> Engine:
        savepoints = () if kept is None else (kept,)
        config = Config(data=self.folder, target=target, savepoints=savepoints)
        engine = Engine(config, self.machine)
        for topic, shards in (("events", SHARDS), ("alerts", 1), ("windows", 1)):
            engine.broker.create_topic(topic, shards, if_not_exists=True)
        engine.start()
        return engine

    def write(self, engine: Engine, rows: int) -> None:
        """Events whose times grow with their numbers, in all shards."""
        for _ in range(rows):
            number = len(self.events)
            event = {
                "id": number,
                "k": self.random.choice("abcde"),
                "v": self.random.randint(0, 9),
                "ts": f"2024-01-01 00:{number // 60:02}:{number % 60:02}",
            }
            self.events.append(event)
            line = json.dumps(event).encode()
            engine.broker.append("events", number % self.shards, [line], timestamp_ms=number)

    def totals(self) -> dict[str, tuple[int, int]]:
        counts, sums = Counter[str](), Counter[str]()
        for event in self.events:
            counts[event["k"]] += 1
            sums[event["k"]] += event["v"]
        return {k: (n, sums[k]) for k, n in counts.items()}


def totals(engine: Engine) -> dict[str, tuple[int, int]]:
    found = map(json.loads, engine.broker.read_latest("totals").values())
    return {row["k"]: (row["n"], row["s"]) for row in found}


def await_totals(engine: Engine, world: World) -> None:
    eventually(lambda: totals(engine) == world.totals(), lambda: str(totals(engine)))


def rows(engine: Engine, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    offset = 0
    while (records := engine.broker.read(topic, 0, offset)) is not None:
        found += map(json.loads, records.values.to_pylist())
        offset = records.next_offset
    return found


def counted(windows: Sequence[dict[str, Any]]) -> Counter[tuple[str, int]]:
    """The rows by key and window; a window has ten events."""
    found: Counter[tuple[str, int]] = Counter()
    for row in windows:
        minute, second = map(int, row["e"][14:19].split(":"))
        found[row["k"], (minute * 60 + second) // 10 - 1] += row["n"]
    return found


def live(world: World, rounds: int) -> None:
    engine = world.open()
    engine.submit("tables", TABLES)
    engine.submit("totals", TOTALS.format("TRUE"))
    engine.submit("windows", WINDOWS)
    engine.submit("all", RULE.format(0))
    for n in range(1, rounds + 1):
        world.write(engine, 20)
        engine.submit(f"rule{n}", RULE.format(n))  # begins a graph of its own, and joins the others
        world.write(engine, 20)
        # Another statement beside it: the first one goes on with its state.
        engine.submit("totals", TOTALS.format("TRUE") + f" -- {n}\n; " + RULE.format(10 + n))
        if n > 1:
            engine.remove(f"rule{n - 1}")
        if n % 2:
            engine.stop_job("totals")
            world.write(engine, 10)
            engine.start_job("totals")
        else:
            await_totals(engine, world)
            die(engine)
            engine = world.open()
            world.write(engine, 10)
    try:
        check(engine, world)
    finally:
        engine.close()


def check(engine: Engine, world: World) -> None:
    ids = [event["id"] for event in world.events]

    def alerts() -> list[int]:
        return sorted(row["id"] for row in rows(engine, "alerts") if row["rule"] == "0")

    await_totals(engine, world)
    eventually(lambda: alerts() == ids, lambda: f"{len(alerts())} of {len(ids)}")
    whole = [e for e in world.events if e["id"] < (len(ids) - world.shards) // 10 * 10]
    wanted = Counter((e["k"], e["id"] // 10) for e in whole)

    eventually(lambda: counted(rows(engine, "windows")) == wanted)
    assert {job.state.value for job in engine.jobs()} == {"running", "defined"}


@pytest.mark.slow
def test_jobs_live_in_stages(tmp_path: Path) -> None:
    """All of it but Spark itself."""
    live(World(tmp_path, replace(THIS, spark=lambda config: Staged(3))), rounds=8)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_jobs_live_on_spark(spark: Any, tmp_path: Path) -> None:
    live(World(tmp_path, THIS), rounds=2)


def test_what_tasks_cannot_run_is_refused(tmp_path: Path) -> None:
    """Before anything changes: the other jobs run on."""
    world = World(tmp_path, replace(THIS, spark=lambda config: Staged(2)))
    engine = world.open()
    engine.submit("tables", TABLES)
    engine.submit("totals", TOTALS.format("TRUE"))
    with pytest.raises(UnsupportedError, match="watermarks at intervals"):
        engine.submit("paced", f"SET 'pipeline.auto-watermark-interval' = '1 s'; {WINDOWS}")
    world.write(engine, 10)
    await_totals(engine, world)
    engine.close()


@pytest.mark.parametrize("first", ["embedded", "spark"])
def test_a_savepoint_of_either_starts_the_other(tmp_path: Path, first: Target) -> None:
    """Rows in the middle of a window are among its state, and the watermark goes on."""
    machine = replace(THIS, spark=lambda config: Staged(2))
    world = World(tmp_path / "one", machine)
    kept = tmp_path / "kept"
    engine = world.open(first, kept)
    for name, text in {"tables": TABLES, **STATEFUL}.items():
        engine.submit(name, text)
    world.write(engine, 25)
    await_totals(engine, world)
    eventually(lambda: len(rows(engine, "windows")) > 5)
    windows = rows(engine, "windows")
    taken = {name: engine.save_job(name, str(kept), stop=True).savepoint for name in STATEFUL}
    engine.close()
    other = World(tmp_path / "two", machine, world.events)
    again = other.open("embedded" if first == "spark" else "spark", kept)
    again.submit("tables", TABLES)
    for number, event in enumerate(world.events):
        again.broker.append("events", number % SHARDS, [json.dumps(event).encode()], timestamp_ms=0)
    for name, text in STATEFUL.items():
        again.submit(name, text, savepoint=taken[name])
    other.random = world.random
    other.write(again, 25)
    await_totals(again, other)
    wanted = Counter((e["k"], e["id"] // 10) for e in world.events[:40])
    eventually(lambda: counted([*windows, *rows(again, "windows")]) == wanted)
    again.close()


def test_a_folder_goes_on_in_tasks_and_back(tmp_path: Path) -> None:
    """Also after a kill behind which epochs are repeated."""
    world = World(tmp_path, replace(THIS, spark=lambda config: Staged(2)))
    engine = world.open("embedded")
    for name, text in {"tables": TABLES, **STATEFUL}.items():
        engine.submit(name, text)
    for turn in range(6):
        world.write(engine, 25)
        await_totals(engine, world)
        if turn % 2:
            die(engine)
        else:
            engine.close()
        engine = world.open("embedded" if turn in (2, 3) else "spark")
        world.write(engine, 10)
        await_totals(engine, world)
    engine.close()
    engine = world.open("embedded")
    engine.drain_job("windows")
    wanted = Counter((e["k"], e["id"] // 10) for e in world.events)
    assert counted(rows(engine, "windows")) == wanted
    assert len(rows(engine, "windows")) == len(wanted)
    engine.close()
    engine = world.open("embedded")
    assert not (tmp_path / "tasks" / "main").exists()
    engine.close()


def test_a_silent_shard_holds_windows_back_for_its_timeout_alone(tmp_path: Path) -> None:
    """And who looks at the job sees how far its table is."""
    world = World(tmp_path, replace(THIS, spark=lambda config: Staged(2)))
    engine = world.open()
    idle = "'format' = 'json', 'scan.watermark.idle-timeout' = '1 s',"
    engine.submit("tables", TABLES.replace("'format' = 'json',", idle, 1))
    engine.submit("windows", WINDOWS)
    for number in range(25):
        line = json.dumps({"id": number, "k": "a", "v": 1, "ts": f"2024-01-01 00:00:{number:02}"})
        engine.broker.append("events", 0, [line.encode()], timestamp_ms=number)
    eventually(lambda: counted(rows(engine, "windows")) == {("a", 0): 10, ("a", 1): 10})
    (graph,) = (g for g in engine.graphs.by_name.values() if "windows" in g.runner.jobs)

    def seen() -> tuple[int, dict[str, bool]]:
        (times,) = graph.loop.call(lambda: event_times(graph.executor)).tables.values()
        return times.watermark, {shard: time.idle for shard, time in times.shards.items()}

    eventually(lambda: seen() == (1_704_067_224_000, {"0": True, "1": True}))
    engine.close()


def test_a_fault_in_a_task_is_seen_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whose it is: the graph stands still and says so, and goes on once it can, or after
    a restart."""
    world = World(tmp_path, replace(THIS, spark=lambda config: Staged(2)))
    engine = world.open()
    for name, text in {"tables": TABLES, "totals": TOTALS.format("TRUE")}.items():
        engine.submit(name, text)
    world.write(engine, 20)
    await_totals(engine, world)

    def fails(uri: str, data: bytes) -> None:
        raise RuntimeError("the task is confused")

    with monkeypatch.context() as patch:
        patch.setattr(state_files, "create", fails)
        world.write(engine, 10)
        told = eventually(lambda: engine.graphs.problem)
        assert "internal error in a task on Spark" in told
        die(engine)
    engine = world.open()
    world.write(engine, 10)
    await_totals(engine, world)
    engine.close()


def test_a_graph_without_state_rests_after_a_restart(tmp_path: Path) -> None:
    """No operator waits for the clock: no epoch without rows."""
    world = World(tmp_path, replace(THIS, spark=lambda config: Staged(2)))
    engine = world.open()
    for name, text in {"tables": TABLES, "all": RULE.format(0)}.items():
        engine.submit(name, text)
    world.write(engine, 10)
    eventually(lambda: len(rows(engine, "alerts")) == 10)
    engine.close()
    engine = world.open()
    runner = engine.graphs.by_name["main"].runner
    before = runner.epoch
    time.sleep(0.3)
    assert runner.epoch - before < 3
    world.write(engine, 10)
    eventually(lambda: len(rows(engine, "alerts")) == 20)
    engine.close()


@pytest.mark.parametrize("target", ["embedded", "spark"])
def test_a_window_beside_a_rule_waits_for_all_shards(tmp_path: Path, target: Target) -> None:
    """Also for one that was read before the window came, and is silent since."""
    world = World(tmp_path, replace(THIS, spark=lambda config: Staged(2)))
    engine = world.open(target)
    latest = "'format' = 'json', 'scan.startup.mode' = 'latest-offset'"
    tables = TABLES.replace("'format' = 'json', 'scan.startup.mode' = 'earliest-offset'", latest)

    def write(shard: int, second: int) -> None:
        event = {"id": second, "k": "a", "v": 1, "ts": f"2024-01-01 00:00:{second:02}"}
        line = json.dumps(event).encode()
        engine.broker.append("events", shard, [line], timestamp_ms=0)

    engine.submit("tables", tables)
    engine.submit("all", RULE.format(0))
    for shard in range(SHARDS):
        write(shard, shard)
    eventually(lambda: len(rows(engine, "alerts")) == SHARDS)
    engine.submit("windows", WINDOWS)
    (graph,) = (g for g in engine.graphs.by_name.values() if "windows" in g.runner.jobs)
    assert "all" in graph.runner.jobs, "they share what they read"
    write(0, 21)
    write(0, 45)
    eventually(lambda: len(rows(engine, "alerts")) == SHARDS + 2)
    write(1, 22)  # in time: its own shard has come no further
    eventually(lambda: len(rows(engine, "alerts")) == SHARDS + 3)
    write(1, 46)
    eventually(lambda: counted(rows(engine, "windows"))[("a", 2)] == 2)
    engine.close()
