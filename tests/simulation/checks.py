"""What must hold after every life."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sqlengine.engine.engine import Engine
from sqlengine.jobs.job import JobState
from tests.simulation import workload
from tests.simulation.workload import Row, expected

if TYPE_CHECKING:
    from tests.simulation.disk import SimulatedDisk
    from tests.simulation.life import Life
    from tests.simulation.node import Node

Found: TypeAlias = "dict[str, list[list[bytes]]]"


def check(life: Life) -> None:
    """AssertionError where rows were lost, doubled or changed."""
    first = life.nodes[0]
    assert first.engine is not None
    _check_health(first.engine)
    _check_events(life, first.engine)
    _check_rows(life, first)
    if len(life.nodes) > 1:
        _check_afar(first.engine, life.nodes[1].engine)


def check_lossy(life: Life) -> None:
    """The server is there, and what is written from now on comes out once, by whatever job reads
    it."""
    node = life.nodes[0]
    engine = node.engine
    assert engine is not None
    _check_health(engine)
    before = Counter(_ids(engine))
    for shard in range(2):
        line = workload.Event(10_000 + shard, 60_000_000, "h1", 7).line()
        engine.broker.append("events", shard, [line], timestamp_ms=0)
    life.rest()
    _check_health(engine)
    after = Counter(_ids(engine)) - before
    hot = {c.name for c in life.operators["a"].made if c.sql} - {"tables"}
    if "hot" in hot:
        assert after["hot", 10_000] == after["hot", 10_001] == 1, after


def check_none_lost(life: Life) -> int:
    """Where rows may come again (delivery at least once): each is there, and no other; how many
    came again."""
    node, again = life.nodes[0], 0
    assert node.engine is not None
    _check_health(node.engine)
    _check_events(life, node.engine)
    found = rows_by_job(node)
    judged = {"hot", *workload.JOBS} - {"ticks"} - ({"window"} if life.late else set())
    for job in sorted(judged & {c.name for c in life.operators["a"].made}):
        mine, wanted = Counter(found.get(job, [])), Counter(expected(job, life.events))
        assert mine >= wanted, f"job {job}: {_difference([*mine.elements()], [*wanted.elements()])}"
        assert mine.keys() == wanted.keys(), f"job {job}: {_difference([*mine], [*wanted])}"
        assert job != "latest" or mine == wanted, "state was not that of the position"
        again += (mine - wanted).total()
    return again


def _ids(engine: Engine) -> list[Row]:
    return list(_decoded(records(engine, "alerts", 0)))


def _check_health(engine: Engine) -> None:
    assert engine.graphs.problem is None, engine.graphs.problem
    assert not engine.graphs.broken
    wrong = [j for j in engine.jobs() if j.state not in (JobState.RUNNING, JobState.DEFINED)]
    assert not wrong, wrong
    assert not engine.log.pending


def _check_events(life: Life, engine: Engine) -> None:
    """What was acknowledged is there, once and in order."""
    for shard, events in enumerate(life.events):
        assert records(engine, "events", shard) == [e.line() for e in events], (
            f"events of shard {shard}"
        )


def _check_rows(life: Life, node: Node) -> None:
    engine = node.engine
    assert engine is not None
    found = rows_by_job(node)
    changes = life.operators["a"].made
    running = {c.name: c.sql for c in changes}
    for job, sql in running.items():
        mine = sorted(found.pop(job, []))
        # Chance decides what is late, and the clock when.
        if job == "ticks" or (job == "window" and life.late):
            continue
        if job in workload.JOBS or job in workload.REPLACED:
            wanted = expected(job, life.events)
            assert mine == wanted, f"job {job}: {_difference(mine, wanted)}"
        elif job.startswith("late"):
            _check_late(job, mine, life)
        elif job.startswith("extra"):
            _check_extra(job, sql, mine, next(c.sql for c in changes if c.name == job), life)
    assert not found, f"rows of {sorted(found)}"
    _check_order(node)
    _check_letters(life, engine)


def _check_letters(life: Life, engine: Engine) -> None:
    """Records that cannot be read are there once for each graph that read them; a graph whose
    reader was withdrawn, or went on in a graph of its own, may read them again for the next one."""
    letters = [json.loads(line) for line in records(engine, "_dead_letters", 0)]
    places = [(x["graph"], x["source"], x["shard"], x["offset"]) for x in letters]
    left = any(c.sql is None for c in life.operators["a"].made) or life.moved
    assert left or len(places) == len(set(places)), f"letters came twice: {sorted(places)}"
    broken = {f"{e.id}" for shard in life.events for e in shard if e.broken}
    found = {x["payload"].split(":")[1].split(",")[0].strip() for x in letters}
    assert found == broken, f"letters of {found}, not of {broken}"


def _check_extra(job: str, sql: str | None, mine: list[Row], text: str | None, life: Life) -> None:
    """All rows; of a job that was withdrawn those of the first records of each shard."""
    assert text is not None
    least = int(text.rsplit(" ", 1)[1])
    for shard, events in enumerate(life.events):
        wanted: list[Row] = [(job, e.id) for e in events if e.amount > least and not e.broken]
        got = _of_shard(mine, shard)
        assert got == (wanted if sql else wanted[: len(got)]), (
            f"job {job}: {_difference(got, wanted)}"
        )


def _of_shard(mine: list[Row], shard: int) -> list[Row]:
    """The rows of a job that came from the shard: each has an id, of which it is the rest."""
    return [row for row in mine if int(str(row[1])) % 2 == shard]


def _check_late(job: str, mine: list[Row], life: Life) -> None:
    """All rows from some record of each shard on."""
    for shard, events in enumerate(life.events):
        wanted: list[Row] = [(job, e.id) for e in events if e.amount > 2 and not e.broken]
        got = _of_shard(mine, shard)
        assert got == wanted[len(wanted) - len(got) :], f"job {job}: {_difference(got, wanted)}"


def _check_order(node: Node) -> None:
    """What a job wrote of one shard is in the order of that shard."""
    assert node.engine is not None
    found = [
        (job, rows) for job, rows in rows_by_job(node).items() if job in ("hot", "rule", "first")
    ]
    found += [("files", _rows_of(node, name)) for name in files(node, node.disk)]
    for job, rows in found:
        ids = [int(str(r[0] if job in ("first", "files", "added") else r[1])) for r in rows]
        for shard in range(2):
            own = [i for i in ids if i % 2 == shard]
            assert own == sorted(own), f"job {job} is out of order: {own}"


def _check_afar(here: Engine, there: Engine | None) -> None:
    assert there is not None
    _check_health(there)
    alerts = records(here, "alerts", 0)
    assert records(there, "arrived", 0) == alerts
    counts = Counter(json.loads(line)["job"] for line in alerts)
    latest = (
        [json.loads(v) for v in there.broker.read_latest("counted").values()]
        if "counted" in names(there)
        else []
    )
    assert {r["job"]: r["n"] for r in latest} == counts


def names(engine: Engine) -> set[str]:
    return {t.name for t in engine.broker.topics()}


def records(engine: Engine, topic: str, shard: int) -> list[bytes]:
    """All records of a shard."""
    found: list[bytes] = []
    offset = engine.broker.begin_offset(topic, shard)
    while (read := engine.broker.read(topic, shard, offset)) is not None:
        found += read.values.to_pylist()
        offset = read.next_offset
    return found


def rows_by_job(node: Node) -> dict[str, list[Row]]:
    engine = node.engine
    assert engine is not None
    found: dict[str, list[Row]] = {}
    for row in _decoded(records(engine, "alerts", 0)):
        found.setdefault(str(row[0]), []).append(row)
    for job, topic in (
        ("first", "mids"),
        ("joined", "joined"),
        ("window", "totals"),
        ("ticks", "ticks"),
    ):
        shards = range(engine.broker.topic(topic).shards)
        found[job] = [row for shard in shards for row in _decoded(records(engine, topic, shard))]
    found["drawn"] = [row[:1] for row in _decoded(records(engine, "drawn", 0))]
    for topic in {"latest", "kept"} & names(engine):
        found[topic] = list(_decoded(engine.broker.read_latest(topic).values()))
    found["stored"], found["added"] = node.database.rows("stored"), node.database.rows("added")
    found["files"] = [row for name in files(node, node.disk) for row in _rows_of(node, name)]
    return {job: rows for job, rows in found.items() if rows}


def _rows_of(node: Node, file: Path) -> list[Row]:
    return list(_decoded(node.disk.read(file).splitlines()))


def folder_of(node: Node) -> Path:
    """Where the file sink writes."""
    return Path(f"/{node.name}/lines")


def files(node: Node, disk: SimulatedDisk) -> list[Path]:
    return [
        folder_of(node) / name for name in disk.names(folder_of(node)) if not name.startswith(".")
    ]


def _decoded(lines: Iterable[bytes]) -> Iterable[Row]:
    return (tuple(json.loads(line).values()) for line in lines)


def _difference(mine: list[Row], wanted: list[Row]) -> str:
    ours, theirs = Counter(mine), Counter(wanted)
    return (
        f"lost {sorted((theirs - ours).elements())[:9]}, too many"
        f" {sorted((ours - theirs).elements())[:9]}"
    )
