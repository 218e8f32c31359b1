"""Processing-time windows fire by the clock: a graph ticks for them, with or without rows."""

from __future__ import annotations

import pytest

from parser.types import INT, STRING, Schema
from sqlengine.batch import from_pydict
from sqlengine.connectors.memory.tables import Memory
from tests.operators.running import Running

TABLES = """
CREATE TABLE t (k STRING, v INT, p AS PROCTIME()) WITH ('connector' = 'memory', 'name' = 't');
CREATE TABLE o (k STRING, n BIGINT) WITH ('connector' = 'memory', 'name' = 'o');
"""
STEPS = "TABLE t, DESCRIPTOR(p), INTERVAL '5' SECOND, INTERVAL '10' SECOND"
ROWS = Schema.of(k=STRING, v=INT)


class OverRows(Running):
    """A job over table t, which is in memory."""

    def __init__(self, query: str) -> None:
        memory = Memory()
        memory.table("t").open = True
        _say(memory, "a", "b", "a")
        super().__init__(f"{TABLES} INSERT INTO o {query};", memory)

    def say(self, *keys: str) -> None:
        _say(self.memory, *keys)


def _say(memory: Memory, *keys: str) -> None:
    memory.table("t").append(from_pydict(ROWS, {"k": list(keys), "v": [1] * len(keys)}))


def test_a_window_is_over_without_rows() -> None:
    job = OverRows("SELECT k, COUNT(*) FROM t GROUP BY k, TUMBLE(p, INTERVAL '10' SECOND)")
    assert job.after(1_000) == []
    assert job.after(9_999) == []
    assert job.after(10_000) == [["a", 2], ["b", 1]]
    assert [r.tick for r in job.log.records] == [False, False, True]
    assert job.after(60_000) == [["a", 2], ["b", 1]]
    assert len(job.log.records) == 3


@pytest.mark.parametrize(
    ("query", "at", "wanted"),
    [
        (
            (
                "SELECT k, COUNT(*) FROM t GROUP BY k, HOP(p, INTERVAL '5' SECOND, INTERVAL '10'"
                " SECOND)"
            ),
            6_000,
            [["a", 2]],
        ),
        (
            "SELECT k, COUNT(*) FROM t GROUP BY k, SESSION(p, INTERVAL '3' SECOND)",
            4_500,
            [["a", 2], ["b", 1]],
        ),
        (
            (
                f"SELECT k, COUNT(*) FROM TABLE(CUMULATE({STEPS})) GROUP BY k, window_start,"
                " window_end"
            ),
            6_000,
            [["a", 2], ["b", 1]],
        ),
    ],
)
def test_windows_of_all_kinds(query: str, at: int, wanted: list[list[object]]) -> None:
    job = OverRows(query)
    assert job.after(1_000) == []
    assert job.after(at)[: len(wanted)] == wanted
    job.say("c")
    assert ["c", 1] in job.after(at + 1) or ["c", 1] in job.after(at + 20_000)


def test_windows_open_at_the_end_of_input_emit_nothing() -> None:
    job = OverRows("SELECT k, COUNT(*) FROM t GROUP BY k, TUMBLE(p, INTERVAL '10' SECOND)")
    job.memory.table("t").open = False
    assert job.after(1_000) == []
    assert job.runner.finished
