"""SIGKILL at random moments under load: what comes out equals the undisturbed run, row by row and in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def kill_lives(folder: Path, kills: int, batches: int, seed: int) -> int:
    """Runs lives under load until so many were killed or all events are read; gives the number of kills. The process
    fails when anything was lost, doubled or out of order."""
    arguments = [str(folder), str(kills), str(batches), "0.01", str(seed)]
    command = [sys.executable, "-m", "tests.recovery.kills", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout.split()[-1])


def test_twenty_kills(tmp_path: Path) -> None:
    assert kill_lives(tmp_path, 20, 400, seed=1) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("fifty", range(4))
def test_two_hundred_kills(tmp_path: Path, fifty: int) -> None:
    kills = 0
    for seed in range(100 * fifty, 100 * fifty + 100):
        if kills >= 50:
            break
        kills += kill_lives(tmp_path / str(seed), 50 - kills, 1500, seed=seed)
    assert kills >= 50
