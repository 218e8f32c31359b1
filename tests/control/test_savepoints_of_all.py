"""Every kind of operator: a job that is stopped and goes on from its savepoint comes to the same as
its twin that was left alone. They begin in one graph, beside each other."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from sqlengine.engine import Engine
from tests.engine.by_hand import open_engine, step

TABLES, _, QUERIES = (
    (Path(__file__).parents[1] / "state" / "layouts.sql").read_text().partition("\n\n")
)
SINK = """CREATE TEMPORARY VIEW v AS {query};
CREATE TABLE {name} WITH ('connector' = 'topic', 'topic' = '{name}', 'format' = 'debezium-json', 'topic.auto-create' = 'true')
AS SELECT * FROM v"""


def feed(engine: Engine, start: int, end: int) -> None:
    """Rows whose times move on by a second each, by three minutes after each hundred, and back now
    and then."""
    chance = random.Random(start)
    for first in range(start, end, 10):
        for topic in ("events", "others", "changing"):
            lines, keys = [], []
            for n in range(first, first + 10):
                at = n + n // 100 * 180 - chance.choice((0, 0, 0, 3))
                row: dict[str, object] = {"id": n % 37 if topic == "changing" else n // 2}
                row |= {
                    "ts": f"2026-01-01 00:{at // 60:02}:{at % 60:02}",
                    "word": f"h{chance.randrange(4)}",
                }
                row |= {"host": f"h{chance.randrange(3)}", "amount": chance.randrange(-2, 9)}
                lines.append(json.dumps(row).encode())
                keys.append(json.dumps({"id": row["id"]}).encode())
            engine.broker.append(topic, 0, lines, keys=keys, timestamp_ms=0)
        step(engine)


def result(engine: Engine, topic: str) -> Counter[str]:
    """The rows that a changelog leaves."""
    found: Counter[str] = Counter()
    offset = 0
    while (records := engine.broker.read(topic, 0, offset)) is not None:
        for change in map(json.loads, records.values.to_pylist()):
            found.update({json.dumps(change["after"]): 1} if change["after"] is not None else {})
            found.subtract(
                {json.dumps(change["before"]): 1} if change["before"] is not None else {}
            )
        offset = records.next_offset
    return +found


@pytest.mark.slow
def test_all_go_on(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    for topic in ("others", "changing"):
        engine.broker.create_topic(topic)
    engine.submit("tables", TABLES)
    queries = [q.rstrip(";\n ") for q in QUERIES.strip().split(";\n")]
    for number, query in enumerate(queries):
        for who in ("saved", "twin"):
            engine.submit(f"{who}{number}", SINK.format(query=query, name=f"{who}{number}"))
    feed(engine, 0, 200)
    paths = {n: engine.save_job(f"saved{n}", stop=True).savepoint for n in range(len(queries))}
    feed(engine, 200, 260)
    for number, path in paths.items():
        engine.start_job(f"saved{number}", path)
    step(engine)
    feed(engine, 260, 400)
    for number, query in enumerate(queries):
        twin = result(engine, f"twin{number}")
        assert twin, query
        assert result(engine, f"saved{number}") == twin, query
    engine.close()
