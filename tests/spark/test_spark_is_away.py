"""A server whose Spark is away for a while: the jobs there stand still, and lose nothing; all others
run. Nothing here starts a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Self

import pytest

from parser.errors import ServiceError
from sqlengine.api.app import create_app
from sqlengine.batch import Batch
from sqlengine.engine import Engine
from sqlengine.executors.spark import state_files
from sqlengine.jobs.job import JobState
from sqlengine.machine import THIS
from sqlengine.operators.aggregates.group_aggregate import GroupAggregateOperator
from sqlengine.operators.base import Output
from tests.engine.by_hand import die
from tests.spark.staged import Staged
from tests.spark.test_engine_on_spark import RULE, TABLES, TOTALS, World, await_totals, rows
from tests.support import eventually

ON_SPARK = "SET 'execution.target' = 'spark';"


@dataclass(frozen=True)
class Away(Staged):
    """Spark where `there` is set."""

    there: Event = field(default_factory=Event)

    def session(self) -> Self:
        if not self.there.is_set():
            raise ServiceError("Spark does not start", hint="wait for it")
        return self


@pytest.fixture
def spark() -> Away:
    spark = Away(2)
    spark.there.set()
    return spark


@pytest.fixture
def world(tmp_path: Path, spark: Away) -> World:
    return World(tmp_path / "data", replace(THIS, spark=lambda config: spark))


@pytest.fixture
def engine(world: World) -> Iterator[Engine]:
    engine = world.open("embedded")
    engine.submit("tables", TABLES)
    engine.submit("totals", ON_SPARK + TOTALS.format("TRUE"))
    engine.submit("all", RULE.format(0))
    world.write(engine, 20)
    await_totals(engine, world)
    yield engine
    engine.close()


def others_run(engine: Engine, world: World) -> None:
    """The job beside has all rows, in order, and jobs come and go."""
    eventually(
        lambda: (
            sorted(r["id"] for r in rows(engine, "alerts") if r["rule"] == "0")
            == list(range(len(world.events)))
        )
    )
    assert engine.submit("more", RULE.format(7)).status in ("added", "replaced", "unchanged")


def stands(engine: Engine) -> None:
    """It is told, by what asks whether the server is ready; but nobody should kill it for that."""
    told = eventually(lambda: engine.graphs.problem)
    assert "Spark does not start" in told
    client = create_app(engine).test_client()
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503
    assert engine.job("totals").state is JobState.RUNNING


def comes_back(engine: Engine, world: World, spark: Away) -> None:
    spark.there.set()
    await_totals(engine, world)
    world.write(engine, 10)
    await_totals(engine, world)
    eventually(lambda: engine.graphs.problem is None)
    assert engine.job("totals").restarts == 0


def test_it_goes_while_jobs_run(engine: Engine, world: World, spark: Away) -> None:
    spark.there.clear()
    world.write(engine, 10)
    stands(engine)
    others_run(engine, world)
    comes_back(engine, world, spark)


@pytest.mark.parametrize("again", [False, True])
def test_it_is_away_at_the_start(engine: Engine, world: World, spark: Away, again: bool) -> None:
    """Epochs since the checkpoint have to be repeated, and wait."""
    spark.there.clear()
    for _ in range(1 + again):
        die(engine)
        engine = world.open("embedded")
        world.write(engine, 10)
        stands(engine)
        others_run(engine, world)
    comes_back(engine, world, spark)
    engine.close()


def test_a_job_leaves_while_it_is_away(engine: Engine, world: World, spark: Away) -> None:
    spark.there.clear()
    world.write(engine, 10)
    stands(engine)
    engine.remove("totals")
    eventually(lambda: engine.graphs.problem is None)
    others_run(engine, world)


@pytest.mark.slow
def test_a_job_fails_in_an_epoch_that_a_start_repeats(
    engine: Engine, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It alone: the server starts, and the jobs beside it run, here and there."""
    engine.submit("there", ON_SPARK + RULE.format(3).replace("'3'", "'there'"))
    world.write(engine, 10)
    await_totals(engine, world)
    die(engine)

    def fails(operator: GroupAggregateOperator, port: int, batch: Batch) -> Output:
        raise ValueError("it cannot count")

    with monkeypatch.context() as patch:
        patch.setattr(GroupAggregateOperator, "process", fails)
        engine = world.open("embedded")
        eventually(lambda: engine.job("totals").state is not JobState.RUNNING)
        assert "it cannot count" in str(engine.job("totals").reason)
        world.write(engine, 10)
        others_run(engine, world)
        wanted = [e["id"] for e in world.events if e["v"] >= 3]
        eventually(
            lambda: (
                sorted(r["id"] for r in rows(engine, "alerts") if r["rule"] == "there") == wanted
            )
        )
    engine.start_job("totals")
    await_totals(engine, world)
    engine.close()


def test_the_folder_of_its_state_is_away(
    engine: Engine, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose fault that is, nobody knows."""

    def fails(uri: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(state_files, "create", fails)
        world.write(engine, 10)
        told = eventually(lambda: engine.graphs.problem)
        assert "No space left on device" in told
        others_run(engine, world)
    await_totals(engine, world)
