"""`fsync = interval`: a loss of power takes what was appended last, of each topic as much as chance
will have it. Whatever is left of log, sinks and input, the server comes up, and what is written
from then on comes out once."""

from __future__ import annotations

from tests.simulation.life import Life, live, make


def _is_one(seed: int) -> bool:
    return make(seed).nodes[0].config.fsync == "interval"


def test_what_comes_later_comes_out() -> None:
    lives: list[Life] = [live(seed) for seed in range(60) if _is_one(seed)]
    assert sum(life.lossy for life in lives) >= 5
