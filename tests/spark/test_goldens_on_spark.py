"""The golden scripts on Spark: each statement leaves the rows that it leaves in the embedded
executor (and in Flink, which `tests/sql` compares that with). All of them run in stages without a
JVM, some on Spark itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from sqlengine.session.environment import open_runner
from sqlengine.session.runner import Runner
from sqlengine.session.session import Session
from sqlengine.session.spark import script_runner
from tests.spark.staged import Staged
from tests.sql.golden import FOLDER, Answer, Collected, Script, answers, left_in_the_end, scripts

Open = Callable[[Path], AbstractContextManager[Runner]]

AREAS = (
    "aggregates",
    "batch",
    "changelog",
    "groups",
    "joins",
    "match",
    "ranks",
    "scenarios",
    "windows",
)
QUICK = {
    *(
        "batch/order",
        "changelog/sinks",
        "groups/set_operations",
        "joins/temporal",
        "joins/versions",
        "match/time",
    ),
    *(
        "ranks/by_time",
        "windows/cascade",
        "windows/cascade_gap",
        "windows/emit",
        "windows/proctime",
    ),
}
ALL = [
    pytest.param(s, id=s.name, marks=[] if s.name in QUICK else [pytest.mark.slow])
    for s in scripts()
    if s.path.parent.name in AREAS
]
ON_SPARK = (
    "batch/order",
    "changelog/sinks",
    "groups/set_operations",
    "joins/intervals",
    "joins/temporal",
    "match/time",
    "ranks/by_time",
    "ranks/over_frames",
    "ranks/top_n",
    "windows/cascade_gap",
    "windows/emit",
    "windows/window_join",
)
# Statements by the reason why they are not compared.
ORDER = (
    "rows of other keys come in no order behind an exchange: FIRST_VALUE, LISTAGG, ARRAY_AGG over"
    " the result of a Top-N"
)
TIES = "the same, where rows are equal in the order of a Top-N: the first one to come stays"
BUFFERS = (
    "lists of DISTINCT values of windows have the order of buffers, which rows of any key in the"
    " same task empty, as in Flink those of the same subtask"
)
NOT_COMPARED = {
    **{("aggregates/retraction", number): ORDER for number in (3, 4, 7, 9)},
    ("windows/over_changes", 9): ORDER,
    ("ranks/rising", 11): TIES,
    ("windows/window_rank", 20): TIES,
    ("windows/distinct_order", 6): BUFFERS,
}


def left(script: Script, folder: Path, open_: Open) -> tuple[dict[int, Answer], list[str]]:
    """What each statement leaves, and the messages of those that fail."""
    out = folder / "out"
    out.mkdir(parents=True)
    collected = Collected(script.text)
    with open_(folder / "topics") as runner:
        Session(runner, collected).run(script.with_folders(out))
    found = answers(script, collected.events)
    kept = {n: left_in_the_end(a) for n, a in found.items() if (script.name, n) not in NOT_COMPARED}
    return kept, [script.portable(m, out) for m in collected.messages]


def compare(script: Script, folder: Path, on_spark: Open) -> None:
    found, messages = left(script, folder / "spark", on_spark)
    wanted, said = left(script, folder / "embedded", open_runner)
    different = [
        script.pieces[n].sql for n in sorted(found | wanted) if found.get(n) != wanted.get(n)
    ]
    assert not different
    assert messages == said


@pytest.mark.parametrize("script", ALL)
def test_in_stages(script: Script, tmp_path: Path) -> None:
    """All of it but Spark itself."""
    compare(script, tmp_path, lambda data: script_runner(data, 4096, Staged()))


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ON_SPARK)
def test_on_spark(spark: Any, name: str, tmp_path: Path) -> None:
    compare(Script(FOLDER / f"{name}.sql"), tmp_path, lambda data: open_runner(data, where="spark"))


def test_what_is_not_compared_is_there() -> None:
    counts = {s.name: len(s.pieces) for s in scripts()}
    assert all(number < counts[name] for name, number in NOT_COMPARED)
