"""Frames of OVER count with all 38 digits of a DECIMAL."""

from __future__ import annotations

import json
from pathlib import Path

from tests.hostile.scripts import run_script

BASE = 12345678901234567890123456789012345600


def test_a_range_of_long_decimals(tmp_path: Path) -> None:
    """Numbers that are equal in their first 28 digits are as far from each other as they are."""
    rows = ", ".join(f"(CAST('{BASE + n}' AS DECIMAL(38, 0)), {n})" for n in (0, 3, 9, 10))
    run = run_script(
        tmp_path,
        f"""SET 'execution.runtime-mode' = 'batch';
        SELECT n, COUNT(*) OVER (ORDER BY d RANGE BETWEEN 3 PRECEDING AND 1 FOLLOWING) AS c
        FROM (VALUES {rows}) AS t (d, n);""",
    )
    found = [json.loads(line) for line in run.out.splitlines()]
    assert [(r["n"], r["c"]) for r in found] == [(0, 1), (3, 2), (9, 2), (10, 2)], run.err
