"""A new job gets all records that it asks for, however far others read while it is prepared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqlengine.engine import Engine
from sqlengine.engine.deploying.deployment import Deployment
from tests.engine.by_hand import EVENTS, append, of_job, open_engine, step

MODES = {"earliest": "earliest-offset", "latest": "latest-offset"}
TEXT = EVENTS.replace("'format'", "'scan.startup.mode' = '{}', 'format'", 1)
ROWS = "INSERT INTO outs SELECT '{}', id FROM events"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(tmp_path, shards=2)
    yield engine
    engine.close()


def reading_meanwhile(engine: Engine, patch: pytest.MonkeyPatch, *times: int) -> None:
    """While a change is prepared records come, and graphs read what they may."""
    sound: Callable[..., object] = Deployment._prepare

    def prepare(*given: object) -> object:
        append(engine, *times)
        step(engine)
        return sound(*given)

    patch.setattr(Deployment, "_prepare", prepare)


@pytest.mark.parametrize("there", [(), (1, 2, 3)])
def test_a_job_that_asks_for_all_gets_all(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, there: tuple[int, ...]
) -> None:
    engine.submit("tables", TEXT.format(MODES["earliest"]))
    engine.submit("a", ROWS.format("a"))
    append(engine, *there)
    reading_meanwhile(engine, monkeypatch, 4, 5)
    engine.submit("b", ROWS.format("b"))
    append(engine, 6)
    step(engine)
    assert of_job(engine, "b") == [*there, 4, 5, 6]
    assert of_job(engine, "a") == of_job(engine, "b")
    assert engine.job("b").graph == "main"


def test_others_do_not_wait_for_one_that_begins_at_the_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(engine, 0, shard=1)  # of an empty shard nobody knows whether its end is its beginning
    engine.submit("tables", TEXT.format(MODES["latest"]))
    engine.submit("a", ROWS.format("a"))
    append(engine, 1, 2)
    step(engine)
    read = list[int]()

    sound: Callable[..., object] = Deployment._prepare

    def seen(*given: object) -> object:
        append(engine, 3)
        step(engine)
        read.append(len(of_job(engine, "a")))
        return sound(*given)

    monkeypatch.setattr(Deployment, "_prepare", seen)
    engine.submit("b", ROWS.format("b"))
    assert read == [3]
    append(engine, 4)
    step(engine)
    assert of_job(engine, "b") == [4]
    assert of_job(engine, "a") == [1, 2, 3, 4]
