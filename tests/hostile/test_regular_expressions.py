"""Texts of others are read in time that is in proportion to their length: Python holds all threads
while it matches a regular expression, so that one record, header or option would stop the server.

Each text here took minutes, hours or days."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from parser.durations import duration_in
from parser.errors import SqlError
from parser.parsing import parse
from parser.suppression import limit
from parser.types import decimal
from sqlengine.connectors.http.reading import next_link
from sqlengine.connectors.http.templates import text_template
from sqlengine.formats.java import is_decimal, java_float
from sqlengine.formats.options import delay, duration
from sqlengine.system.sizes import size
from udf.casts.parsing import parse_decimal, parse_double

MANY = 200_000
DIGITS = "1" * MANY
BLANK = " " * MANY
CASES: dict[str, tuple[Callable[[str], object], str]] = {
    "a number of CAST": (parse_double, f"{DIGITS}x"),
    "a number in hexadecimal digits of CAST": (parse_double, f"0x{DIGITS}x"),
    "a decimal of CAST": (lambda text: parse_decimal(text, decimal(10, 2)), f"{DIGITS}x"),
    "a number of a record": (java_float, f"{DIGITS}x"),
    "a number in hexadecimal digits of a record": (java_float, f"0x{DIGITS}x"),
    "a decimal of a record": (is_decimal, f"{DIGITS}x"),
    "a duration of an option": (duration, f"1{BLANK}x"),
    "a delay of an option": (delay, f"0{BLANK}x"),
    "a size of an option": (size, f"1{BLANK}x"),
    "a duration of a head": (duration_in, f"1{BLANK}!"),
    "a decimal in a text of SQL": (lambda text: parse(f"SELECT DECIMAL '{text}'"), f"{DIGITS}x"),
    "an interval in a text of SQL": (
        lambda text: parse(f"SELECT INTERVAL '{text}' DAY"),
        f"{BLANK}x",
    ),
    "a limit of a head": (limit, f"1/{BLANK}!"),
    "a template": (lambda text: text_template(text, ["a"], "body"), "{{" + BLANK),
    "a header without an end": (lambda text: next_link(text), "<" * MANY),
    "a header without a relation": (lambda text: next_link(text), "<>;" * MANY),
    "a header of many relations": (lambda text: next_link(text), "<a>;" + "rel=" * MANY),
}


@pytest.mark.parametrize("what", CASES)
def test_time_is_in_proportion_to_the_text(what: str) -> None:
    read, text = CASES[what]
    began = time.process_time()
    with suppress(ValueError, SqlError):
        read(text)
    assert time.process_time() - began < 2
