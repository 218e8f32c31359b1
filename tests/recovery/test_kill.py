"""Servers that are killed under load: what comes out equals an undisturbed run, row by row and in
order.

`python -m tests.recovery` does the same for as many kills as one likes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.recovery.cluster_workload import PATHS as PATHS_IN_PARTS
from tests.recovery.page import PAGE
from tests.recovery.points import POINTS
from tests.recovery.workload import PATHS
from tests.support import ROOT


def kill_servers(*options: str, seed: int = 1) -> str:
    """Runs them, and says what was killed where; the process fails when anything was lost, doubled
    or out of order."""
    command = [sys.executable, "-m", "tests.recovery", "--seed", str(seed), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_few_kills() -> None:
    kill_servers("--kills", "8", "--of-a-run", "4", "--points", "")


@pytest.mark.slow
def test_kills_at_every_point_and_forty_more(update: bool) -> None:
    kill_servers("--kills", "40", *(("--update",) if update else ("--moments", "within")))


def test_the_page_knows_all_points_and_paths() -> None:
    rows = {line.split(" | ")[0].removeprefix("| ") for line in PAGE.read_text().splitlines()}
    points = {
        point
        for points in POINTS.values()
        for point in points
        if not point.startswith("output of ")
    }
    assert {*PATHS, *PATHS_IN_PARTS, *points} <= rows
