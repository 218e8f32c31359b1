"""The table test programs that pass: none of them may fail again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.program_runs import run_program
from tests.conformance.program_values import joined, materialised, parsed
from tests.conformance.programs import PASSING, Program, programs


@pytest.fixture(scope="module")
def corpus(shared: Path) -> dict[str, Program]:
    return {p.name: p for p in programs(shared / "corpora" / "flink" / "programs.jsonl")}


@pytest.mark.parametrize("name", PASSING.read_text(encoding="utf-8").split())
def test_a_program_that_passed_passes(name: str, corpus: dict[str, Program]) -> None:
    assert not run_program(corpus[name]).faults


def test_rows_as_flink_prints_them_are_read() -> None:
    assert parsed("+U[1, {a=[x, y], b=c}, null]") == ("+U", ("1", "{a=[x, y], b=c}", "null"))


def test_what_is_there_after_all_changes() -> None:
    rows = [
        parsed(t) for t in ("+I[a, 1]", "+I[b, 1]", "-U[a, 1]", "+U[a, 2]", "-D[b, 1]", "+I[a, 2]")
    ]
    assert materialised(rows, (0,)) == {"a, 2": 1}
    assert materialised(rows, ()) == {"a, 2": 2}
    assert joined(rows)["+I[a, 1]"] == 1
