"""Nexmark's queries over a few thousand events: whatever the size of batches, and as in real
Flink."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.nexmark.events import write
from benchmarks.nexmark.run import QUERIES, names
from parser.errors import SqlError
from parser.script import substitute
from parser.types import Schema
from planner.settings import MINI_BATCH
from sqlengine.batch import Batch
from sqlengine.formats.results import rows_of
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session

EVENTS = 5_000
# Flink takes the first row of an order for one that never changes, and its result keeps rows that
# others have replaced.
WRONG_IN_FLINK = frozenset({"q9"})


class Left:
    """A session's output: the rows that are there in the end, with how often each is."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def schema(self, stmt: int, schema: Schema) -> None: ...

    def rows(self, stmt: int, batch: Batch) -> None:
        for op, row in rows_of(batch):
            self.take(op, row)

    def take(self, op: str, row: object) -> None:
        self.counts[json.dumps(row)] += -1 if op in ("-U", "-D") else 1

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        raise error


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nexmark")
    write(folder, EVENTS)
    return folder


def text_of(query: str, data: Path) -> str:
    tables = substitute((QUERIES / "tables.sql").read_text(), {"DATA": str(data)})
    return tables + (QUERIES / f"{query}.sql").read_text()


def ours(
    query: str, data: Path, folder: Path, rows_per_read: int, mini_batch: bool
) -> Counter[str]:
    left = Left()
    with open_runner(folder / f"{rows_per_read}", rows_per_read) as runner:
        Session(runner, left, settings={MINI_BATCH: str(mini_batch).lower()}).run(
            text_of(query, data)
        )
    return +left.counts


# Its windows of processing time are over when the clock says so, in the middle of a run or not.
BY_THE_CLOCK = frozenset({"q12"})


@pytest.mark.parametrize("query", sorted(set(names()) - BY_THE_CLOCK))
def test_the_size_of_batches_changes_nothing_in_the_end(
    query: str, data: Path, tmp_path: Path
) -> None:
    whole = ours(query, data, tmp_path, 4096, True)
    assert ours(query, data, tmp_path, 100, True) == whole
    assert whole


@pytest.mark.oracle
def test_flink_gives_the_same(data: Path, tmp_path: Path, flink: Any) -> None:
    for query in sorted(set(names()) - WRONG_IN_FLINK - BY_THE_CLOCK):
        left = Left()
        for event in flink.run(
            "SET 'pipeline.auto-watermark-interval' = '0';\n" + text_of(query, data)
        ):
            assert event["kind"] != "error", (query, event)
            if event["kind"] == "row":
                left.take(event["op"], event["row"])
        assert ours(query, data, tmp_path / query, 4096, True) == +left.counts, query
