"""What a hint says to write instead of a cast that is not there can be written."""

from __future__ import annotations

import re

import pytest

from parser.errors import SqlError
from parser.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    STRING,
    DataType,
    timestamp,
    timestamp_ltz,
)
from tests.cli.conftest import Sql
from udf.casts.cast import instead_of_cast, resolve_cast

TYPES = (BIGINT, DATE, DOUBLE, INT, STRING, timestamp(3), timestamp_ltz(3))
TABLE = (
    "CREATE TABLE t (x {}) WITH ('connector' = 'datagen', 'number-of-rows' = '1');\n"
    "CREATE TABLE o (y {}) WITH ('connector' = 'blackhole');\n"
)


def refused(source: DataType, target: DataType) -> bool:
    try:
        resolve_cast(source, target)
    except SqlError:
        return True
    return False


PAIRS = [(s, t) for s in TYPES for t in TYPES if refused(s, t) and instead_of_cast(s, t)]


def test_casts_of_times_and_numbers_have_a_hint() -> None:
    assert len(PAIRS) >= 15


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_the_hint_runs(sql: Sql, source: DataType, target: DataType) -> None:
    tables = TABLE.format(source.plain, target.plain)
    for statement in (
        f"SELECT CAST(x AS {target.plain}) FROM t;",
        "INSERT INTO o SELECT x FROM t;",
    ):
        done = sql("run", "-", stdin=(tables + statement).encode())
        assert done.exit_code == 1
        found = re.search(r"hint: write (.*\))(?: for|, whose|$)", done.stderr)
        assert found is not None, done.stderr
        assert "x" in found[1]
        whole = f"CAST({found[1].replace('x)', 'CAST(x AS BIGINT))')} AS {target.plain})"
        text = whole if source is DOUBLE else found[1]
        done = sql("run", "-", stdin=(tables + f"SELECT {text} AS y FROM t;").encode())
        assert done.exit_code == 0, done.stderr
