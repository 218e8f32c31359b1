"""Functions of users in scripts: what a query gives, compared with the same in Python, and what is
refused."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from parser.errors import SqlError
from sqlengine.session.session import Session
from tests.functions.sessions import Recorder, opened, run
from tests.functions.users_module import MODULE, NAMES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("script")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    with opened(folder, MODULE, NAMES) as session:
        yield session


VALUES = (
    "(VALUES (1, 'a'), (2, 'b c'), (3, CAST(NULL AS STRING)), (CAST(NULL AS INT), 'd')) AS t (n, s)"
)

QUERIES = {
    f"SELECT strict(n), lenient(n) FROM {VALUES}": [
        (2, "got 1"),
        (3, "got 2"),
        (4, "got 3"),
        (None, "got None"),
    ],
    f"SELECT nothing(n) FROM {VALUES}": [(None,)],  # only the row that it is not asked for
    f"SELECT add(n), add(n, 1, 2) FROM {VALUES} WHERE n < 3": [(1, 4), (2, 5)],
    f"SELECT greet(s), greet(s, 'bye') FROM {VALUES} WHERE n = 1": [("hello a", "bye a")],
    f"SELECT no_arguments() + n FROM {VALUES}": [(43,), (44,), (45,), (None,)],
    f"SELECT doubled(n) FROM {VALUES}": [(2,), (4,), (6,), (None,)],
    "SELECT doubled(n) FROM (VALUES (12), (13), (14), (15), (16)) AS t (n)": [(24,), (30,), (32,)],
    f"SELECT explicit(n, CAST(n AS STRING)), explicit(n, CAST(NULL AS STRING)) FROM {VALUES}": [
        (Decimal("1.00"), Decimal("0.33")),
        (Decimal("2.00"), Decimal("0.67")),
        (Decimal("3.00"), Decimal("1.00")),
        (None, None),
    ],
    "SELECT annotated(2)": [(Decimal("0.286"),)],
    f"SELECT moved(ROW(n, s)) FROM {VALUES} WHERE n > 1": [
        ({"x": 3, "label": "B C"},),
        ({"x": 4, "label": None},),
    ],
    "SELECT pairs(ARRAY[1, 2])": [([("1", [1, 1]), ("2", [2, 2])],)],
    "SELECT times(DATE '2020-01-01', TIME '01:02:03', TIMESTAMP '2020-01-01 00:00:00', INTERVAL '2' SECOND)": [
        (
            {
                "f0": dt.date(2020, 1, 2),
                "f1": dt.time(23, 2, 3),
                "f2": dt.datetime(2020, 1, 1, 0, 0, 0, 1),
                "f3": 4000,
            },
        )
    ],
    f"SELECT n FROM {VALUES} WHERE true_for_big(n)": [(3,)],
    f"SELECT n FROM {VALUES} WHERE s = 'a' AND NOT true_for_big(n)": [(1,)],
    f"SELECT strict(strict(n)) FROM {VALUES} WHERE n IS NOT NULL": [(3,), (4,), (5,)],
    # table functions
    f"SELECT n, w, l FROM {VALUES}, LATERAL TABLE(chunks(s)) AS x (w, l)": [
        (1, "a", 1),
        (2, "b", 1),
        (2, "c", 1),
        (None, "d", 1),
    ],
    f"SELECT n, text FROM {VALUES} LEFT JOIN LATERAL TABLE(chunks(s)) ON TRUE WHERE n > 1": [
        (2, "b"),
        (2, "c"),
        (3, None),
    ],
    "SELECT n, k FROM (VALUES (1), (3), (4), (2), (0)) AS t (n) LEFT JOIN LATERAL TABLE(spread(n)) AS x (k) ON TRUE": [
        (1, 0),
        (2, 0),
        (2, 1),
        (0, None),
    ],
    "SELECT n, k FROM (VALUES (1), (3), (2)) AS t (n) LEFT JOIN LATERAL TABLE(spread(n)) AS x (k) ON k = n - 1": [
        (1, 0),
        (2, 1),
    ],
    "SELECT n, k FROM (VALUES (1), (2)) AS t (n) LEFT JOIN LATERAL TABLE(spread(n)) AS x (k) ON k > 0": [
        (1, None),
        (2, 1),
    ],
    "SELECT a.f0, b.f0 FROM TABLE(spread(3 - 1)) AS a CROSS JOIN LATERAL TABLE(spread(a.f0 + 1)) AS b": [
        (0, 0),
        (1, 0),
        (1, 1),
    ],
    f"SELECT x.* FROM {VALUES} JOIN LATERAL TABLE(chunks(s)) AS x ON x.text <> 'b' WHERE n = 2": [
        ("c", 1)
    ],
}


@pytest.mark.parametrize("query", QUERIES)
def test_query(session: Session, query: str) -> None:
    assert run(session, query) == QUERIES[query]


REFUSED = {
    "SELECT strict('a')": "parameter 'n' is BIGINT, but CHAR(1) NOT NULL given",
    "SELECT strict()": "1 argument expected, but 0 given",
    "SELECT greet('a', 'b', 'c')": "1 to 2 arguments expected, but 3 given",
    "SELECT add()": "at least 1 arguments expected, but 0 given",
    "SELECT chunks('a')": "'chunks' is a table function",
    "SELECT f0 FROM LATERAL TABLE(strict(1))": "LATERAL is not supported",
    "SELECT 1 FROM (VALUES (1)) AS t (n), LATERAL TABLE(no_such(n))": (
        "unknown table function 'no_such'"
    ),
    "SELECT no_such(1)": "unknown function 'no_such'",
    "SELECT Weighted(1.0, 2) OVER () FROM (VALUES (1)) AS t (n)": "WEIGHTED cannot stand with OVER",
    "SELECT n FROM (VALUES (1)) AS t (n) WHERE Longest('a') = 'a'": (
        "the aggregate 'longest' cannot stand in WHERE"
    ),
}


@pytest.mark.parametrize("query", REFUSED)
def test_refusal(session: Session, query: str) -> None:
    with pytest.raises(SqlError) as caught:
        run(session, query)
    assert REFUSED[query] in f"{caught.value.message} {caught.value.detail}"
    assert caught.value.position is not None


def test_aggregate_over_windows(session: Session, folder: Path) -> None:
    rows = [
        ("a", 1.0, 1, "xx", 1), ("b", 5.0, 2, None, 2), ("a", 2.0, 3, "y", 3), ("a", 7.0, -1, "zzz", 3),
        ("a", 7.0, 99, "wwww", 3), ("a", None, 4, "vvv", 4), ("a", 9.0, 4, "u", 14),
    ]  # fmt: skip
    lines = [
        json.dumps({"k": k, "v": v, "w": w, "s": s, "ts": f"2020-01-01 00:00:{at:02}"})
        for k, v, w, s, at in rows
    ]
    (folder / "rows.json").write_text("\n".join(lines) + "\n")
    session.output = recorder = Recorder()
    session.run(
        f"""
        CREATE TEMPORARY TABLE src (k STRING, v DOUBLE, w INT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{folder}/rows.json', 'format' = 'json');
        SELECT k, Weighted(v, w), Weighted(v, w) FILTER (WHERE w > 1), Longest(s), COUNT(*)
        FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"""
    )
    assert recorder.errors == {}
    # Neither the negative weight nor the crash counts for anything: they are dead letters.
    assert recorder.rows_of[1] == [
        ("a", 1.75, 2.0, "vvv", 3),
        ("b", 5.0, 5.0, "", 1),
        ("a", 9.0, 9.0, "u", 1),
    ]


LATEST = """(SELECT k, LAST_VALUE(v) AS v, LAST_VALUE(w) AS w, LAST_VALUE(s) AS s
    FROM (VALUES (1, 1.0, 1, 'a'), (2, 4.0, 1, 'b'), (1, 3.0, 3, 'c')) AS t (k, v, w, s) GROUP BY k)"""


def test_aggregate_over_rows_that_are_updated(session: Session) -> None:
    """The row of key 1 is taken back, then its new form comes."""
    session.output = recorder = Recorder()
    session.run(
        f"""SET 'table.exec.mini-batch.enabled' = 'false'; SELECT Weighted(v, w) FROM {LATEST};
        RESET 'table.exec.mini-batch.enabled'; SELECT Longest(s) FROM {LATEST}"""
    )
    values = [1.0, 2.5, 4.0, 3.25]
    assert recorder.rows_of[1] == [
        (values[0],),
        *((v,) for pair in pairwise(values) for v in pair),
    ]
    assert "'mine.Longest' cannot take rows back" in recorder.errors[3].message


def test_explain_says_what_is_kept_for_a_crash(session: Session) -> None:
    ((text,),) = run(session, "EXPLAIN SELECT dice(6), strict(1)")
    assert isinstance(text, str)
    assert "== values that are kept ==" in text
    assert "what mine.dice gives is written down" in text
    ((text,),) = run(session, "EXPLAIN SELECT strict(1)")
    assert "values that are kept" not in str(text)


BAD = {
    "def f(x) -> int: ...": "parameter 'x' has no type hint",
    "def f(x: complex) -> int: ...": "parameter 'x': the hint complex has no SQL type",
    "def f(x: int): ...": "the result has no type hint",
    "def f(x: int) -> object: ...": "the result: the hint object has no SQL type",
    "def f(x: int, *, y: int) -> int: ...": "parameter 'y' can only be given by name",
    "def f(x: list) -> int: ...": "parameter 'x': the hint list has no SQL type",
    "def f(x: Nowhere) -> int: ...": (
        "a type hint cannot be resolved: name 'Nowhere' is not defined"
    ),
    "f = 3": "it is no function",
    "def g(x: int) -> int: ...": "module 'bad' has no 'f'",
    "import no_such_module": (
        "ModuleNotFoundError: No module named 'no_such_module' (bad.py, line 5)"
    ),
    "raise ValueError('no')": "ValueError: no (bad.py, line 5)",
    "def f(x: int) -> int": "SyntaxError: expected ':'",
    "import os; os._exit(5)": "its process ended with code 5",
    "@udf(result_type='NUMBER')\ndef f(x: int): ...": "the result: unknown type 'NUMBER'",
    "@udf(input_types=['INT'])\ndef f(x, y) -> int: ...": (
        "input_types has 1 types for 2 parameters"
    ),
    "@udtf\ndef f(x: int) -> int: ...": "a table function gives rows",
    "@udaf\nclass f: ...": "the class has no method create_accumulator",
    "class P(NamedTuple):\n    a: set\ndef f(x: P) -> int: ...": (
        "parameter 'x': field 'a': the hint set has no SQL type"
    ),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_module_is_refused_when_it_is_created(
    session: Session, folder: Path, text: str
) -> None:
    head = (
        "from __future__ import annotations\nfrom typing import NamedTuple\nfrom sqlengine import"
        " udaf, udf, udtf\n\n"
    )
    (folder / "bad.py").write_text(head + text + "\n")
    recorder: Any = Recorder()
    session.output = recorder
    session.run("CREATE TEMPORARY FUNCTION bad AS 'bad.f' LANGUAGE PYTHON")
    error = recorder.errors[0]
    assert error.message == "function 'bad.f' cannot be used"
    assert BAD[text] in error.detail


def test_show_describe_and_drop(session: Session) -> None:
    recorder = Recorder()
    session.output = recorder
    session.run("""
        CREATE TEMPORARY SYSTEM FUNCTION reverse AS 'mine.greet' LANGUAGE PYTHON USING FILE 'mine.py';
        CREATE FUNCTION IF NOT EXISTS Perm AS 'mine.strict' LANGUAGE PYTHON;
        SHOW USER FUNCTIONS LIKE 'p%';
        SELECT REVERSE('ab'), default_database.perm(1);
        DESCRIBE FUNCTION EXTENDED perm;
        DROP TEMPORARY SYSTEM FUNCTION reverse;
        DROP FUNCTION perm;
        SELECT REVERSE('ab');
        SELECT perm(1);
        DROP FUNCTION perm;
        CREATE FUNCTION f AS 'a.B' LANGUAGE JAVA;
        CREATE FUNCTION f AS 'mine' LANGUAGE PYTHON;
        CREATE FUNCTION f AS 'nowhere.f' LANGUAGE PYTHON""")
    assert recorder.rows_of[2] == [("pairs",), ("perm",)]
    assert recorder.rows_of[3] == [("hello ab", 2)]
    facts = {str(name): value for name, value in recorder.rows_of[4]}
    assert facts["signature"] == "strict(n BIGINT) -> BIGINT"
    assert (facts["is temporary"], facts["kind"], facts["class name"]) == (
        "false",
        "SCALAR",
        "mine.strict",
    )
    assert recorder.rows_of[7] == [("ba",)]
    assert [(n, e.message) for n, e in recorder.errors.items()] == [
        (8, "unknown function 'perm'"),
        (9, "function 'perm' does not exist"),
        (10, "LANGUAGE JAVA is not supported"),
        (11, "'mine' is not module.name"),
        (12, "there is no module 'nowhere'"),
    ]
