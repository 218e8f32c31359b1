"""A standalone cluster of Spark runs the service: what is killed there costs nothing and doubles
nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster_life import Life, living, workload

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


def live(life: Life, kinds: list[str], between: int) -> None:
    """Writes all events, with kills in between."""
    step = len(life.load.events) // len(kinds)
    for number, kind in enumerate(kinds, start=1):
        life.write(step)
        life.kill(kind)
        if number % between == 0:
            life.await_rows()
    life.write(len(life.load.events))
    life.end_time()
    life.await_rows(ended=True)


def test_a_few_kills(spark_is_there: Any, tmp_path: Path) -> None:
    kinds = ["executor", "python", "worker", "server", "python", "executor"]
    with living(tmp_path, workload("network_connection"), 1) as life:
        live(life, kinds, between=3)
        assert life.lives == 2


@pytest.mark.slow
def test_fifty_kills(spark_is_there: Any, tmp_path: Path) -> None:
    kinds = ["executor"] * 18 + ["python"] * 18 + ["worker"] * 6 + ["server"] * 8
    with living(tmp_path, workload("process_creation"), 2) as life:
        life.chance.shuffle(kinds)
        live(life, kinds, between=5)
        print(life.kills)
