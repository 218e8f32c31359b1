"""Windows of processing time: they are over when the clock says so, and a graph ticks for them, with or without rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from parser.types import INT, STRING, Schema
from planner.catalog import Catalog
from planner.merge import Graph, merge
from planner.settings import MINI_BATCH
from sqlengine.batch import from_pydict
from sqlengine.connectors.base import Environment
from sqlengine.connectors.memory_tables import Memory
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import EpochRecord
from sqlengine.executors.runner import GraphRunner
from sqlengine.jobs.planning import JobText, plan_job
from sqlengine.results import rows_of

TABLES = """
CREATE TABLE t (k STRING, v INT, p AS PROCTIME()) WITH ('connector' = 'memory', 'name' = 't');
CREATE TABLE o (k STRING, n BIGINT) WITH ('connector' = 'memory', 'name' = 'o');
"""
T0 = 1_700_000_000_000  # a multiple of 10 s
STEPS = "TABLE t, DESCRIPTOR(p), INTERVAL '5' SECOND, INTERVAL '10' SECOND"
ROWS = Schema.of(k=STRING, v=INT)


@dataclass
class Log:
    whole: ClassVar[bool] = True
    records: list[EpochRecord] = field(default_factory=list)

    def append(self, record: EpochRecord) -> int:
        self.records.append(record)
        return len(self.records)

    def read(self, offset: int) -> Iterator[tuple[int, EpochRecord]]:
        return iter([(i + 1, r) for i, r in enumerate(self.records)][offset:])


class Running:
    """One job over table t, whose clock is set by hand."""

    def __init__(self, query: str) -> None:
        self.now, self.memory, self.log = T0, Memory(), Log()
        self.memory.table("t").open = True
        self.say("a", "b", "a")
        environment = Environment(None, lambda: self.now, "job", memory=self.memory)
        executor = EmbeddedExecutor(OperatorFactory())
        self.runner = GraphRunner("g", executor, environment, self.log, None, None, lambda owner: True)
        job = plan_job(JobText("job", f"{TABLES} INSERT INTO o {query};"), Catalog(), {MINI_BATCH: "false"})
        self.runner.apply(self.runner.prepare(merge(Graph(), {"job": job.sinks}), {"job": 1}))

    def say(self, *keys: str) -> None:
        self.memory.table("t").append(from_pydict(ROWS, {"k": list(keys), "v": [1] * len(keys)}))

    def after(self, ms: int) -> list[list[object]]:
        """All rows that have come out at `ms` behind the first ones."""
        self.now = T0 + ms
        while self.runner.step():
            pass
        held = self.memory.table("o").rows
        return [] if held is None else sorted(row for _, row in rows_of(held))


def test_a_window_is_over_without_rows() -> None:
    job = Running("SELECT k, COUNT(*) FROM t GROUP BY k, TUMBLE(p, INTERVAL '10' SECOND)")
    assert job.after(1_000) == []
    assert job.after(9_999) == []
    assert job.after(10_000) == [["a", 2], ["b", 1]]
    assert [r.tick for r in job.log.records] == [False, False, True]
    assert job.after(60_000) == [["a", 2], ["b", 1]]
    assert len(job.log.records) == 3


@pytest.mark.parametrize(
    ("query", "at", "wanted"),
    [
        ("SELECT k, COUNT(*) FROM t GROUP BY k, HOP(p, INTERVAL '5' SECOND, INTERVAL '10' SECOND)", 6_000, [["a", 2]]),
        ("SELECT k, COUNT(*) FROM t GROUP BY k, SESSION(p, INTERVAL '3' SECOND)", 4_500, [["a", 2], ["b", 1]]),
        (
            f"SELECT k, COUNT(*) FROM TABLE(CUMULATE({STEPS})) GROUP BY k, window_start, window_end",
            6_000,
            [["a", 2], ["b", 1]],
        ),
    ],
)
def test_windows_of_all_kinds(query: str, at: int, wanted: list[list[object]]) -> None:
    job = Running(query)
    assert job.after(1_000) == []
    assert job.after(at)[: len(wanted)] == wanted
    job.say("c")
    assert ["c", 1] in job.after(at + 1) or ["c", 1] in job.after(at + 20_000)


def test_what_is_open_at_the_end_of_input_gives_nothing() -> None:
    job = Running("SELECT k, COUNT(*) FROM t GROUP BY k, TUMBLE(p, INTERVAL '10' SECOND)")
    job.memory.table("t").open = False
    assert job.after(1_000) == []
    assert job.runner.finished
