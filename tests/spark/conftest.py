"""One Spark session for all tests of this folder: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parser.errors import ServiceError
from sqlengine.engine import Engine
from sqlengine.executors.spark.java import require_spark
from sqlengine.executors.spark.session import spark_session
from sqlengine.machine import THIS
from tests.spark.staged import Staged
from tests.spark.test_engine_on_spark import TABLES, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world whose Spark is staged: no JVM is started."""
    return World(tmp_path / "data", replace(THIS, spark=lambda config: Staged(2)))


@pytest.fixture
def engine(world: World) -> Iterator[Engine]:
    """An engine whose jobs run in this process, unless they say otherwise."""
    engine = world.open("embedded")
    engine.submit("tables", TABLES)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def spark_is_there() -> None:
    """Skips where Spark or Java is missing."""
    try:
        require_spark()
    except ServiceError as error:
        pytest.skip(error.message)


@pytest.fixture(scope="session")
def spark(spark_is_there: Any) -> Iterator[Any]:
    """A session with two cores, which `spark_runner` takes as the active one."""
    session = spark_session("tests", cores=2)
    yield session
    session.stop()
