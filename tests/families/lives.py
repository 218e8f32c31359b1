"""Lives of engines with many jobs of few shapes: the same rows, changes, kills and moves for one
that runs families and for one whose jobs run alone. What each job wrote must be equal."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from parser.errors import SqlError
from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.engine.by_hand import die, step

TABLES = """
CREATE TABLE events (id BIGINT, ms BIGINT, host STRING, ts AS TO_TIMESTAMP_LTZ(ms, 3), come AS PROCTIME(), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE owners (host STRING, owner BIGINT, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'owners', 'format' = 'json');
CREATE TABLE outs (job STRING, host STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
CREATE TABLE totals (job STRING, host STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'debezium-json');
"""
TOPICS = ("events", "owners", "out", "totals")
WINDOWS = {
    "tumble": """INSERT INTO outs SELECT '{name}', host, COUNT(*)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND, INTERVAL '{offset}' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host HAVING COUNT(*) > {least}""",
    "fails": """INSERT INTO outs SELECT '{name}', host, SUM({more} / (id % 4))
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host HAVING 100 / (COUNT(*) - 1) > {least}""",
    "session": """INSERT INTO outs SELECT '{name}', host, COUNT(*) + {least} FROM events
        WHERE {where} GROUP BY SESSION(ts, INTERVAL '{size}' SECOND), host""",
    "listed session": """INSERT INTO outs SELECT '{name}', host, CHAR_LENGTH(LISTAGG(CAST(id AS STRING))) FROM events
        WHERE {where} GROUP BY SESSION(ts, INTERVAL '{size}' SECOND), host""",
    "distinct": """INSERT INTO outs SELECT '{name}', host, COUNT(DISTINCT id)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host HAVING COUNT(*) > {least}""",
}
SLICES = {
    "hop": """INSERT INTO outs SELECT '{name}', host, MAX(id * {more}) - {least}
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND, INTERVAL '{double}' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host""",
    "uneven hop": """INSERT INTO outs SELECT '{name}', host, COUNT(*) + {least} FROM events
        WHERE {where} GROUP BY HOP(ts, INTERVAL '{size}' SECOND, INTERVAL '1.5' SECOND), host""",
    "cumulate": """INSERT INTO outs SELECT '{name}', host, SUM(id) + {least}
        FROM TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND, INTERVAL '{double}' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host""",
    "rows in window": """INSERT INTO outs SELECT '{name}', host, id * 10 + nth + {least} FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, host ORDER BY id DESC) AS nth
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND, INTERVAL '{double}' SECOND))
        WHERE {where}) WHERE nth <= 2""",
}
CHANGES = {
    "group": """INSERT INTO totals SELECT '{name}', host, n
        FROM (SELECT host, SUM(id) AS n FROM events WHERE {where} GROUP BY host) WHERE n > {least}""",
    "values": """INSERT INTO totals SELECT '{name}', host, n FROM (
        SELECT host, COUNT(DISTINCT id) AS n FROM events WHERE {where} GROUP BY host) WHERE n > {least}""",
    "over": """INSERT INTO outs SELECT '{name}', host, n FROM (
        SELECT host, SUM(id) OVER (PARTITION BY host ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n
        FROM events WHERE {where}) WHERE n >= {least}""",
    "all": """INSERT INTO outs SELECT '{name}', host, SUM(n) OVER (PARTITION BY host ORDER BY ts) FROM (
        SELECT host, id AS n, ts FROM events WHERE {where})""",
}
RANKS = {
    "first": """INSERT INTO outs SELECT '{name}', host, id + {least} FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY host, id ORDER BY ts) AS nth FROM events WHERE {where}) WHERE nth = 1""",
    "last": """INSERT INTO totals SELECT '{name}', host, id + {least} FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY ts DESC) AS nth FROM events WHERE {where}) WHERE nth = 1""",
    "top": """INSERT INTO totals SELECT '{name}', host, id * 10 + nth FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY id DESC) AS nth FROM events WHERE {where})
        WHERE nth <= {more} AND id > {least}""",
}
EVERY = {
    "every tumble": """INSERT INTO outs SELECT '{name}', host, COUNT(*)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND))
        GROUP BY window_start, window_end, host HAVING COUNT(*) > {least}""",
    "every group": """INSERT INTO totals SELECT '{name}', host, n
        FROM (SELECT host, SUM(id) AS n FROM events GROUP BY host) WHERE n > {least}""",
    "every session": """INSERT INTO outs SELECT '{name}', host, COUNT(*) + {least}
        FROM TABLE(SESSION(TABLE events PARTITION BY host, DESCRIPTOR(ts), INTERVAL '{size}' SECOND))
        GROUP BY window_start, window_end, host""",
}
JOINS = {
    "in window": """INSERT INTO outs SELECT '{name}', a.host, a.id * 20 + b.id + {least} FROM (
        SELECT * FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND)) WHERE {where}) AS a JOIN (
        SELECT * FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND)) WHERE id > {more}) AS b
        ON a.host = b.host AND a.window_start = b.window_start AND a.window_end = b.window_end""",
    "near": """INSERT INTO outs SELECT '{name}', a.host, a.id * 20 + b.id + {least}
        FROM (SELECT * FROM events WHERE {where}) AS a JOIN events AS b
        ON a.host = b.host AND b.ts BETWEEN a.ts - INTERVAL '0.5' SECOND AND a.ts AND a.id * {more} > b.id""",
    "outer": """INSERT INTO outs SELECT '{name}', a.host, COALESCE(b.id, -1) + {least}
        FROM (SELECT * FROM events WHERE {where}) AS a LEFT JOIN (SELECT * FROM events WHERE id > {least}) AS b
        ON a.host = b.host AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '0.5' SECOND AND a.id < b.id + {least}""",
    "tables": """INSERT INTO outs SELECT '{name}', a.host, o.owner + {least}
        FROM (SELECT * FROM events WHERE {where}) AS a JOIN owners AS o
        ON a.host = o.host AND o.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '5' SECOND""",
    "look up": """INSERT INTO outs SELECT '{name}', a.host, o.owner + {least}
        FROM (SELECT * FROM events WHERE {where}) AS a
        LEFT JOIN owners FOR SYSTEM_TIME AS OF a.come AS o ON a.host = o.host""",
    "regular": """INSERT INTO totals SELECT '{name}', a.host, a.id * 10 + o.owner
        FROM (SELECT * FROM events WHERE {where}) AS a LEFT JOIN owners AS o ON a.host = o.host""",
}
CHAINS = {
    "best": """INSERT INTO outs SELECT '{name}', host, n + {least} FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, host) AS nth FROM (
            SELECT host, COUNT(*) AS n, window_start, window_end
            FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND))
            WHERE {where} GROUP BY window_start, window_end, host)) WHERE nth <= 2""",
    "ranked": """INSERT INTO totals SELECT '{name}', host, n * 10 + nth + {least} FROM (
        SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC) AS nth FROM (
            SELECT host, SUM(id) AS n FROM events WHERE {where} GROUP BY host)) WHERE nth <= 2""",
    "joined": """INSERT INTO totals SELECT '{name}', host, n + {least} FROM (
        SELECT a.host, COUNT(*) AS n FROM (SELECT * FROM events WHERE {where}) AS a JOIN owners AS o
        ON a.host = o.host GROUP BY a.host)""",
    "pattern": """INSERT INTO outs SELECT '{name}', host, a * 20 + b + {least}
        FROM (SELECT host, id, ts FROM events WHERE {where}) MATCH_RECOGNIZE (PARTITION BY host ORDER BY ts
        MEASURES A.id AS a, B.id AS b PATTERN (A B) DEFINE B AS B.id * {more} > A.id + 1)""",
}
SHAPES = WINDOWS | SLICES | CHANGES | RANKS | EVERY | JOINS | CHAINS
WHERE = ["host = 'h{}'", "id % 3 = {}", "host <> 'h{}' AND id > 3", "host LIKE '%{}'"]
# Sizes of windows in seconds, and their offsets.
SIZES = {"0.5": "0", "1": "0.25", "1.2": "-0.4", "3": "1"}
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
        for topic in TOPICS:
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

    def append(self, topic: str, lines: list[bytes]) -> None:
        self.engine.broker.append(topic, 0, lines, timestamp_ms=0)
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
    def state(self) -> dict[str, object]:
        """The rows of each table of operations with state, and what waits in them, by operation.
        Rows of interval joins of which nothing comes are removed at times that nobody sees."""
        found: dict[str, object] = {}
        for graph in self.engine.graphs.by_name.values():
            executor = graph.executor
            waiting = executor.waiting()
            for node in graph.runner.graph.nodes:
                sizes = executor.sizes_of(node) if executor.runs(node) else {}
                rows = {n: number for n, (number, _) in sizes.items() if n not in ("left", "right")}
                found[node] = rows, waiting.get(node)
        return found

    @property
    def late(self) -> Counter[str]:
        late: Counter[str] = Counter()
        for graph in self.engine.graphs.by_name.values():
            late.update(graph.executor.counts.late_by_job())
        return late


class Script:
    """What happens in a life whose jobs have some of these `shapes`, drawn by a seed: `made` has it
    in order, with a text for each."""

    def __init__(self, seed: int, shapes: Mapping[str, str]) -> None:
        self.made: list[tuple[str, Action]] = []
        self._chance = random.Random(seed)
        self._shapes = shapes
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
        self._jobs[name] = self._chance.choice(list(self._shapes))
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
            self._clock += chance.choice([0, 10, 100, 700] if chance.random() < 0.97 else [9_000])
            at = self._clock - chance.choice([0, 0, 0, 50, 1500])
            event = {"id": chance.randrange(20), "ms": at, "host": f"h{chance.randrange(3)}"}
            lines.append(json.dumps(event).encode())
        self._do(f"{len(lines)} rows", lambda life: life.append("events", lines))
        if chance.random() < 0.3:
            host, owner = f"h{chance.randrange(3)}", chance.randrange(9)
            line = json.dumps({"host": host, "owner": owner, "ms": self._clock}).encode()
            self._do(f"{host} has owner {owner}", lambda life: life.append("owners", [line]))

    def _do(self, text: str, action: Action) -> None:
        self.made.append((text, action))

    def _any(self) -> str:
        return self._chance.choice(list(self._jobs))

    def _text(self, name: str) -> str:
        where = self._chance.choice(WHERE).format(self._chance.randrange(3))
        late = LATE if self._chance.random() < 0.3 else ""
        shape = self._shapes[self._jobs[name]]
        least = self._chance.randrange(4)
        size = self._chance.choice(list(SIZES))
        return late + shape.format(
            name=name, where=where, least=least, more=least + 2, **lengths(size)
        )


def lengths(size: str) -> dict[str, str]:
    """Returns the lengths of windows in a text, in seconds."""
    return {"size": size, "double": str(2 * float(size)), "offset": SIZES[size]}


def actions(seed: int, shapes: Mapping[str, str], count: int) -> list[tuple[str, Action]]:
    """Returns what happens in a life whose jobs have these shapes."""
    script = Script(seed, shapes)
    for _ in range(6):
        script.add()
    for _ in range(count):
        script.draw()
    script.rows()
    return script.made
