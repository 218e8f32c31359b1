"""Scripts whose rows once depended on how many were read at a time, at more sizes than all scripts
are run with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sql.golden import answers, run, scripts
from tests.sql.test_goldens import difference, wanted

NAMES = (
    "windows/parts_of_one",
    "windows/combined",
    "windows/cascade_gap",
    "over/late_after_all",
    "over/late_then_windows",
)


@pytest.mark.parametrize("rows_per_read", [2, 4, 5, 7])
@pytest.mark.parametrize("name", NAMES)
def test_rows_do_not_depend_on_what_is_read_at_a_time(
    name: str, rows_per_read: int, tmp_path: Path
) -> None:
    script = next(s for s in scripts() if s.name == name)
    events, _ = run(script, tmp_path, rows_per_read)
    found, expected = answers(script, events), wanted(script)
    assert found == expected, difference(script, found, expected)
