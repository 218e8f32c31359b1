"""What the command line loads before it knows the command."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_no_function_and_no_store_is_loaded_for_a_command_that_needs_none() -> None:
    """Functions convert values when they are loaded, for which Arrow would load pandas before
    `serve` can keep it away: 35 MB for as long as the server runs."""
    program = (
        "import sys, sqlengine.cli; print(*sorted({'udf', 'pandas', 'rocksdict', 'flask'} &"
        " sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        pytest.param(
            "from sqlengine.system.memory import importing\n"
            "with importing(): import sqlengine.service",
            {"asyncio", "pandas", "prometheus_client", "pyspark", "sqlengine.sigma.folder"},
            marks=pytest.mark.slow,
        ),
        ("import sqlengine.functions.worker", {"asyncio", "flask", "pandas", "planner", "ssl"}),
    ],
    ids=["serve", "worker"],
)
def test_a_process_begins_without_what_few_of_its_kind_use(
    program: str, unwanted: set[str]
) -> None:
    ending = f"\nimport sys; print(*sorted({unwanted} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", program + ending], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
