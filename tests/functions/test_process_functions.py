"""Process functions in scripts: what they give, what is refused, what a fault costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from parser.errors import SqlError
from sqlengine.functions.limits import FunctionLimits
from sqlengine.session.session import Session
from tests.functions.process_module import MODULE, NAMES
from tests.functions.sessions import opened, run

NUMBERS = "TABLE (SELECT * FROM (VALUES ('Bob', 1), ('Al', 2), ('Bob', 3)) AS t (name, n))"
TIMED = [
    ("Bob", "named 10", "00:00:00"),
    ("Al", "set 10", "00:00:05"),
    ("Al", "set 12", "00:00:05"),
    ("Bob", "named 30", "00:00:10"),  # takes the place of the one that was set first
    ("Al", "unset 2", "00:00:15"),  # that of second 17
    ("Bob", "x", "00:00:50"),  # fires all
    ("Bob", "set -20", "00:00:40"),  # late, and so is its timer
    ("Al", "again 5", "00:01:00"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("script")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    limits = FunctionLimits(row_s=0.3, failures=100)
    with opened(folder, MODULE, NAMES, limits, table(folder, "timed", TIMED)) as session:
        yield session


def table(folder: Path, name: str, rows: list[tuple[str, str, str]]) -> str:
    """A table of events in a file."""
    path = folder / f"{name}.json"
    lines = (
        json.dumps({"name": who, "what": what, "ts": f"2026-01-01 {at}"}) for who, what, at in rows
    )
    path.write_text("".join(f"{line}\n" for line in lines))
    return f"""CREATE TABLE {name} (name STRING, what STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');"""


QUERIES: dict[str, list[tuple[object, ...]]] = {
    f"SELECT * FROM greet({NUMBERS} PARTITION BY name)": [
        ("Bob", "hello Bob", 1),
        ("Al", "hello Al", 1),
        ("Bob", "hello Bob", 2),
    ],
    f"SELECT f0 FROM greet({NUMBERS} PARTITION BY name, 'bye', DEFAULT, DEFAULT, 'my-uid') WHERE f1 > 1": [
        ("bye Bob",)
    ],
    f"SELECT x.b FROM TABLE(greet(end => '.', input => {NUMBERS} PARTITION BY name)) AS x (a, b, c)": [
        ("hello Bob.",),
        ("hello Al.",),
        ("hello Bob.",),
    ],
    f"SELECT * FROM heights({NUMBERS}, 2)": [("Al", 1.0), ("Bob", 1.5)],
    f"SELECT * FROM heights(who => {NUMBERS} PARTITION BY n, least => 3)": [(3, "Bob", 1.5)],
    f"SELECT * FROM numbered({NUMBERS} PARTITION BY name)": [
        ("Bob", 1, 1),
        ("Al", 2, 1),
        ("Bob", 3, 2),
    ],
    f"SELECT * FROM total({NUMBERS})": [(1,), (3,), (0,)],
    f"SELECT * FROM total({NUMBERS} PARTITION BY name)": [("Bob", 1), ("Al", 2), ("Bob", 0)],
    f"SELECT f0, COUNT(*) FROM total({NUMBERS}) GROUP BY f0 HAVING f0 = 3": [(3, 1)],
    f"""SELECT `text` FROM pairs(
        people => {NUMBERS} PARTITION BY n,
        visits => TABLE (SELECT * FROM (VALUES (3, 'home'), (9, 'away')) AS v (id, page)) PARTITION BY id,
        mark => '?')""": [("home by Bob?",), ("away by None?",)],
}


@pytest.mark.parametrize("sql", QUERIES)
def test_what_a_query_gives(session: Session, sql: str) -> None:
    assert sorted(run(session, sql), key=repr) == sorted(QUERIES[sql], key=repr)


def test_timers_fire_between_rows_as_watermarks_say(session: Session) -> None:
    rows = run(
        session,
        "SELECT name, said, DATE_FORMAT(rowtime, 'mm:ss'), DATE_FORMAT(`at`, 'mm:ss')"
        " FROM timers(input => TABLE timed PARTITION BY name, on_time => DESCRIPTOR(ts))",
    )
    assert rows == [
        ("Bob", "row named 10", "00:00", None),
        ("Al", "row set 10", "00:05", "00:00"),
        ("Al", "row set 12", "00:05", "00:05"),
        ("Bob", "row named 30", "00:10", "00:05"),
        ("Al", "row unset 2", "00:15", "00:10"),
        ("Al", "timer None 00:15", "00:15", "00:15"),
        ("Bob", "row x", "00:50", "00:15"),
        ("Bob", "timer named 00:40", "00:40", "00:50"),
        ("Bob", "row set -20", "00:40", "00:50"),
        ("Al", "row again 5", "01:00", "00:50"),
        ("Bob", "timer None 00:20", "00:20", "01:00"),
        ("Al", "timer again 01:05", "01:05", None),
    ]


def test_the_example_of_flinks_documentation(session: Session) -> None:
    rows = run(
        session,
        "SELECT said, DATE_FORMAT(rowtime, 'mm:ss') FROM follow_up(input => TABLE timed PARTITION"
        " BY name, on_time => DESCRIPTOR(ts)) WHERE said LIKE '%after%'",
    )
    times = [str(at) for _, at in rows]
    assert times == sorted(times)
    assert rows[:2] == [("Bob after 4", "01:00"), ("Al after 4", "01:05")]


def test_rows_go_into_windows_by_the_time_that_they_have(session: Session) -> None:
    rows = run(
        session,
        "WITH asked AS (SELECT * FROM follow_up(input => TABLE timed PARTITION BY name, on_time =>"
        " DESCRIPTOR(ts))) SELECT DATE_FORMAT(window_start, 'mm:ss'), COUNT(*) FROM TABLE(TUMBLE("
        "TABLE asked, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
    )
    assert sum(int(str(n)) for _, n in rows) == 15
    assert [start for start, _ in rows] == ["00:00", "01:00", "02:00"]


REFUSED = {
    "SELECT greet(name) FROM timed": "'greet' is a process function",
    f"SELECT * FROM greet({NUMBERS})": "'greet' needs PARTITION BY for its table 'input'",
    "SELECT * FROM greet(word => 'x')": "'greet' lacks its table 'input'",
    f"SELECT * FROM greet({NUMBERS} PARTITION BY name, words => 'x')": "are called",
    f"SELECT * FROM greet(input => {NUMBERS} PARTITION BY name, words => 'x')": (
        "'greet' has no argument 'words'"
    ),
    f"SELECT * FROM greet({NUMBERS} PARTITION BY name, 7)": "takes STRING as 'word'",
    f"SELECT * FROM greet({NUMBERS} PARTITION BY name, name)": "unknown column 'name'",
    f"SELECT * FROM greet({NUMBERS} PARTITION BY name, uid => '1 2')": "are called",
    f"SELECT * FROM greet(input => {NUMBERS} PARTITION BY name, uid => '1 2')": "invalid uid",
    f"SELECT * FROM greet(input => {NUMBERS} PARTITION BY name, on_time => DESCRIPTOR(n))": (
        "needs a time attribute, but 'n' is none"
    ),
    f"SELECT * FROM greet(input => {NUMBERS} PARTITION BY name, on_time => DESCRIPTOR(x))": (
        "has an on_time that does not fit column 'x'"
    ),
    f"SELECT * FROM greet({NUMBERS} PARTITION BY UPPER(name))": "takes columns",
    "SELECT * FROM timers(TABLE timed PARTITION BY name)": "has timers, and needs to know the time",
    "SELECT * FROM heights(TABLE timed, 1)": "needs a column 'n' of 'who'",
    "SELECT * FROM heights(TABLE (SELECT name, what AS n FROM timed), 1)": (
        "takes DOUBLE as column 'n', but it is STRING"
    ),
    "SELECT * FROM heights(TABLE timed)": "needs a column 'n' of 'who'",
    "SELECT * FROM greet(TABLE (SELECT name, COUNT(*) AS n FROM timed GROUP BY name) PARTITION BY name)": (
        "'greet' takes rows that only come, but those of 'input' are updated"
    ),
    f"""SELECT * FROM pairs({NUMBERS} PARTITION BY n, {NUMBERS} PARTITION BY name)""": (
        "tables whose keys differ: 'people' and 'visits'"
    ),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_refused(session: Session, sql: str) -> None:
    with pytest.raises(SqlError) as refused:
        run(session, sql)
    said = f"{refused.value.message} {refused.value.detail} {refused.value.hint}"
    assert REFUSED[sql].replace("are called", "by name and by place") in said
    assert refused.value.position is not None


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("NoDeclaration", "it is no function"),
        ("no_rows", "eval does not say which rows it gives"),
        ("behind", "the table 'input' stands behind 'n'"),
        ("bare_state", "State is no dataclass"),
    ],
)
def test_declarations_that_are_wrong(session: Session, name: str, says: str) -> None:
    with pytest.raises(SqlError) as refused:
        run(session, f"CREATE TEMPORARY FUNCTION wrong AS 'mine.{name}' LANGUAGE PYTHON")
    assert says in str(refused.value.detail)


FAULTS = [
    ("a", "fine", "00:00:00"),
    ("a", "raise", "00:00:01"),
    ("b", "exit", "00:00:02"),
    ("a", "hang", "00:00:03"),
    ("a", "fine", "00:00:04"),
    ("a", "timer good", "00:00:05"),
    ("b", "timer raise", "00:00:06"),
    ("a", "timer exit", "00:00:07"),
    ("b", "text", "00:00:08"),
    ("b", "fine", "00:00:09"),
]


def test_a_fault_costs_the_row_or_the_timer_and_no_memory(session: Session, folder: Path) -> None:
    session.run(table(folder, "faults", FAULTS))
    rows = run(
        session,
        "SELECT name, f0 FROM faulty(input => TABLE faults PARTITION BY name, on_time =>"
        " DESCRIPTOR(ts))",
    )
    assert rows == [
        ("a", 1),
        ("a", 2),
        ("a", 3),
        ("a", -103),
        ("b", 1),
        ("a", 104),
        ("b", 3),
    ]
