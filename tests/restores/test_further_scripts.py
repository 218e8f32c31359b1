"""What golden scripts cannot hold, since Flink goes by the clock of its machine: state that is
forgotten, silent sources, processing time, chance; and dead letters and topics, which Flink has
not. Through the same lives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.restores.running import thorough
from tests.sql.golden import Script

QUICK = {"silence"}
SCRIPTS = [
    pytest.param(p, id=p.stem, marks=[] if p.stem in QUICK else [pytest.mark.slow])
    for p in sorted((Path(__file__).parent / "scripts").glob("*.sql"))
]


@pytest.mark.parametrize("path", SCRIPTS)
def test_the_same_rows_again(path: Path, tmp_path: Path) -> None:
    report = thorough(Script(path), tmp_path / "run")
    assert not report.failures, "\n".join(report.failures)
    assert not report.refused, "all statements run"
    assert report.done["kills"] > 0
