"""A time to live goes on over restarts: state that nobody touched is forgotten when its time is
over, no matter how often and in which way the server ended meanwhile, or whether the job went on
from a savepoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.machine import THIS
from tests.engine.by_hand import EVENTS, append, die, rows, step

TABLES = EVENTS + "".join(
    f"""CREATE TABLE {name} (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = '{name}', 'format' = 'json', 'upsert' = 'true');"""
    for name in ("counted", "hinted")
)
COUNTED = (
    "SET 'table.exec.state.ttl' = '10 s'; INSERT INTO counted SELECT host, COUNT(*) FROM events"
    " GROUP BY host"
)
HINTED = (
    "INSERT INTO hinted SELECT /*+ STATE_TTL('events' = '30 s') */ host, COUNT(*) FROM events GROUP"
    " BY host"
)
JOINED = """INSERT INTO outs SELECT /*+ STATE_TTL('a' = '10 s', 'b' = '30 s') */ a.host, b.id FROM
(SELECT id, host FROM events WHERE id < 100) a JOIN (SELECT id, host FROM events WHERE id >= 100) b ON a.host = b.host"""


class Life:
    """One server after the other over one folder, on a clock that a test moves."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_700_000_000_000
        self._config = Config(data=folder, checkpoint_ms=1 << 60)
        self.engine = self.opened()

    def opened(self) -> Engine:
        engine = Engine(self._config, replace(THIS, clock=lambda: self.now))
        for topic in ("events", "out", "counted", "hinted"):
            engine.broker.create_topic(topic, if_not_exists=True)
        return engine

    def feed(self, *events: int) -> None:
        append(self.engine, *events)
        step(self.engine)

    def wrote(self, topic: str) -> list[object]:
        return [n for _, n in rows(self.engine, topic)]


def nothing(life: Life) -> None:
    """The server runs on."""


def closed(life: Life) -> None:
    life.engine.close()
    life.engine = life.opened()


def died(life: Life) -> None:
    die(life.engine)
    life.engine.broker.close()
    life.engine = life.opened()


def saved(life: Life) -> None:
    for name in ("counted", "hinted", "joined"):
        path = life.engine.save_job(name, stop=True).savepoint
        life.engine.start_job(name, path)


@pytest.mark.parametrize("between", [nothing, closed, died, saved])
def test_what_nobody_touches_is_forgotten_in_time(
    tmp_path: Path, between: Callable[[Life], None]
) -> None:
    life = Life(tmp_path)
    for name, text in (
        ("tables", TABLES),
        ("counted", COUNTED),
        ("hinted", HINTED),
        ("joined", JOINED),
    ):
        life.engine.submit(name, text)
    life.feed(3)  # host h0
    life.now += 6_000
    between(life)
    life.feed(6, 102)  # h0, three times by now; the join finds both
    assert (life.wrote("counted"), life.wrote("hinted")) == ([1, 3], [1, 3])
    assert sorted(map(str, life.wrote("out"))) == ["102", "102"]
    life.now += 8_000  # 14 s after the first, 8 s after the others
    between(life)
    life.feed(105)
    assert (life.wrote("counted")[-1], life.wrote("hinted")[-1]) == (4, 4)
    # A's first row is forgotten.
    assert sorted(map(str, life.wrote("out"))) == [
        "102",
        "102",
        "105",
    ]
    life.now += 11_000
    between(life)
    life.feed(9)
    assert (life.wrote("counted")[-1], life.wrote("hinted")[-1]) == (1, 5)
    assert sorted(map(str, life.wrote("out")[-2:])) == ["102", "105"]  # b's rows are there still
    life.engine.close()
