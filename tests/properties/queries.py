"""Random queries over one small table with NULLs, and the plainest way to run them: what several
properties share.

Conditions and sources are those of `tests/planner/test_passes_properties`; here they meet the
executor, patterns, views and windows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hypothesis import strategies as st

from parser import parse
from parser.statements import Insert
from planner import bind
from planner.catalog import Catalog, Table, View
from planner.graph.merge import Graph, merge
from planner.logical import Sink
from rules.options import Options
from sqlengine.connectors.environment import Environment
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.storage import RunnerOptions
from tests.planner.test_passes_properties import VALUES, conditions, items, sources
from tests.planning import optimized

NONE: frozenset[str] = frozenset()
DEFAULTS = Options()
TIMES = [
    "10:00:01",
    "10:00:04",
    "10:00:09.999",
    "10:00:10",
    "10:00:03",
    "10:00:21",
    "10:00:08",
    "10:00:35",
]
TABLE = """CREATE TABLE t (
  a INT, b BIGINT NOT NULL, s STRING, d DOUBLE, bo BOOLEAN, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{folder}/t.json', 'format' = 'json');"""

patterns = st.sampled_from(
    [
        "s LIKE '%a%'",
        "LOWER(s) LIKE 'b%'",
        "s NOT LIKE '_'",
        "REGEXP(s, '^[a-z]+$')",
        "s IN ('a', 'ab')",
        "s <> 'a'",
    ]
)
filters = st.one_of(
    conditions,
    patterns,
    st.builds("({}) AND ({})".format, patterns, conditions),
    st.builds("({}) OR NOT ({})".format, patterns, conditions),
)
# Queries with the columns a INT, b BIGINT, s STRING, d DOUBLE, bo BOOLEAN.
rows_queries = st.one_of(
    st.builds("SELECT a, b, s, d, bo FROM t WHERE {}".format, filters),
    st.builds("SELECT {} FROM {} WHERE {}".format, items, sources, filters),
)
_windows = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '{}' SECOND))"
_sizes = st.sampled_from([5, 10])
# The same columns from windows: the key as `a` or `s`, aggregates in the others.
window_queries = st.one_of(
    st.builds(
        "SELECT MAX(a), COUNT(*), s, AVG(d), CAST(NULL AS BOOLEAN) FROM {} WHERE {} GROUP BY"
        " window_start, window_end, s".format,
        st.builds(_windows.format, st.sampled_from(["t", "v"]), _sizes),
        filters,
    ),
    st.builds(
        "SELECT a, SUM(b), MIN(s), MAX(d), COUNT(*) > 1 FROM v GROUP BY TUMBLE(ts, INTERVAL '{}'"
        " SECOND), a HAVING {}".format,
        _sizes,
        st.sampled_from(["COUNT(*) > 0", "MIN(b) < 2", "MAX(s) IS NOT NULL"]),
    ),
)
any_query = st.one_of(rows_queries, window_queries)
views = st.builds("SELECT a, b, s, d, bo, ts FROM t WHERE {}".format, filters)


@dataclass
class World:
    """A folder with the table `t`, a view `v` over it, and tables `o0`, `o1`, … to write into."""

    folder: Path
    view: str = "SELECT * FROM t"
    catalog: Catalog = field(default_factory=Catalog)

    def __post_init__(self) -> None:
        columns = {**cast("dict[str, list[Any]]", VALUES), "ts": [f"2024-05-01 {t}" for t in TIMES]}
        rows = (
            {name: _jsonable(values[i]) for name, values in columns.items()}
            for i in range(len(TIMES))
        )
        lines = [json.dumps(row) for row in rows]
        (self.folder / "t.json").write_text("\n".join(lines) + "\n")
        self.define(TABLE.format(folder=self.folder))
        self.define(f"CREATE VIEW v AS {self.view}")

    def define(self, sql: str) -> None:
        for statement in parse(sql):
            item = bind(statement, self.catalog, {})
            assert isinstance(item, Table | View)
            self.catalog = self.catalog.put(item)

    def sink(self, query: str, number: int, out: str, disabled: frozenset[str] = NONE) -> Sink:
        """The plan of an INSERT of `query` into a folder of its own below `out`."""
        target = self.folder / out / f"o{number}"
        catalog = self.catalog
        self.define(
            f"CREATE TEMPORARY TABLE o{number} (a INT, b BIGINT, s STRING, d DOUBLE, bo BOOLEAN)"
            f" WITH ('connector' = 'filesystem', 'path' = '{target}', 'format' = 'json')"
        )
        (statement,) = parse(f"INSERT INTO o{number} {query}")
        assert isinstance(statement, Insert)
        plan = optimized(statement, self.catalog, job=f"job{number}", disabled=disabled)
        self.catalog = catalog
        return plan

    def run(
        self,
        jobs: Mapping[str, Sequence[Sink]],
        options: Options = DEFAULTS,
        rows_per_read: int = 4096,
    ) -> int:
        """Runs all jobs as one graph; rows in error are set aside, and their number is the
        result."""
        runner = GraphRunner(
            "graph",
            EmbeddedExecutor(OperatorFactory(options)),
            Environment(None, lambda: 0, "graph"),
            options=RunnerOptions(lambda owner: False, rows_per_read),
        )
        try:
            runner.apply(runner.prepare(merge(Graph(), jobs), dict.fromkeys(jobs, 1)))
            while runner.step():
                pass
            assert runner.finished
            return runner.progress.dead_letters
        finally:
            runner.close()

    def written(self, out: str, number: int) -> list[str]:
        """The lines that a job wrote, in order."""
        files = sorted((self.folder / out / f"o{number}").glob("part-*"))
        return [line for file in files for line in file.read_text().splitlines()]


def _jsonable(value: object) -> object:
    """NaN and infinity as texts, which the format reads into a DOUBLE."""
    return {"nan": "NaN", "inf": "Infinity"}.get(repr(value), value)
