"""One Spark session for all tests of this folder: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from parser.errors import ServiceError
from sqlengine.executors.spark.java import require_spark
from sqlengine.executors.spark.session import spark_session


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
