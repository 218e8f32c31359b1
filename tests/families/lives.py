"""Lives of engines with many jobs of few shapes: the same rows, changes, kills and moves for one
that runs families and for one whose jobs run alone. What each job wrote must be equal."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from parser.errors import SqlError
from sqlengine.config import Config
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.engine import Engine
from sqlengine.machine import Machine
from tests.engine.by_hand import die, step
from tests.families.shapes import LATE, MAPPED, SIZES, TABLES, TOPICS, WHERE, lengths

# What is compared of a dead letter.
LETTER = ("reason", "place", "subject", "payload", "offset")


Action: TypeAlias = Callable[["Life"], object]


@dataclass
class Life:
    """One engine. Nothing happens in it but what is called."""

    folder: Path
    families: bool
    engine: Engine = field(init=False)
    now: int = 1_000

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.open()
        self.name([("h0", 1, 0)])
        self.engine.submit("tables", TABLES.format(folder=self.folder.parent))

    def open(self) -> None:
        config = Config(
            data=self.folder / "data",
            checkpoint_ms=1 << 60,
            savepoints=(self.folder / "kept",),
            families=self.families,
            isolation=False,
        )
        # Without threads for files: when a version is there depends on nothing.
        self.engine = Engine(config, Machine(clock=lambda: self.now), openings=Openings())
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
        self.now += 10
        self.engine.broker.append(topic, 0, lines, timestamp_ms=0)
        step(self.engine)

    def name(self, rows: Sequence[tuple[str, int, int]]) -> None:
        """Puts other rows into the table that is a file, and has them read. It is that of all
        lives, so that their operations have equal names."""
        text = "".join(",".join(map(str, row)) + "\n" for row in rows)
        file, fresh = (self.folder.parent / name for name in ("names.csv", "fresh.csv"))
        if not file.exists() or file.read_text() != text:
            fresh.write_text(text)
            fresh.replace(file)
        self.now += 10
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
                    letter = tuple(record[name] for name in LETTER)
                    found.setdefault(record["job"], []).append(letter)
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
        if not MAPPED.keys().isdisjoint(self._shapes) and chance.random() < 0.3:
            self.name()
        self._do(f"{len(lines)} rows", lambda life: life.append("events", lines))
        if chance.random() < 0.3:
            host, owner = f"h{chance.randrange(3)}", chance.randrange(9)
            line = json.dumps({"host": host, "owner": owner, "ms": self._clock}).encode()
            self._do(f"{host} has owner {owner}", lambda life: life.append("owners", [line]))

    def name(self) -> None:
        chance = self._chance
        rows = [(f"h{chance.randrange(3)}", chance.randrange(9), chance.randrange(9))] * 2
        rows += [(f"h{chance.randrange(3)}", n, chance.randrange(9)) for n in range(6)]
        self._do(f"names are {rows}", lambda life: life.name(rows))

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


def actions(seed: int, shapes: Mapping[str, str], count: int) -> list[tuple[str, Action]]:
    """Returns what happens in a life whose jobs have these shapes."""
    script = Script(seed, shapes)
    for _ in range(6):
        script.add()
    for _ in range(count):
        script.draw()
    script.rows()
    return script.made
