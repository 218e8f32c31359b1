"""The programs of docs/clients.md run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.flink_clients import jdbc
from tests.support import ROOT

PAGE = (Path(ROOT) / "docs" / "clients.md").read_text()


def program(language: str, address: str, folder: Path, name: str) -> Path:
    """The page's last program, for a server at another address."""
    *_, text = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    path = folder / name
    path.write_text(text.replace("127.0.0.1:8083", address))
    return path


def test_the_program_in_python(address: str, tmp_path: Path) -> None:
    path = program("python", address, tmp_path, "example.py")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert sorted(done.stdout.splitlines()) == ["INSERT a 2", "INSERT b 1"], done.stderr


@pytest.mark.slow
def test_the_program_in_java(address: str, tmp_path: Path) -> None:
    printed = jdbc(address, program("java", address, tmp_path, "Example.java"), tmp_path)
    assert sorted(printed.splitlines()) == ["a 2", "b 1"]
