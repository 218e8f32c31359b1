"""Every golden statement gives its rows also through kills and restores, in several instances, and
over shards that are read in other orders; see running.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pages import STREAMING
from tests.restores.coverage_page import PAGE
from tests.restores.running import thorough
from tests.sql.golden import Script

QUICK = {"insert/statement_sets", "windows/proctime"}
EACH = [
    pytest.param(s, id=s.name, marks=[] if s.name in QUICK else [pytest.mark.slow])
    for s in STREAMING
]


@pytest.mark.parametrize("script", EACH)
def test_the_same_rows_again(
    script: Script, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    report = thorough(script, tmp_path / "run")
    record_property(PAGE.key, report.to_property(script))
    assert not report.failures, "\n".join(report.failures)


@pytest.mark.slow
def test_little_is_left_out() -> None:
    if not PAGE.complete:
        pytest.skip("not all golden scripts have been run again in this process")
    done = PAGE.total.done
    assert done["restored"] > 0.9 * done["statements"]
    assert done["in instances"] > 0.5 * done["with state"]
    assert done["interleaved"] > 0.3 * done["statements"]
