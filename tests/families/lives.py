"""Lives of engines with many jobs of few shapes: the same rows, changes, kills and moves for one
that runs families and for one whose jobs run alone. What each job wrote must be equal."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from parser.errors import SqlError
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
WHERE = ["host = 'h{}'", "id % 3 = {}", "host <> 'h{}' AND id > 3", "host LIKE '%{}'"]
LATE = "SET 'job.late-rows' = 'dead-letter';"


Action: TypeAlias = Callable[["Life"], object]


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

    def do(self, action: Action) -> str | None:
        """Does something; returns the error with which it was refused."""
        try:
            action(self)
        except SqlError as error:
            return error.message
        return None

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
            late.update(graph.executor.counts.late_by_job())
        return late


class Script:
    """What happens in a life, drawn by a seed: `made` has it in order, with a text for each."""

    def __init__(self, seed: int) -> None:
        self.made: list[tuple[str, Action]] = []
        self._chance = random.Random(seed)
        self._jobs: dict[str, str] = {}  # the shape of each
        self._clock = 1_000

    def draw(self) -> None:
        """Adds something that happens."""
        may_remove = 2 if len(self._jobs) > 2 else 0
        simple = [
            lambda: self._do("kill", Life.kill),
            lambda: self._do("checkpoint", Life.checkpoint),
        ]
        kinds = [self.rows, self.add, self.change, self.remove, *simple, self.move, self.stop]
        self._chance.choices(kinds, [10, 3, 2, may_remove, 1, 2, 1, 1])[0]()

    def add(self) -> None:
        name = f"j{len(self.made)}"
        self._jobs[name] = self._chance.choice(list(SHAPES))
        sql = self._text(name)
        self._do(f"add {name}: {sql}", lambda life: life.engine.submit(name, sql))

    def change(self) -> None:
        name = self._any()
        keep = "SET 'job.state' = 'keep';" if self._chance.random() < 0.5 else ""
        sql = keep + self._text(name)
        self._do(f"change {name}: {sql}", lambda life: life.engine.submit(name, sql))

    def remove(self) -> None:
        name = self._any()
        del self._jobs[name]
        self._do(f"remove {name}", lambda life: life.engine.remove(name))

    def move(self) -> None:
        name = self._any()
        self._do(f"isolate {name}", lambda life: life.engine.isolate(name))
        self.rows()
        self._do(f"merge {name}", lambda life: life.engine.merge(name))

    def stop(self) -> None:
        name = self._any()
        self._do(f"stop {name}", lambda life: life.engine.stop_job(name))
        self.rows()
        self._do(f"start {name}", lambda life: life.engine.start_job(name))

    def rows(self) -> None:
        chance, lines = self._chance, []
        for _ in range(chance.choice([1, 3, 40])):
            self._clock += chance.choice([0, 10, 100, 700])
            at = self._clock - chance.choice([0, 0, 0, 50, 1500])
            event = {"id": chance.randrange(20), "ms": at, "host": f"h{chance.randrange(3)}"}
            lines.append(json.dumps(event).encode())
        self._do(f"{len(lines)} rows", lambda life: life.append(lines))

    def _do(self, text: str, action: Action) -> None:
        self.made.append((text, action))

    def _any(self) -> str:
        return self._chance.choice(list(self._jobs))

    def _text(self, name: str) -> str:
        where = self._chance.choice(WHERE).format(self._chance.randrange(3))
        late = LATE if self._chance.random() < 0.3 else ""
        shape = SHAPES[self._jobs[name]]
        return late + shape.format(name=name, where=where, least=self._chance.randrange(4))


def actions(seed: int, count: int) -> list[tuple[str, Action]]:
    """Returns what happens in a life."""
    script = Script(seed)
    for _ in range(6):
        script.add()
    for _ in range(count):
        script.draw()
    script.rows()
    return script.made
