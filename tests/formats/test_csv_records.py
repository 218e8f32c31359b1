"""Which fields a CSV record has, recorded from Flink 2.3: rows, or the error that there is none."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import PlanError
from parser.types import BIGINT, INT, STRING, DataType, Schema, array, decimal, row
from sqlengine.formats.base import Decoded
from sqlengine.formats.csv_ import CsvFormat, Malformed, split_carefully, split_quoted
from sqlengine.formats.csv_values import Dialect

SCHEMA = Schema.of(id=INT, v=STRING, w=STRING)
LENIENT = {
    "ignore-parse-errors": "true",
    "allow-comments": "true",
    "escape-character": "\\",
    "null-literal": "NULL",
}
NULLS = {"null-literal": "NULL", "allow-comments": "true"}
APOSTROPHE = {"quote-character": "'"}
NO_QUOTE = {"disable-quote-character": "true"}

# record, options, the row or the beginning of the reason
CASES: list[tuple[str, dict[str, str], tuple[object, ...] | str | None]] = [
    ("1,a,b", {}, (1, "a", "b")),
    ("1,,z", {}, (1, "", "z")),
    (" 1,a,z", {}, (1, "a", "z")),
    ('"1",a,z', {}, (1, "a", "z")),
    ("1,a\\,b", {}, (1, "a\\", "b")),
    ("1,NULL,z", {}, (1, "NULL", "z")),
    ("1,é,z", {}, (1, "é", "z")),
    ('1,a"b,c', {}, (1, 'a"b', "c")),
    ('1, "a" ,c', {}, (1, ' "a" ', "c")),
    ('1,"a""b",c', {}, (1, 'a"b', "c")),
    ('1,"a,b",c', {}, (1, "a,b", "c")),
    ('1,"",c', {}, (1, "", "c")),
    (" 1 , a , b ", {}, (1, " a ", " b ")),
    ('1,"  a  ",b', {}, (1, "  a  ", "b")),
    ("1", {}, "malformed CSV: 1 fields, the table has 3 columns"),
    ("1,a", {}, "malformed CSV: 2 fields"),
    ("1,a,b,c", {}, "malformed CSV: 4 fields"),
    ("# x", {}, "malformed CSV: 1 fields"),
    ('1,"a,z', {}, "malformed CSV: a quote is not closed"),
    (",,z", {}, "column 'id': '' is not an INT"),
    ('1,"a"b,c', {}, "malformed CSV: a quoted field goes on at character 6"),
    ("1", LENIENT, (1, None, None)),
    ("1,a,b,c", LENIENT, None),
    ("# x", LENIENT, None),
    ('1,"a,z', LENIENT, None),
    ("1,a\\,b", LENIENT, (1, "a,b", None)),
    ("1,NULL,z", LENIENT, (1, None, "z")),
    ('1,"a\\"b",z', LENIENT, (1, 'a"b', "z")),
    ('1,"NULL",NULL', NULLS, (1, None, None)),
    ("1,NULL,", NULLS, (1, None, "")),
    ("NULL,a,b", NULLS, (None, "a", "b")),
    ("1,#x,z", NULLS, (1, "#x", "z")),
    ("  # x", NULLS, None),
    ("1, NULL,z", NULLS, (1, " NULL", "z")),
    ('1,"a,z', APOSTROPHE, (1, '"a', "z")),
    ('"1",a,z', APOSTROPHE, "column 'id': '\"1\"' is not an INT"),
    ("1,'a,b'", APOSTROPHE, "malformed CSV: 2 fields"),
    ('1,"a""b",c', APOSTROPHE, (1, '"a""b"', "c")),
    ("1,'a,b'", NO_QUOTE, (1, "'a", "b'")),
    ('1,"a"b,c', NO_QUOTE, (1, '"a"b', "c")),
    ("", {}, "malformed CSV: 1 fields"),
    ("", {"allow-comments": "true"}, None),
    ("1,a,b,", {}, (1, "a", "b")),
    ("1,a,b,,", {}, "malformed CSV: 5 fields"),
    ('1,"a\nb\r\n",c', {}, (1, "a\nb\r\n", "c")),
]


def decode(
    records: list[bytes],
    schema: Schema,
    options: dict[str, str],
    columns: tuple[str, ...] | None = None,
) -> Decoded:
    return CsvFormat().decoder(schema, options, columns).decode(pa.array(records, pa.binary()))


@pytest.mark.parametrize(("record", "options", "expected"), CASES)
def test_what_a_record_gives(
    record: str, options: dict[str, str], expected: tuple[object, ...] | str | None
) -> None:
    decoded = decode([b"7,x,y", record.encode()], SCHEMA, options)
    rows = list(zip(*(c.to_pylist() for c in decoded.columns), strict=True))
    if isinstance(expected, tuple):
        assert rows == [(7, "x", "y"), expected]
    else:
        assert rows == [(7, "x", "y")]
        assert [b.reason.startswith(expected or "?") for b in decoded.bad] == (
            [True] if expected else []
        )


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("1;2;3", array(INT), [1, 2, 3]),
        ("1;;3", array(INT), "column 'v': '' is not an INT"),
        ("", array(INT), []),
        ("a;NULL;b", array(STRING), ["a", None, "b"]),
        ("1;x", row(("a", "b"), (INT, STRING)), {"a": 1, "b": "x"}),
        ("1", row(("a", "b"), (INT, STRING)), "column 'v': '1' has 1 fields, not 2"),
        ("123456789.99", decimal(10, 2), None),
        ("abc", decimal(10, 2), "column 'v': 'abc' is not a DECIMAL(10, 2)"),
    ],
)
def test_values_of_nested_types_and_decimals(text: str, kind: DataType, expected: object) -> None:
    decoded = decode([f"7,{text}".encode()], Schema.of(id=INT, v=kind), {"null-literal": "NULL"})
    if isinstance(expected, str):
        assert decoded.bad[0].reason == expected
    else:
        assert decoded.columns[1].to_pylist() == [expected]


def test_columns_are_found_by_their_place_in_the_table() -> None:
    decoded = decode([b"7,x,y", b"?,z,w", b"8,\xff,v"], SCHEMA, {}, ("w",))
    assert [c.to_pylist() for c in decoded.columns] == [["y", "w"]]
    assert decoded.bad[0].reason.startswith("malformed CSV: 'utf-8'")


@settings(max_examples=400, deadline=None)
@given(
    st.text('",\\\\ ab\n\x00é', min_size=1, max_size=12),
    st.sampled_from(["", "\\"]),
    st.sampled_from(["", '"']),
)
def test_both_ways_split_alike(text: str, escape: str, quote: str) -> None:
    """Python's reader and the careful one find the same fields, or none."""
    dialect = Dialect(escape=escape, quote=quote)
    try:
        expected = split_carefully(text, dialect)
    except Malformed:
        with pytest.raises(Malformed):
            split_quoted(text, dialect)
    else:
        assert split_quoted(text, dialect) == expected


def test_bad_options() -> None:
    with pytest.raises(PlanError, match="bad value ',,' for option 'field-delimiter'"):
        CsvFormat().decoder(SCHEMA, {"field-delimiter": ",,"})
    with pytest.raises(PlanError, match="exclude each other"):
        CsvFormat().decoder(SCHEMA, {**APOSTROPHE, **NO_QUOTE})


def test_numbers_of_a_whole_batch() -> None:
    """Arrow reads the column at once unless a text needs a closer look; the rows are the same."""
    schema = Schema.of(v=BIGINT)
    texts = [b"1", b"-9223372036854775808", b"007"]
    assert decode(texts, schema, {}).columns[0].to_pylist() == [1, -(2**63), 7]
    assert decode([*texts, b" +7 "], schema, {}).columns[0].to_pylist() == [1, -(2**63), 7, 7]
