"""`python -m benchmarks.nexmark.run DATA QUERY…`: CPU, time and memory of queries over the files of
`events`, each in a process of its own, into a blackhole; one JSON object a query. The second of two
runs counts, which is warm."""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parser import parse
from parser.errors import SqlError
from parser.script import substitute
from parser.statements import Query
from parser.types import Schema
from planner import bind
from planner.catalog import Catalog, Table
from planner.settings import MINI_BATCH
from sqlengine.batch import Batch
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session

QUERIES = Path(__file__).parent / "queries"
READS = {
    "q3": ("auction", "person"),
    "q8": ("person", "auction"),
    "q23": ("bid", "auction", "person"),
} | dict.fromkeys(("q4", "q9", "q20"), ("bid", "auction"))


class Quiet:
    """Takes what a session says, and fails with its first error."""

    def schema(self, stmt: int, schema: Schema) -> None: ...

    def rows(self, stmt: int, batch: Batch) -> None: ...

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        raise error


def names() -> list[str]:
    """All queries, in the order of their numbers."""
    return sorted((p.stem for p in QUERIES.glob("q*.sql")), key=lambda n: int(n[1:]))


def script(query: str, data: Path) -> str:
    """The tables, a sink and the INSERT: Flink takes the same text."""
    tables = substitute((QUERIES / "tables.sql").read_text(encoding="utf-8"), {"DATA": str(data)})
    select = (QUERIES / f"{query}.sql").read_text(encoding="utf-8")
    catalog = Catalog()
    for statement in parse(tables):
        made = bind(statement, catalog, {})
        assert isinstance(made, Table)
        catalog = catalog.put(made)
    (found,) = parse(select)
    assert isinstance(found, Query)
    (bound,) = bind(found, catalog, {})
    columns = ", ".join(f"`{c.name}` {c.type.plain.with_nullable(True)}" for c in bound.schema)
    sink = f"CREATE TABLE sink ({columns}) WITH ('connector' = 'blackhole');\n"
    return f"{tables}{sink}INSERT INTO sink\n{select}"


def rows_read(query: str, data: Path) -> int:
    """Rows of the tables that a query reads, each counted once."""
    return sum(1 for kind in READS.get(query, ("bid",)) for _ in (data / f"{kind}.json").open("rb"))


def measure(query: str, data: Path, runs: int = 2) -> dict[str, object]:
    """CPU µs a row, rows a second and peak memory in MB, of the last run."""
    text, rows = script(query, data), rows_read(query, data)
    gc.freeze()  # as `sql run` does: else some of the runs pay for a visit of all that was imported
    for _ in range(runs):
        with (
            tempfile.TemporaryDirectory(prefix="benchmark-") as folder,
            open_runner(Path(folder)) as runner,
        ):
            cpu, start = time.process_time(), time.perf_counter()
            Session(runner, Quiet(), settings={MINI_BATCH: "true"}).run(text)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "query": query,
        "rows": rows,
        "cpu_us": cpu / rows * 1e6,
        "rows_per_s": rows / wall,
        "peak_mb": peak,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("queries", nargs="*", default=names())
    options = parser.parse_args()
    if len(options.queries) == 1:
        print(json.dumps(measure(options.queries[0], options.data)), flush=True)
        return
    for query in options.queries:
        subprocess.run([sys.executable, "-m", "benchmarks.nexmark.run", str(options.data), query])


if __name__ == "__main__":
    main()
