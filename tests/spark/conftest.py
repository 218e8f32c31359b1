"""One Spark session for all tests of this folder: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from parser.errors import ServiceError
from sqlengine.executors.spark.session import require_spark, spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session with two cores, which `spark_runner` takes as the active one."""
    try:
        require_spark()
    except ServiceError as error:
        pytest.skip(error.message)
    session = spark_session("tests", cores=2)
    yield session
    session.stop()
