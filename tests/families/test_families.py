"""Families give what their jobs give alone, through changes, kills and restarts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.families.lives import Life, actions
from tests.families.shapes import (
    ALERTS,
    CHAINS,
    CHANGES,
    EVERY,
    JOINS,
    MAINTAINED,
    MAPPED,
    RANKS,
    SHAPES,
    SLICES,
    WINDOWS,
    lengths,
)

KINDS = {
    "alerts": ALERTS | {"maintained": MAINTAINED},
    "windows": WINDOWS,
    "slices": SLICES,
    "changes": CHANGES,
    "ranks": RANKS,
    "every": EVERY,
    "joins": JOINS,
    "mapped": MAPPED,
    "chains": CHAINS,
}
# The seeds of quick lives, in each of which families come and go.
QUICK = {
    "alerts": 1,
    "windows": 1,
    "slices": 1,
    "changes": 3,
    "ranks": 1,
    "every": 1,
    "joins": 1,
    "mapped": 1,
    "chains": 1,
}


def lives() -> Iterator[ParameterSet]:
    """Lives with jobs of one kind, and with jobs of all: the seed, and how much happens."""
    for kind, shapes in KINDS.items():
        yield pytest.param(shapes, QUICK[kind], 12, id=f"{kind}-{QUICK[kind]}")
        for seed in range(4, 14):
            yield pytest.param(shapes, seed, 40, marks=pytest.mark.slow, id=f"{kind}-{seed}")
    for seed in range(20, 50):
        yield pytest.param(SHAPES, seed, 40, marks=pytest.mark.slow, id=f"all-{seed}")


@pytest.mark.parametrize(("shapes", "seed", "count"), list(lives()))
def test_a_life_is_that_of_single_jobs(
    tmp_path: Path, shapes: Mapping[str, str], seed: int, count: int
) -> None:
    together, alone = Life(tmp_path / "together", True), Life(tmp_path / "alone", False)
    most = 0
    for text, action in actions(seed, shapes, count):
        assert together.do(action) == alone.do(action), text
        assert together.written() == alone.written(), text
        assert together.late == alone.late, text
        assert together.state == alone.state, text
        most = max(most, together.together)
    assert most > 1 or shapes is SHAPES
    assert not alone.together
    for life in (together, alone):
        life.engine.close()


@pytest.mark.parametrize(
    "kind", ["changes", *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS if k != "changes")]
)
def test_a_stopped_engine_goes_on_either_way(tmp_path: Path, kind: str) -> None:
    """State that single jobs have left is that of families, and the other way round."""
    changing, alone = Life(tmp_path / "changing", False), Life(tmp_path / "alone", False)
    steps = actions(100, KINDS[kind], 45)
    for number, (text, action) in enumerate(steps):
        assert changing.do(action) == alone.do(action), text
        if number % 9 == 8:
            changing.restart(not changing.families)
            alone.restart(False)
        assert changing.written() == alone.written(), text
    for life in (changing, alone):
        life.engine.close()


def test_explain_names_the_family_that_jobs_share(tmp_path: Path) -> None:
    """By the name `sql jobs --output json` has for it, whatever lengths their windows have."""
    life = Life(tmp_path / "life", True)
    for name, size in (("long", "3"), ("short", "0.5")):
        values = {"name": name, "where": f"host <> '{name}'", "least": 0, **lengths(size)}
        life.engine.submit(name, SHAPES["tumble"].format(**values))
    by_job = {name: life.engine.families_of(name)[0] for name in ("long", "short")}
    assert by_job["long"].family == by_job["short"].family
    for name, view in by_job.items():
        assert f"  [family of 2: {view.family[:8]}]" in life.engine.explain(name)
    life.engine.close()
