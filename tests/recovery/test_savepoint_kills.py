"""Jobs that are stopped with savepoints and go on, in servers that are killed: nothing is lost, nothing doubled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def savepoint_lives(folder: Path, kills: int, batches: int, seed: int, store: str) -> int:
    command = [sys.executable, "-m", "tests.recovery.savepoint_lives", *map(str, (folder, kills, batches, seed, store))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout.split()[-1])


def test_stops_and_starts_with_a_few_kills(tmp_path: Path) -> None:
    savepoint_lives(tmp_path, 3, 60, seed=1, store="rocksdb")


@pytest.mark.slow
@pytest.mark.parametrize("store", ["rocksdb", "topic"])
@pytest.mark.parametrize("seed", [100, 200])
def test_stops_and_starts_with_many_kills(tmp_path: Path, seed: int, store: str) -> None:
    assert savepoint_lives(tmp_path, 25, 1200, seed=seed, store=store) >= 10
