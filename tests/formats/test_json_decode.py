"""Reading JSON records: bad ones are set apart with a reason, and nothing depends on how records
are batched."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import PlanError
from parser.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    Column,
    Schema,
    array,
    decimal,
    timestamp,
)
from sqlengine.formats.base import Decoded, Decoder
from sqlengine.formats.json_ import JsonFormat
from sqlengine.formats.json_sieve import Sieve
from sqlengine.formats.json_values import Rules

SCHEMA = Schema.of(id=BIGINT, name=STRING)
GOOD = b'{"id": 1, "name": "a"}'


def decode(records: list[bytes], schema: Schema = SCHEMA, **options: str) -> Decoded:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return JsonFormat().decoder(schema, given).decode(pa.array(records, pa.binary()))


def rows(decoded: Decoded) -> list[tuple[object, ...]]:
    columns = [c.to_pylist() for c in decoded.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * decoded.num_rows


BAD = {
    "trailing comma": (b'{"id": 1, "name": "a",}', "malformed JSON: "),
    "trailing comma and space": (b'{"id": 1, "name": "a" , \t }', "malformed JSON: "),
    "cut off": (b'{"id": 1, "name": "a"', "malformed JSON: Input data was truncated"),
    "not an object": (b"17", "malformed JSON: Expected `object`, got `int`"),
    "null": (b"null", "malformed JSON: Expected `object`, got `null`"),
    "wrong type": (b'{"id": "x7", "name": "a"}', "column 'id': \"x7\" is not a BIGINT"),
    "object for a number": (b'{"id": {"a": 1}}', "column 'id': {\"a\": 1} is not a BIGINT"),
    "too large": (
        b'{"id": 9223372036854775808}',
        "column 'id': 9223372036854775808 is not a BIGINT",
    ),
    "text of a NUL for a number": (
        b'{"id": "\\u0000"}',
        "column 'id': \"\\u0000\" is not a BIGINT",
    ),
    "invalid UTF-8": (
        b'{"id": 1, "name": "\xff"}',
        "malformed JSON: 'utf-8' codec can't decode byte 0xff",
    ),
    "invalid UTF-8 where nobody reads": (
        b'{"id": 1, "x": "\xff"}',
        "malformed JSON: 'utf-8' codec can't decode",
    ),
    "NUL behind": (b'{"id": 1}\x00', "malformed JSON: JSON is malformed"),
    "two objects": (b'{"id": 1}{"id": 2}', "malformed JSON: trailing characters"),
    "two objects with space": (b'{"id": 1} {"id": 2}', "malformed JSON: trailing characters"),
    "string that runs on": (b'{"id": 1, "name": "x}', "malformed JSON"),
    "array of other things": (b"[1]", "malformed JSON: Expected `object`, got `int`"),
    "deep nesting where it is read": (
        b'{"name": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        "malformed JSON",
    ),
    "a page of garbage": (b"\x00\x01\xfe" * 1000, "malformed JSON"),
    "leading zero": (b'{"id": 01}', "malformed JSON"),
    "leading zero where nobody reads": (b'{"id": 1, "x": [-01]}', "malformed JSON"),
    "a point at the end": (b'{"id": 1.}', "malformed JSON"),
    "no comma": (b'{"id": 1 "name": "a"}', "malformed JSON"),
    "two commas": (b'{"id": 1,, "name": "a"}', "malformed JSON"),
    "no comma in an array": (b'{"id": 1, "x": [1 2]}', "malformed JSON"),
    "NaN": (b'{"id": NaN}', "malformed JSON: invalid character"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_record_is_set_apart(case: str) -> None:
    record, reason = BAD[case]
    decoded = decode([GOOD, record, GOOD])
    assert rows(decoded) == [(1, "a"), (1, "a")]
    assert decoded.rows is not None
    assert decoded.rows.tolist() == [0, 2]
    assert [b.row for b in decoded.bad] == [1]
    assert (
        decoded.bad[0]
        .reason.replace("JSON is malformed: ", "")
        .startswith(reason.replace("JSON is malformed", ""))
    )
    alone = decode([record])
    assert alone.num_rows == 0
    assert alone.bad[0].reason == decoded.bad[0].reason


GIVES = {
    "empty record": (b"", []),
    "empty array": (b"[]", []),
    "array of objects": (b'[{"id": 1}, {"id": 2, "name": "b"}]', [(1, None), (2, "b")]),
    "no field": (b"{}", [(None, None)]),
    "other case": (b'{"ID": 1}', [(None, None)]),
    "null": (b'{"id": null, "name": null}', [(None, None)]),
    "last of two wins": (b'{"id": 1, "id": 2, "name": "a", "name": "b"}', [(2, "b")]),
    "space around": (b' \t{"id": 1}\r\n', [(1, None)]),
    "byte order mark": (b'\xef\xbb\xbf{"id": 1}', [(1, None)]),
    "control characters": (b'{"id": 1, "name": "a\tb\x00c\nd"}', [(1, "a\tb\x00c\nd")]),
    "escapes": (rb'{"\u0069d": 1, "name": "\u0000\ud83d\ude00\""}', [(1, '\0😀"')]),
    "escapes beyond U+20000": (
        rb'{"name": "\ud840\udc00 \uDBFF\uDFFD"}',
        [(None, "\U00020000 \U0010fffd")],
    ),
    "half a surrogate pair": (rb'{"id": 1, "name": "a\ud800"}', [(1, "a?")]),
    "braces in a string": (b'{"id": 1, "name": "{x} {y}{z}"}', [(1, "{x} {y}{z}")]),
    "number for a string": (b'{"name": 1.50}', [(None, "1.50")]),
    "minus zero for a string": (b'{"name": -0}', [(None, "-0")]),
    "object for a string": (
        b'{"name": {"b": [1, 2.0e3], "a": "\\u00e9"}}',
        [(None, '{"b":[1,2000.0],"a":"é"}')],
    ),
    "text for a number": (b'{"id": " 7 "}', [(7, None)]),
    "deep nesting where nobody reads": (
        b'{"id": 1, "x": ' + b"[" * 900 + b"]" * 900 + b"}",
        [(1, None)],
    ),
}


@pytest.mark.parametrize("case", GIVES)
def test_what_a_record_gives(case: str) -> None:
    record, expected = GIVES[case]
    assert rows(decode([record])) == expected
    between = decode([GOOD, record, GOOD])
    assert rows(between) == [(1, "a"), *expected, (1, "a")]
    assert not between.bad


def test_a_record_of_ten_megabytes() -> None:
    long = b'{"id": 1, "name": "' + b"x" * 10_000_000 + b'"}'
    decoded = decode([GOOD, long])
    assert len(decoded.columns[1][1].as_py()) == 10_000_000


def test_a_large_batch_is_read_in_pieces() -> None:
    """More than a megabyte; bad records and arrays of objects keep their places."""
    records = [b'{"id": %d, "name": "%s"}' % (i, b"x" * 1000) for i in range(3000)]
    records[10], records[2500], records[2999] = b"{", b'{"id": "?"}', b'[{"id": -1}, {"id": -2}]'
    decoded = decode(records)
    expected = [i for i in range(2999) if i not in (10, 2500)] + [-1, -2]
    assert decoded.columns[0].to_pylist() == expected
    assert decoded.rows is not None
    assert decoded.rows.tolist() == [*expected[:-2], 2999, 2999]
    assert [b.row for b in decoded.bad] == [10, 2500]


def test_columns_that_hold_numbers_among_texts() -> None:
    """The first batch learns which columns they are; texts in the next ones stay texts."""
    decoder = JsonFormat().decoder(SCHEMA, {})
    for values in (["7", '"a"'], ['"b"', '"c"'], ["1E5", "true"]):
        records = [b'{"id": 5, "name": %s}' % v.encode() for v in values]
        decoded = decoder.decode(pa.array(records, pa.binary()))
        assert rows(decoded) == [(5, v.strip('"')) for v in values]


def test_no_column_is_needed() -> None:
    """COUNT(*) reads no column; malformed records do not count all the same."""
    decoded = decode([GOOD, b"{", GOOD], Schema(()))
    assert (decoded.num_rows, [b.row for b in decoded.bad]) == (2, [1])
    assert decode([], SCHEMA).num_rows == 0


def test_ignored_errors_are_null_or_nothing() -> None:
    decoded = decode([b'{"id": "x", "name": "a"}', b"{", GOOD], ignore_parse_errors="true")
    assert rows(decoded) == [(None, "a"), (1, "a")]
    assert not decoded.bad


def test_missing_fields_may_be_errors() -> None:
    decoded = decode([GOOD, b'{"id": 1}', b'{"id": 2, "name": null}'], fail_on_missing_field="true")
    assert rows(decoded) == [(1, "a"), (2, None)]
    assert [(b.row, b.reason) for b in decoded.bad] == [(1, "missing field 'name'")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ignore-parse-error": "true"}, "unknown option 'ignore-parse-error' of format 'json'"),
        (
            {"timestamp-format.standard": "RFC"},
            "bad value 'RFC' for option 'timestamp-format.standard'",
        ),
        ({"ignore-parse-errors": "true", "fail-on-missing-field": "true"}, "exclude each other"),
    ],
)
def test_bad_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        JsonFormat().decoder(SCHEMA, options)


def test_a_sliced_array_is_read_from_its_offset() -> None:
    records = pa.array([b"{", GOOD, b'{"id": 2}', b"{"], pa.binary())[1:3]
    assert rows(JsonFormat().decoder(SCHEMA, {}).decode(records)) == [(1, "a"), (2, None)]


WIDE = Schema(
    tuple(
        Column(name, kind)
        for name, kind in {
            "i": INT,
            "l": BIGINT,
            "s": STRING,
            "d": DOUBLE,
            "b": BOOLEAN,
            "m": decimal(6, 2),
            "t": timestamp(3),
            "h": SMALLINT,
            "a": array(INT),
        }.items()
    )
)

_numbers = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.sampled_from(
        [
            "-0",
            "1.5",
            "1e3",
            "2147483647.5",
            "-2147483649",
            "1E400",
            "9.99e18",
            "0.005",
            "9999.995",
            "01",
            "1.",
        ]
    ),
)
_strings = st.one_of(
    st.text(max_size=8).map(json.dumps),
    st.sampled_from(
        [
            '"7"',
            '" 7"',
            '"1.50"',
            '"true"',
            '"inf"',
            '"NaN"',
            '"2020-02-30 00:00:00"',
            '"2020-01-02 03:04:05.6"',
        ]
    ),
    st.sampled_from(['"\\u0000"', '"\\ud800"', '"}{"', '"} {"', '"a\tb"', '"\x00"']),
)
_values = st.one_of(
    _numbers,
    _strings,
    st.sampled_from(
        ["null", "true", "false", "[]", "[1,2]", "[1,x]", "{}", '{"a":{"b":[1.0]}}', "nul"]
    ),
)
_names = st.sampled_from([*WIDE.names, "other", "\\u0069"])
_records = st.one_of(
    st.lists(st.tuples(_names, _values), max_size=5).map(
        lambda fs: "{" + ", ".join(f'"{n}": {v}' for n, v in fs) + "}"
    ),
    st.sampled_from(
        [
            "",
            "{",
            "}",
            "[]",
            "{} {}",
            '{"s":"x}',
            'y"}',
            '{y"} {}',
            "null",
            '{"i": 1,}',
            '{"s": [{}',
            "{}]}",
        ]
    ),
).map(lambda text: text.encode("utf-8", "surrogatepass"))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(_records, max_size=6),
    st.sampled_from([WIDE, WIDE.select(("i", "l", "s", "d", "b", "m", "t"))]),
)
def test_batches_do_not_matter(records: list[bytes], schema: Schema) -> None:
    """A batch gives what its records give one by one, whatever the decoder has seen before."""
    decoder: Decoder = JsonFormat().decoder(schema, {})
    expected, bad = [], []
    for i, record in enumerate(records):
        alone = decode([record], schema)
        expected += [(i, row) for row in rows(alone)]
        bad += [(i, b.reason) for b in alone.bad]
    for _ in range(2):
        decoded = decoder.decode(pa.array(records, pa.binary()))
        places = list(range(len(records))) if decoded.rows is None else decoded.rows.tolist()
        # NaN is not equal to itself.
        assert str(list(zip(places, rows(decoded), strict=True))) == str(expected)
        assert [(b.row, b.reason) for b in decoded.bad] == bad


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WIDE.names), _values), max_size=5))
def test_both_ways_read_alike(fields: list[tuple[str, str]]) -> None:
    """What the sieve makes of a record that it takes is what the decoder makes of it."""
    record = ("{" + ", ".join(f'"{n}": {v}' for n, v in fields) + "}").encode(
        "utf-8", "surrogatepass"
    )
    schema = WIDE.select(("i", "l", "s", "d", "b", "m", "t"))
    sieved = Sieve(schema, Rules()).read([record])
    decoded = decode([record], schema)
    if not sieved.malformed:
        assert str(rows(decoded)) == str(
            list(zip(*(c.to_pylist() for c in sieved.columns), strict=True))
        )
        assert decoded.bad == sieved.bad
    else:
        assert len(decoded.bad) == 1


@settings(max_examples=150, deadline=None)
@given(_records, st.integers(0, 40), st.sampled_from(["", "0", ".", ",", " ", '"', "1", "}"]))
def test_what_is_no_json_gives_no_row(record: bytes, at: int, sign: str) -> None:
    """One sign more or less: what Python's strict reader refuses is refused, though nobody reads
    the member."""
    changed = b'{"other": ' + record[:at] + sign.encode() + record[at + (not sign) :] + b"}"
    try:
        json.loads(changed.decode("utf-8"), strict=False, parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError):
        assert rows(decode([GOOD, changed])) == [(1, "a")]


def test_real_events(shared: Path) -> None:
    """Every column of real Windows events is what Python's own reader finds."""
    lines = gzip.decompress(
        (shared / "corpora" / "sigma" / "process_creation.jsonl.gz").read_bytes()
    ).splitlines()[:1500]
    events = [json.loads(line) for line in lines]
    names = sorted({name for event in events for name in event})
    kinds = {
        n: BIGINT if all(isinstance(e[n], int) for e in events if n in e) else STRING for n in names
    }
    schema = Schema(tuple(Column(n, k) for n, k in kinds.items()))
    decoded = decode(lines, schema)
    assert not decoded.bad
    for column, array_ in zip(schema, decoded.columns, strict=True):
        expected = [e.get(column.name) for e in events]
        if column.type == STRING:
            expected = [None if v is None else str(v) for v in expected]
        assert array_.to_pylist() == expected
