"""Every golden statement leaves the same rows when its graph is distributed over three subtasks, which are
killed and moved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pages import STREAMING
from tests.sql.golden import Script
from tests.subtasks.comparison import compare, run_with_rescaling
from tests.subtasks.coverage_page import PAGE

QUICK = {
    *(
        "changelog/functions",
        "groups/set_operations",
        "insert/statement_sets",
        "joins/temporal",
        "match/after_ranks",
    ),
    *("over/late_after_all", "ranks/partition_only", "windows/cascade_gap"),
}
CHANGING = {
    *(
        "aggregates/of_nothing",
        "aggregates/retraction",
        "joins/regular",
        "joins/temporal",
        "match/measures",
    ),
    *("over/frames_and_functions", "ranks/top_n", "windows/cascade_gap"),
}
EACH = [
    pytest.param(s, id=s.name, marks=[] if s.name in QUICK else [pytest.mark.slow])
    for s in STREAMING
]


@pytest.mark.parametrize("script", EACH)
def test_the_same_rows_in_parts(
    script: Script, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    report = compare(script, tmp_path / "run")
    record_property(PAGE.key, report.to_property(script))
    assert not report.failures, "\n".join(report.failures)


@pytest.mark.slow
def test_little_is_left_out() -> None:
    if not PAGE.complete:
        pytest.skip("not all golden scripts have been run in parts in this process")
    done = PAGE.total.done
    assert done["distributed"] > 0.9 * done["statements"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", [s for s in STREAMING if s.name in CHANGING], ids=lambda s: s.name
)
def test_the_same_rows_while_the_number_of_parts_changes(script: Script, tmp_path: Path) -> None:
    report = compare(script, tmp_path / "run", run_with_rescaling)
    assert not report.failures, "\n".join(report.failures)
