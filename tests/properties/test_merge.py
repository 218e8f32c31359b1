"""Many random statements as one merged graph write what each writes alone, row by row and in order,
and the switches of the rules change nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rules.options import Options
from tests.properties.queries import World, any_query, filters, views

SWITCHES = [
    Options(),
    Options(cache=False),
    Options(hyperscan=False),
    Options(joined_scan=False),
    Options(exact_scan=False),
    Options(access=False),
    Options(learned_access=False),
    Options(dense_fallback=False),
    Options(cache=False, hyperscan=False, joined_scan=False, access=False, dense_fallback=False),
]


@given(st.lists(any_query, min_size=2, max_size=6), views, st.sampled_from([1, 3, 4096]))
@settings(max_examples=12, deadline=None)
def test_merged_jobs_write_what_each_writes_alone(
    queries: list[str], view: str, rows_per_read: int
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        world = World(Path(scratch), view)
        together = {
            f"job{i}": [world.sink(query, i, "together")] for i, query in enumerate(queries)
        }
        world.run(together, rows_per_read=rows_per_read)
        for i, query in enumerate(queries):
            world.run({f"job{i}": [world.sink(query, i, "alone")]}, rows_per_read=rows_per_read)
        assert all_written(world, "together", queries) == all_written(world, "alone", queries)


@given(st.lists(filters, min_size=2, max_size=8), st.sampled_from([1, 4096]))
@settings(max_examples=6, deadline=None)
def test_switches_of_the_rules_change_nothing(conditions: list[str], rows_per_read: int) -> None:
    queries = [f"SELECT a, b, s, d, bo FROM t WHERE {condition}" for condition in conditions]
    with tempfile.TemporaryDirectory() as scratch:
        world = World(Path(scratch))
        found, failures = [], []
        for number, options in enumerate(SWITCHES):
            jobs = {
                f"job{i}": [world.sink(query, i, str(number))] for i, query in enumerate(queries)
            }
            failures.append(world.run(jobs, options, rows_per_read))
            found.append(all_written(world, str(number), queries))
    assert found == [found[0]] * len(SWITCHES)
    assert failures == [failures[0]] * len(SWITCHES)


def all_written(world: World, out: str, queries: list[str]) -> dict[str, list[str]]:
    return {f"{i}: {query}": world.written(out, i) for i, query in enumerate(queries)}
