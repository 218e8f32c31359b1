"""The two programs that run the engine among real servers, and kill these: nothing is lost, nothing
comes twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from benchmarks.detection_live import run as detection
from benchmarks.iot import run as iot
from benchmarks.scenarios.sql_server import Share
from tests.servers.process import Missing
from tests.support import shared_folder

T = TypeVar("T")
MEMORY = 2**30


def test_events_find_their_way_through_rules() -> None:
    """Without kills, and with few rules."""
    result = detect(detection.Wanted(minutes=0.05, kills=0, rules=20, copies=1))
    assert result.good, result.judged
    assert result.judged.due > 0


@pytest.mark.slow
def test_a_detection_loses_nothing_over_kills() -> None:
    result = detect(detection.Wanted(minutes=1, kills=2, rate=100, copies=1))
    assert result.good, result.judged
    assert [o.name for o in result.outages] == ["sql", "kafka"]


@pytest.mark.slow
def test_a_plant_loses_nothing_over_kills_on_one_core(tmp_path: Path) -> None:
    wanted = iot.Wanted(minutes=1, kills=2, share=Share(1, MEMORY))
    result = unless_missing(lambda: iot.run(wanted, tmp_path / "plant"))
    assert result.good, result
    assert min(result.found.values()) > 0


def detect(wanted: detection.Wanted) -> detection.Result:
    if shared_folder() is None:
        pytest.skip("the folder ../shared, which has the rules and events, is not there")
    return unless_missing(lambda: detection.run(wanted))


def unless_missing(run: Callable[[], T]) -> T:
    """Runs it, or skips the test where a server cannot run."""
    try:
        return run()
    except Missing as error:
        pytest.skip(str(error))
