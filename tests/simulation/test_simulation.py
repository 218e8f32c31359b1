"""Lives by seed. `python -m tests.simulation --seed N` shows one with all that happened."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.__main__ import digest, run
from tests.simulation.life import live
from tests.support import PATIENCE_S, ROOT

# Lives that failed once, and what it was.
ONCE_FAILED: dict[int, str] = {
    5: "a loss of power took the new data folder",
    10: "a checkpoint outlived the end of the epoch log",
    15: "a server was stopped while a full disk held output up: its checkpoint was made without that",
    7: "a loss of power took the folder that a shard had moved to",
    207: "a part was opened after a job had left it, and was asked what it has of it",
    37: "a job in parts was saved before it had read anything",
}


@pytest.mark.slow
def test_lives_that_failed_once() -> None:
    met = run(ONCE_FAILED)
    assert not met.failures, "\n".join(met.failures)


def test_lives() -> None:
    met = run(range(8))
    assert not met.failures, "\n".join(met.failures)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(10))
def test_a_thousand_lives(hundred: int) -> None:
    met = run(range(100 * hundred, 100 * hundred + 100))
    assert not met.failures, "\n".join(met.failures)
    assert met.kills["epoch"] >= met.kills.total() / 2
    everything = Counter(met.faults.keys()) & Counter(FAULTS)
    assert everything == Counter(FAULTS), f"never met: {set(FAULTS) - met.faults.keys()}"


FAULTS = (
    "clock jump", "death of a process", "full disk", "loss of power", "message doubled", "message lost",
    "message out of order", "no space", "restart in good order", "slow sink", "torn write",
    "death of an instance", "instance held up", "instance ended in good order", "stopped instance",
    "restart of a job", "isolate of a job", "merge of a job",
)  # fmt: skip


def test_a_seed_gives_the_same_life_in_every_process() -> None:
    seed = 3
    here = digest(live(seed))
    assert digest(live(seed)) == here
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--digest"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stdout.strip() == here, done.stderr
