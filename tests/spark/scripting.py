"""Running a script on one executor, and all that it leaves behind, to compare with another."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from parser.errors import SqlError, render
from parser.script import substitute
from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
from sqlengine.formats.results import rows_of
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session


@dataclass
class Outcome:
    """What came of a script: rows and messages by statement, lines of files, records of topics,
    each in any order. Of a failing statement only its error: which rows came before it is a matter
    of batches."""

    rows: Counter[str] = field(default_factory=Counter)
    errors: dict[int, str] = field(default_factory=dict)
    set_aside: int = 0

    def add(self, where: str, value: object) -> None:
        self.rows[f"{where}: {json.dumps(value)}"] += 1


class Collected:
    def __init__(self, text: str) -> None:
        self._text = text
        self._rows: dict[int, list[object]] = {}
        self.outcome = Outcome()

    def schema(self, stmt: int, schema: Schema) -> None: ...

    def rows(self, stmt: int, batch: Batch) -> None:
        self._rows.setdefault(stmt, []).extend(rows_of(batch))

    def done(self, stmt: int, message: str) -> None:
        self.outcome.add(f"statement {stmt}", message)

    def error(self, stmt: int, error: SqlError) -> None:
        self.outcome.errors[stmt] = render(error, self._text)

    def finish(self) -> Outcome:
        for stmt, rows in self._rows.items():
            for row in rows if stmt not in self.outcome.errors else ():
                self.outcome.add(f"statement {stmt}", row)
        return self.outcome


def run(text: str, data: Path, folder: Path, where: str, rows_per_read: int = 100) -> Outcome:
    """`${DATA}` of the script is `data`; its output and topics are in `folder`."""
    out, topics = folder / "out", folder / "topics"
    text = substitute(text, {"DATA": str(data), "OUT": str(out)})
    collected = Collected(text)
    set_aside = RowsSetAside()
    with open_runner(topics, rows_per_read, where, set_aside) as runner:
        Session(runner, collected).run(text)
    outcome = collected.finish()
    outcome.set_aside = set_aside.rows
    for path in sorted(out.rglob("part-*")):
        for line in path.read_text().splitlines():
            outcome.add(path.parent.name, line)
    _add_topics(topics, outcome)
    return outcome


def _add_topics(folder: Path, outcome: Outcome) -> None:
    broker = EmbeddedBroker(folder, fsync="none", clock=lambda: 0)
    for topic in broker.topics():
        for shard in range(topic.shards):
            records = broker.read(topic.name, shard, 0, max_records=1_000_000)
            for value in records.values.to_pylist() if records else ():
                outcome.add(topic.name, None if value is None else value.decode())
    broker.close()


def write_data(folder: Path) -> None:
    """`many`: three files of different lengths; `one`: one file; rows of all may be late.
    `broken.json`: a bad record."""
    rng = random.Random(11)
    for name, rows in (("many/0", 900), ("many/1", 650), ("many/2", 330), ("one/0", 700)):
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(_lines(rng, rows)))
    (folder / "broken.json").write_text('{"k": "a", "v": 1}\n{"k": \n{"k": "c", "v": 3}')


def _lines(rng: random.Random, rows: int) -> list[str]:
    now, lines = 0, []
    for _ in range(rows):
        now += rng.randint(0, 120)
        at = max(now - rng.choice([0, 0, 0, 500, 3_000, 9_000]), 0)
        ts = f"2024-01-01 00:{at // 60_000:02}:{at // 1000 % 60:02}.{at % 1000:03}"
        lines.append(
            json.dumps({"ts": ts, "k": rng.choice("abcdef"), "v": rng.randint(0, 20)}) + "\n"
        )
    return lines
