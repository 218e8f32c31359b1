"""A part is taken up by another instance while a source is away whose rows it has to repeat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from parser.errors import ServiceError
from planner.catalog import Table
from sqlengine.cluster.subtask import Subtask
from sqlengine.connectors.base import Source
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import get_connector
from sqlengine.jobs.job import JobState
from tests.cluster.leader import ALL, SHARED, LeaderHarness, leading
from tests.support import eventually


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The tables that cannot be opened for reading."""
    names: set[str] = set()
    connector = get_connector("topic")
    assert connector is not None
    opens = connector.source

    def source(table: Table, environment: Environment) -> Source:
        if table.name[-1] in names:
            raise ServiceError(f"nobody answers for table '{table.name[-1]}'")
        return opens(table, environment)

    monkeypatch.setattr(connector, "source", source)
    return names


@pytest.fixture
def harness(
    tmp_path: Path, away: set[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[LeaderHarness]:
    """The job `all` in two parts; one has died with epochs to repeat, and its source is away."""
    with leading(tmp_path) as harness:
        rarely = replace(harness.config, checkpoint_ms=1 << 60)
        for name in ("one", "two"):
            harness.start(name, rarely)
        harness.engine.submit("all", ALL)
        assert harness.engine.job("all").graph == SHARED
        harness.write(*range(6))
        eventually(lambda: harness.found() == list(range(6)))
        with monkeypatch.context() as patch:
            patch.setattr(Subtask, "close", Subtask.abandon)
            away.add("events")
            harness.stop("two")
        eventually(lambda: "nobody answers" in (harness.graph.problem() or ""))
        yield harness


def test_it_waits_until_the_source_is_back(harness: LeaderHarness, away: set[str]) -> None:
    assert harness.engine.job("all").state is JobState.RUNNING
    harness.write(6, 7)
    away.clear()
    eventually(lambda: harness.found() == list(range(8)), harness.found)
    eventually(lambda: harness.graph.problem() is None)


def test_it_waits_no_more_for_a_job_that_is_removed(harness: LeaderHarness) -> None:
    harness.engine.remove("all")
    eventually(lambda: harness.graph.problem() is None, harness.graph.problem)
