"""Parameters become typed literals, and no text of one is read as SQL."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import ParseError
from parser.grammar.lexer import tokenize
from parser.writer.parameters import BadParameters, ParamStyle, template
from parser.writer.values import BadValue, literal
from sqlengine.connection.base import Connection
from sqlengine.connection.connecting import connect

EAST = dt.timezone(dt.timedelta(hours=2))
TEXTS = [
    "it's",
    "a\\b",
    "\\'",
    "'; DROP TABLE t; --",
    "\0nul",
    "é😀\u2028\r\n",
    "`x`",
    "${x}",
    "/*",
    "",
]
NUMBERS = [
    0,
    -5,
    2**31,
    -(2**63),
    2**63,
    -(2**70),
    1.5,
    1e300,
    5e-324,
    math.inf,
    -math.inf,
    True,
    False,
]
DECIMALS = [Decimal("1.50"), Decimal("-0.001"), Decimal("1E+5"), Decimal(0)]
TIMES = [
    dt.date(1, 1, 1),
    dt.date(9999, 12, 31),
    dt.time(1, 2, 3, 4000),
    dt.datetime(2020, 1, 2, 3, 4, 5, 678901),
    dt.datetime(1960, 1, 2, 3, 4, 5, 678901, tzinfo=EAST),
    dt.timedelta(days=-3, milliseconds=5),
    dt.timedelta(milliseconds=-5),
]
OTHERS = [
    b"\x00'\xff",
    b"",
    [1, 2],
    {"a": 1},
    np.int64(5),
    np.float64(2.5),
    np.datetime64("2020-01-01T00:00:00.123456789"),
    pd.Timestamp("2020-01-01 00:00:00.123456789"),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Connection]:
    with connect() as connection:
        yield connection


@pytest.mark.parametrize("values", [TEXTS, NUMBERS, DECIMALS, TIMES, OTHERS])
def test_values_come_back(engine: Connection, values: list[object]) -> None:
    names = ", ".join(f"? AS c{n}" for n in range(len(values)))
    (row,) = engine.sql(template(f"SELECT {names}").bound(values))
    assert list(row) == values


def test_values_that_become_others(engine: Connection) -> None:
    key = uuid.UUID(int=5)
    (row,) = engine.sql(template("SELECT ? AS a, ? AS b, ? AS c").bound([key, math.nan, -0.0]))
    assert row.a == str(key)
    assert math.isnan(row.b)
    assert math.copysign(1, row.c) == -1
    assert (
        literal(None)
        == literal(pd.NaT)
        == literal(pd.NA)
        == literal(np.datetime64("NaT"))
        == "NULL"
    )


@pytest.mark.parametrize(
    "value",
    [
        "\ud800",
        Decimal("NaN"),
        10**38,
        object(),
        dt.time(1, tzinfo=EAST),
        dt.time(1, 2, 3, 4),
        dt.timedelta(microseconds=1),
        dt.timedelta(days=1000),
        [],
        {},
    ],
)
def test_values_that_sql_has_not(value: object) -> None:
    with pytest.raises(BadValue):
        literal(value)


@settings(max_examples=60, deadline=None)
@given(st.text(), st.binary(), st.integers(-(2**63), 2**63), st.floats())
def test_a_text_is_one_token_whatever_it_has(
    text: str, data: bytes, number: int, other: float
) -> None:
    """What is bound cannot end its literal: the statement has the same tokens around it."""
    bound = template("a ? b").bound([text])
    first, string, *rest = tokenize(bound)
    assert (first.text, string.text, rest[0].text) == ("a", text, "b")
    tokenize(template("E? - ? - ? X?").bound([data, number, other, text]))


def test_a_literal_touches_no_word() -> None:
    assert template("SELECT E?, X?, _utf8?, -?").bound(["\\' OR 1", "a", "b", -1]) == (
        r"SELECT E '\'' OR 1' , X 'a' , _utf8 'b' , - (-1) "
    )


@pytest.mark.parametrize(
    ("style", "sql", "parameters", "bound"),
    [
        ("qmark", "a = ? -- ?\n AND `?` = '?'", [1], "a =  1  -- ?\n AND `?` = '?'"),
        ("named", "a = :b AND ':b' = :c", {"b": 1, "c": 2, "d": 3}, "a =  1  AND ':b' =  2 "),
        ("numeric", "a = :2 AND b = :1", ["x", 1], "a =  1  AND b =  'x' "),
        ("format", "a LIKE 'x%%' AND b %% 2 = %s", [1], "a LIKE 'x%' AND b % 2 =  1 "),
        ("pyformat", "a = %(b)s OR c = %(b)s", {"b": "%(b)s"}, "a =  '%(b)s'  OR c =  '%(b)s' "),
    ],
)
def test_styles(style: ParamStyle, sql: str, parameters: list[object], bound: str) -> None:
    assert template(sql, style).bound(parameters) == bound


@pytest.mark.parametrize(
    ("style", "sql", "parameters"),
    [
        ("qmark", "?", []),
        ("qmark", "?", [1, 2]),
        ("qmark", "?", {"a": 1}),
        ("qmark", "?", "a"),
        ("named", ":a", {}),
        ("named", ":a", [1]),
        ("numeric", ":0", [1]),
        ("numeric", ":2", [1]),
        ("format", "'%s'", [1]),
        ("format", "5 % 3 = %s", [1]),
        ("pyformat", "%s %(a)s", {"a": 1}),
    ],
)
def test_parameters_that_do_not_fit(style: ParamStyle, sql: str, parameters: list[object]) -> None:
    with pytest.raises(BadParameters):
        template(sql, style).bound(parameters)


def test_a_text_that_is_none() -> None:
    with pytest.raises(ParseError):
        template("SELECT 'open ?")
