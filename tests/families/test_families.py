"""Families give what their jobs give alone, through changes, kills and restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.families.lives import Life, actions

# In each of them families come and go.
SEEDS = [1, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_is_that_of_single_jobs(tmp_path: Path, seed: int) -> None:
    together, alone = Life(tmp_path / "together", True), Life(tmp_path / "alone", False)
    for text, action in actions(seed, 40):
        assert together.do(action) == alone.do(action), text
        assert together.written() == alone.written(), text
        assert together.late == alone.late, text
    assert not alone.together
    for life in (together, alone):
        life.engine.close()


@pytest.mark.parametrize("seed", [100, pytest.param(101, marks=pytest.mark.slow)])
def test_a_stopped_engine_goes_on_either_way(tmp_path: Path, seed: int) -> None:
    """State that single jobs have left is that of families, and the other way round."""
    changing, alone = Life(tmp_path / "changing", False), Life(tmp_path / "alone", False)
    steps = actions(seed, 45)
    for number, (text, action) in enumerate(steps):
        assert changing.do(action) == alone.do(action), text
        if number % 9 == 8:
            changing.restart(not changing.families)
            alone.restart(False)
        assert changing.written() == alone.written(), text
    for life in (changing, alone):
        life.engine.close()
