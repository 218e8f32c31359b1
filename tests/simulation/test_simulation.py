"""Lives by seed. `python -m tests.simulation --seed N` shows one with all that happened."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation import checks, planner
from tests.simulation.__main__ import PAGE, digest, page
from tests.simulation.life import Life, live
from tests.simulation.many import Met, run, run_many
from tests.simulation.world import World
from tests.support import PATIENCE_S, ROOT

# Lives that failed once, and what it was.
ONCE_FAILED: dict[int, str] = {
    5: "a loss of power took the new data folder",
    10: "a checkpoint outlived the end of the epoch log",
    15: (
        "a server was stopped while a full disk held output up: its checkpoint was made without"
        " that"
    ),
    7: "a loss of power took the folder that a shard had moved to",
    207: "a part was opened after a job had left it, and was asked what it has of it",
    37: "a job in parts was saved before it had read anything",
    11505: "an instance told how far a part is that it had lost",
    4479: (
        "a loss of power brought back what a full disk had cut off a segment that another one"
        " followed"
    ),
    5241: "a group had committed records that a loss of power took",
}


@pytest.mark.slow
def test_lives_that_failed_once() -> None:
    met = run(ONCE_FAILED)
    assert not met.failures, "\n".join(met.failures.values())


def test_lives() -> None:
    met = run(range(8))
    assert not met.failures, "\n".join(met.failures.values())


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(10))
def test_a_thousand_lives(hundred: int) -> None:
    met = run(range(100 * hundred, 100 * hundred + 100))
    assert not met.failures, "\n".join(met.failures.values())
    assert met.kills["epoch"] >= met.kills.total() / 2
    assert len(planner.made) < 200, (
        "plans are kept by what they depend on, however many lives there were"
    )
    everything = Counter(met.faults.keys()) & Counter(FAULTS)
    assert everything == Counter(FAULTS), f"never met: {set(FAULTS) - met.faults.keys()}"


FAULTS = (
    "clock jump", "death of a process", "full disk", "loss of power", "message doubled", "message lost",
    "message out of order", "no space", "restart in good order", "slow sink", "torn write",
    "death of an instance", "instance held up", "instance ended in good order", "stopped instance",
    "restart of a job", "isolate of a job", "merge of a job",
)  # fmt: skip


@pytest.mark.slow
def test_several_processes_tell_of_the_same_lives() -> None:
    alone, met = run(range(20, 32)), run_many(range(20, 32), 2)
    met.cpu_s = alone.cpu_s
    assert met == alone


def test_a_life_that_fails_is_told_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "check", _refuse)
    met = run_many(range(1, 3), 1)
    assert list(met.failures) == [1, 2]
    assert [line[:34] for line in capsys.readouterr().out.splitlines()] == [
        "seed 1: AssertionError: it is wron", "seed 2: AssertionError: it is wron",
    ]  # fmt: skip


def _refuse(_: Life) -> None:
    raise AssertionError("it is wrong")


# An instance dies while it comes up.
DIES_AT_ONCE = (30, 39)


def test_a_life_leaves_nothing_in_memory() -> None:
    run(DIES_AT_ONCE)
    gc.collect()
    assert not [o for o in gc.get_objects() if isinstance(o, World)]


def test_the_page_says_what_was_met() -> None:
    met = Met(
        10_000,
        Counter({"loss of power": 6_000, "torn write": 9_000}),
        Counter(epoch=3, group=1),
        {},
    )
    written = page(PAGE.read_text(), met, 0)
    assert (
        "10,000 lives, seeds 0 to 9999, with 4 kills (75% of them inside an epoch), 9,000 torn"
        " writes" in written
    )
    met.failures[17] = "seed 17: it is wrong"
    again = page(written, met, 0)
    assert "1 failed: seeds 17." in again
    assert again.count("10,000 lives") == 1
    assert page(again, met, 0) == again


# Each look at a clock of the machine finds that a second has passed.
_ON_A_SLOW_MACHINE = """
import itertools, runpy, time
time.monotonic = time.perf_counter = itertools.count(0.0, 1.0).__next__
runpy.run_module("tests.simulation", run_name="__main__")
"""


# One alone and one with instances.
@pytest.mark.parametrize("seed", [3, 14])
def test_a_seed_gives_the_same_life_in_every_process(seed: int) -> None:
    here = digest(live(seed))
    assert digest(live(seed)) == here
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    command = [sys.executable, "-c", _ON_A_SLOW_MACHINE, "--seed", str(seed), "--digest"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout.strip() == here, done.stderr
