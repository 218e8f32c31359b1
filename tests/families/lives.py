"""Lives of engines with many jobs of few shapes: the same rows, changes, kills and moves for one
that runs families and for one whose jobs run alone. What each job wrote must be equal."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.engine.by_hand import die, step

TABLES = """
CREATE TABLE events (id BIGINT, ms BIGINT, host STRING, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE outs (job STRING, host STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
CREATE TABLE totals (job STRING, host STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'debezium-json');
"""
SHAPES = {
    "tumble": """INSERT INTO outs SELECT '{name}', host, COUNT(*)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host HAVING COUNT(*) > {least}""",
    "hop": """INSERT INTO outs SELECT '{name}', host, MAX(id) - {least}
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '2' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host""",
    "fails": """INSERT INTO outs SELECT '{name}', host, SUM(10 / (id % 4))
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host HAVING 100 / (COUNT(*) - 1) > {least}""",
    "group": """INSERT INTO totals SELECT '{name}', host, n
        FROM (SELECT host, SUM(id) AS n FROM events WHERE {where} GROUP BY host) WHERE n > {least}""",
    "over": """INSERT INTO outs SELECT '{name}', host, n FROM (
        SELECT host, SUM(id) OVER (PARTITION BY host ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n
        FROM events WHERE {where}) WHERE n >= {least}""",
    "all": """INSERT INTO outs SELECT '{name}', host, SUM(n) OVER (PARTITION BY host ORDER BY ts) FROM (
        SELECT host, id AS n, ts FROM events WHERE {where})""",
}
LATE = "SET 'job.late-rows' = 'dead-letter';"


@dataclass
class Life:
    """One engine. Nothing happens in it but what is called."""

    folder: Path
    families: bool
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.open()
        self.engine.submit("tables", TABLES)

    def open(self) -> None:
        config = Config(
            data=self.folder / "data",
            checkpoint_ms=1 << 60,
            savepoints=(self.folder / "kept",),
            families=self.families,
            isolation=False,
        )
        self.engine = Engine(config)
        for topic in ("events", "out", "totals"):
            self.engine.broker.create_topic(topic, if_not_exists=True)

    def kill(self) -> None:
        die(self.engine)
        self.open()

    def restart(self, families: bool) -> None:
        self.engine.close()
        self.families = families
        self.open()

    def append(self, lines: list[bytes]) -> None:
        self.engine.broker.append("events", 0, lines, timestamp_ms=0)
        step(self.engine)

    def checkpoint(self) -> None:
        for graph in self.engine.graphs.by_name.values():
            graph.runner.checkpoint(wait=True)

    def written(self) -> dict[str, list[object]]:
        """What each job wrote, in order: rows, changes and dead letters."""
        found: dict[str, list[object]] = {}
        for topic in ("out", "totals", "_dead_letters"):
            records = self.engine.broker.read(topic, 0, 0)
            for value in [] if records is None else records.values.to_pylist():
                record = json.loads(value)
                if topic == "_dead_letters":
                    found.setdefault(record["job"], []).append(
                        (record["reason"], record["place"], record["payload"], record["offset"])
                    )
                else:
                    row = record.get("after") or record.get("before") or record
                    found.setdefault(row["job"], []).append((topic, record))
        return found

    @property
    def together(self) -> int:
        """The number of jobs that run in families."""
        return sum(len(g.executor.run.member_of) for g in self.engine.graphs.by_name.values())

    @property
    def late(self) -> Counter[str]:
        late: Counter[str] = Counter()
        for graph in self.engine.graphs.by_name.values():
            late.update(graph.executor.late_rows_by_job())
        return late


Action = Callable[[Life], object]


def actions(seed: int, count: int) -> list[tuple[str, Action]]:
    """What happens in a life, in order, with a text for each."""
    chance = random.Random(seed)
    jobs: dict[str, str] = {}
    made: list[tuple[str, Action]] = []
    clock = [1_000]

    def text(name: str, shape: str) -> str:
        where = chance.choice(
            ["host = 'h{}'", "id % 3 = {}", "host <> 'h{}' AND id > 3", "host LIKE '%{}'"]
        ).format(chance.randrange(3))
        late = LATE if chance.random() < 0.3 else ""
        return late + SHAPES[shape].format(name=name, where=where, least=chance.randrange(4))

    def add() -> None:
        name = f"j{len(made)}"
        jobs[name] = chance.choice(list(SHAPES))
        sql = text(name, jobs[name])
        made.append((f"add {name}: {sql}", lambda life: life.engine.submit(name, sql)))

    def change() -> None:
        name = chance.choice(list(jobs))
        sql = text(name, jobs[name])
        keep = f"SET 'job.state' = 'keep'; {sql}" if chance.random() < 0.5 else sql
        made.append((f"change {name}: {keep}", lambda life: life.engine.submit(name, keep)))

    def remove() -> None:
        name = chance.choice(list(jobs))
        del jobs[name]
        made.append((f"remove {name}", lambda life: life.engine.remove(name)))

    def rows() -> None:
        lines = []
        for _ in range(chance.choice([1, 3, 40])):
            clock[0] += chance.choice([0, 10, 100, 700])
            at = clock[0] - chance.choice([0, 0, 0, 50, 1500])
            event = {"id": chance.randrange(20), "ms": at, "host": f"h{chance.randrange(3)}"}
            lines.append(json.dumps(event).encode())
        made.append((f"{len(lines)} rows", lambda life: life.append(lines)))

    def kill() -> None:
        made.append(("kill", Life.kill))

    def checkpoint() -> None:
        made.append(("checkpoint", Life.checkpoint))

    for _ in range(6):
        add()
    for _ in range(count):
        may_remove = 2 if len(jobs) > 2 else 0
        kinds = [rows, add, change, remove, kill, checkpoint]
        chance.choices(kinds, [10, 3, 2, may_remove, 1, 2])[0]()
    rows()
    return made
