"""Whatever the query: with every pass, without each and without all of them, the same rows come out
in the same order, and no pass makes a row fail that did not fail before."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import example, given, settings

from planner.optimizer import PASSES
from tests.properties.queries import NONE, World, any_query, views

ALL = frozenset(p.__name__ for p in PASSES)
VARIANTS = {"none off": NONE, **{name: frozenset({name}) for name in sorted(ALL)}, "all off": ALL}


@example("SELECT 1 / a AS a, b, s, d, bo FROM t WHERE b > 1 AND a > 0", "SELECT * FROM t")
@example(
    "SELECT a, SUM(b), MIN(s), MAX(d), COUNT(*) > 1 FROM v GROUP BY TUMBLE(ts, INTERVAL '5'"
    " SECOND), a",
    "SELECT a, b, s, d, bo, ts FROM t WHERE 1 / a > 0 AND CAST(s AS INT) = 1",
)
@given(any_query, views)
@settings(max_examples=12, deadline=None)
def test_rows_are_the_same_with_and_without_every_pass(query: str, view: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        world = World(Path(scratch), view)
        failures = {
            name: world.run({"job": [world.sink(query, 0, name, off)]})
            for name, off in VARIANTS.items()
        }
        found = {name: world.written(name, 0) for name in VARIANTS}
    assert found == dict.fromkeys(VARIANTS, found["all off"])
    assert failures["none off"] <= failures["all off"]
