"""What engines do, once more with their graphs in tasks: see `in_tasks.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

AREAS = {
    "service": ("tests/service",),
    "changes": ("tests/control/test_tables_that_change.py", "tests/control/test_drain.py"),
    "letters": ("tests/service/test_shared_letters.py", "tests/engine/test_kept_jobs.py"),
    "functions": ("tests/functions",),
    "lookups": (
        "tests/recovery/test_reloaded_files.py",
        "tests/dimensions/test_versions.py",
        "tests/dimensions/test_asked.py",
    ),
}
# The results of one depend on the order in which rows of different keys come; the other counts the
# processes of functions, of which tasks have their own.
LEFT_OUT = (
    "tests/functions/test_functions_sql.py::test_aggregate_over_rows_that_are_updated",
    "tests/service/test_queries.py::test_a_function_that_fails_for_a_query_runs_on_for_its_jobs",
)


@pytest.mark.slow
@pytest.mark.parametrize("area", AREAS)
def test_engines_do_the_same_in_tasks(area: str, tmp_path: Path) -> None:
    chosen = (
        "-m",
        "not slow and not spark and not oracle",
        *(f"--deselect={name}" for name in LEFT_OUT),
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.spark.in_tasks", *chosen]
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'of'}", *AREAS[area]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
