"""What an operator puts out at once is bounded in rows and bytes, however much one row comes to, and
the slices together are what it would put out at once."""

from __future__ import annotations

from functools import partial
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest

from parser.errors import SqlError
from parser.types import STRING, Schema, timestamp
from planner.catalog import Watermark
from planner.logical import AssignWatermark, Cumulate, Hop, Values, WindowAssign
from planner.scalar import ColumnRef
from sqlengine.batch import Batch, from_pydict
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.executors.storage import RunnerOptions
from sqlengine.formats.results import JsonValue, rows_of
from sqlengine.operators import bounded
from sqlengine.operators.bounded import SLICE_BYTES, SLICE_ROWS, in_slices, repeated
from sqlengine.operators.joins import rows as join_rows
from sqlengine.operators.windows import aggregate, emit, equal_windows, session_windows
from sqlengine.operators.windows.assign import WindowAssignOperator
from sqlengine.session import runner
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.sql.golden import FOLDER, Script, answers, events_of, run

SECOND, DAY = 1_000, 86_400_000
ROWS = Schema.of(ts=timestamp(3), text=STRING)


def assigned(window: Hop | Cumulate) -> WindowAssignOperator:
    time = AssignWatermark(Values((), ROWS), Watermark("ts", ColumnRef("ts", ROWS.type("ts"))))
    operator = WindowAssignOperator(WindowAssign(time, window))
    operator.open(TaskContext())
    return operator


def timed(*rows: tuple[int, str]) -> Batch:
    """Rows with these times and texts."""
    return from_pydict(ROWS, {"ts": [t for t, _ in rows], "text": [t for _, t in rows]})


@pytest.mark.parametrize(
    "window", [Hop("ts", SECOND, 30 * DAY), Cumulate("ts", SECOND, 30 * DAY)], ids=str
)
def test_a_row_in_millions_of_windows_leaves_in_slices(window: Hop | Cumulate) -> None:
    output = assigned(window).process(0, timed((0, "a"), (1, "b")))
    parts = [batch for _, batch in islice(output, 50)]
    assert {part.num_rows for part in parts[:-1]} == {SLICE_ROWS}
    ends = np.concatenate([p.column("window_end").cast("int64").to_numpy() for p in parts])
    steps = np.diff(ends[:2_000_000])
    assert set(np.abs(steps).tolist()) == {SECOND}


def test_a_long_row_leaves_in_slices_of_few_bytes() -> None:
    output = assigned(Hop("ts", SECOND, 30 * DAY)).process(0, timed((0, "x" * (1 << 20))))
    for _, part in islice(output, 5):
        assert sum(c.nbytes for c in part.columns) <= 1.1 * SLICE_BYTES


def test_slices_have_the_watermarks_between_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "SLICE_ROWS", 2)
    before = np.array([10, 20, 30])
    batch = Batch(*vars_of(timed((0, "a"), (1, "b"), (2, "c"))), 0, 40, before, since=5)
    for parts in (list(in_slices(batch)), [p for p, _, _ in repeated(batch, np.array([1, 0, 3]))]):
        assert len(parts) == 2
        assert [p.since for p in parts] == [5, *(p.watermark for p in parts[:-1])]
        assert parts[-1].watermark == 40
        for part, following in pairwise(parts):
            assert part.watermark == following.watermarks()[0]


def vars_of(batch: Batch) -> tuple[Schema, tuple[object, ...], int]:
    return batch.schema, batch.columns, batch.num_rows


SCRIPTS = (
    *("windows/hop_tvf", "windows/cumulate_tvf", "windows/tumble_tvf", "windows/emit"),
    *("windows/session_tvf", "windows/window_join", "windows/ltz_shared", "windows/cascade_gap"),
    *("joins/as_of", "joins/retraction", "joins/unnest", "groups/grouping_order"),
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_slices_change_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bounded, aggregate, emit, session_windows, equal_windows):
        monkeypatch.setattr(module, "SLICE_ROWS", 2)
    monkeypatch.setattr(join_rows, "_FIRST_ROWS", 2)
    # Each window in an epoch of its own.
    monkeypatch.setattr(runner, "RunnerOptions", partial(RunnerOptions, firing_cost=1))
    script = Script(FOLDER / f"{name}.sql")
    found, _ = run(script, tmp_path, 4096)
    wanted = answers(script, events_of(script.beside(".expected.jsonl").read_text())[1:])
    assert answers(script, found) == wanted


def test_a_later_slice_of_a_join_that_takes_all_the_rest_has_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first slices are small, to learn how wide rows are; a later one may be as large as the
    whole output was."""
    monkeypatch.setattr(join_rows, "_FIRST_ROWS", 2)
    kept = ListOutput()
    with open_runner(tmp_path) as runner:
        Session(runner, kept).run("""
            CREATE TEMPORARY VIEW v AS SELECT * FROM (VALUES (1, 1), (1, 2), (1, 3), (1, 4)) AS t(k, n);
            SELECT COUNT(*) AS c FROM v AS a JOIN v AS b ON a.k = b.k JOIN v AS c ON b.k = c.k;""")
    assert not kept.errors
    assert kept.rows_seen[-1] == ("+U", [64])


class ListOutput:
    """Keeps the rows and the errors of statements."""

    def __init__(self) -> None:
        self.rows_seen: list[tuple[str, list[JsonValue]]] = []
        self.errors: list[SqlError] = []

    def schema(self, stmt: int, schema: Schema) -> None: ...

    def rows(self, stmt: int, batch: Batch) -> None:
        self.rows_seen += rows_of(batch)

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        self.errors.append(error)
