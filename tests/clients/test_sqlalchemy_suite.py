"""SQLAlchemy's own suite for dialects (`compliance/suite.py` says which parts of it)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqlengine.connection.connecting import connect
from sqlengine.service import Service
from tests.support import ROOT

HERE = "tests.clients.compliance"
CONFIGURATION = f"""[sqla_testing]
requirement_cls={HERE}.requirements:Requirements
profile_file=profiles.txt
"""


@pytest.mark.slow
def test_the_suite_of_sqlalchemy(server: Service, tmp_path: Path) -> None:
    """Each connection reads topics to their present end, as a database would."""
    pytest.importorskip("sqlalchemy", minversion="2", reason="SQLAlchemy 2 is not installed")
    (tmp_path / "setup.cfg").write_text(CONFIGURATION)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    with connect(server.url) as connection:
        for name in ("suite", "test_schema"):
            connection.submit(name, f"CREATE DATABASE {name}")
    url = f"{server.url.replace('http', 'sqlengine')}/suite?execution.runtime-mode=batch"
    program = [sys.executable, "-m", "pytest", "-c", "pytest.ini", f"--rootdir={tmp_path}"]
    plugins = ["-p", f"{HERE}.plugin", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
    chosen = [
        "-o",
        "python_files=suite.py",
        str(ROOT / "tests" / "clients" / "compliance" / "suite.py"),
    ]
    run = subprocess.run(
        [*program, *plugins, "--dburi", url, "-q", "--tb=short", *chosen],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-5000:]
