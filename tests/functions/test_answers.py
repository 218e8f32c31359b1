"""What functions that are not deterministic gave is what a repetition after a crash gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from parser.errors import ServiceError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.connectors.environment import Callables
from sqlengine.executors.nondeterministic_calls import ANSWERS, NondeterministicCallLog
from sqlengine.functions.answers import run
from sqlengine.functions.host import Binding
from tests.functions.test_python_sinks import EVENTS, Life, table
from tests.support import eventually
from udf.user import Kind, UserFunction

VARYING = """
import itertools, random
from collections.abc import Iterator

from sqlengine import udaf, udf, udtf


@udf(deterministic=False)
def roll(x: str) -> float:
    if x == "never":
        raise ValueError(random.random())
    return random.random()


@udf
def same(x: str) -> str:
    return x


@udtf(deterministic=False)
def rolls(x: str) -> Iterator[float]:
    yield from (random.random() for _ in range(random.randint(1, 3)))


@udaf(deterministic=False)
class Rolled:
    def create_accumulator(self) -> list[float]:
        return []

    def accumulate(self, acc: list[float], x: str) -> None:
        acc.append(random.random())

    def get_value(self, acc: list[float]) -> float:
        return sum(acc) + random.random()
"""
NAMES = ("roll", "same", "rolls", "Rolled")
QUERIES = {
    "scalar": "SELECT roll(host), same(rule) FROM events",
    "twice": "SELECT roll(host), CAST(roll(host) AS STRING) FROM events WHERE roll(rule) > 0.1",
    "table": "SELECT r, host FROM events, LATERAL TABLE(rolls(host)) AS t (r)",
    "aggregate": "SELECT Rolled(host), rule FROM events GROUP BY rule",
}


def die(life: Life) -> None:
    """Nothing is saved behind the last checkpoint."""
    life.engine.graph.loop.stop()
    life.engine.graph.runner.broken = True
    life.engine.close()


@dataclass
class Rolling:
    """An engine with jobs whose functions roll dice, and what their tables have taken."""

    life: Life
    taken: dict[str, list[object]]
    callables: Callables

    def tell(self) -> dict[str, list[object]]:
        """Returns what came of nine rows."""
        for first in "abc":
            self.life.tell((first, "h1"), ("b", "never"), (first, None))
        eventually(lambda: self.life.engine.graph.runner.progress.rows_in >= 9)
        self.life.engine.graph.loop.call(lambda: None)
        assert self.taken.keys() == QUERIES.keys()
        return {name: list(rows) for name, rows in self.taken.items()}

    def die(self) -> None:
        die(self.life)
        self.taken.clear()


def rolling(life: Life) -> Rolling:
    (life.folder / "functions" / "varying.py").write_text(VARYING)
    life.engine.close()
    taken: dict[str, list[object]] = {}

    def take(name: str) -> Callables:
        def rows(batch: pa.RecordBatch) -> None:
            taken.setdefault(name, []).extend(map(repr, batch.to_pylist()))

        return {name: rows}

    callables = {k: v for name in QUERIES for k, v in take(name).items()}
    life.opened(callables)
    life.engine.broker.create_topic("events")
    life.engine.submit("tables", EVENTS)
    creates = "".join(
        f"CREATE TEMPORARY FUNCTION {n} AS 'varying.{n}' LANGUAGE PYTHON;" for n in NAMES
    )
    for name, query in QUERIES.items():
        target = table("x DOUBLE, y STRING", name, "callable")
        life.engine.submit(name, f"{creates}{target}INSERT INTO target {query}")
    return Rolling(life, taken, callables)


def test_a_repetition_gives_the_same(tmp_path: Path) -> None:
    world = rolling(Life(tmp_path))
    before = world.tell()
    world.die()
    world.life.opened(world.callables)
    try:
        assert world.taken == before
    finally:
        world.life.engine.close()


def test_answers_that_retention_has_taken_are_missed_by_a_repetition_that_needs_them(
    tmp_path: Path,
) -> None:
    broker = EmbeddedBroker(tmp_path, fsync="none", clock=lambda: 0, segment_bytes=100)
    broker.create_topic(ANSWERS)
    for _ in range(9):
        broker.append(
            ANSWERS,
            0,
            [b'{"graph": "g", "epoch": 1, "answers": [], "format": 1}'],
            keys=[b"g"],
            timestamp_ms=0,
        )
    broker.trim(ANSWERS, 0, 5)
    rolled = UserFunction("varying.roll", "content", Kind.SCALAR, (), "DOUBLE", deterministic=False)
    answers = NondeterministicCallLog(broker, "g")
    answers.start = 1
    answers.load()
    with answers.recording(1):
        pass  # nothing is asked
    with (
        pytest.raises(ServiceError, match="epoch 2 of graph 'g' cannot be repeated"),
        answers.recording(2),
    ):
        run(rolled, Binding("f", ()), 2, lambda start, end: ({}, []), lambda *_: None)
    broker.close()


def test_records_of_another_format_are_refused(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, fsync="none", clock=lambda: 0)
    broker.create_topic(ANSWERS)
    broker.append(ANSWERS, 0, [b'{"format": 99}'], keys=[b"g"], timestamp_ms=0)
    NondeterministicCallLog(broker, "other").load()
    with pytest.raises(ServiceError, match="has format 99"):
        NondeterministicCallLog(broker, "g").load()
    broker.close()
