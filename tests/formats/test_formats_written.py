"""What the formats write is what Flink writes, and what they write they read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import UnsupportedError
from parser.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TINYINT,
    Schema,
    array,
    map_of,
    timestamp,
    timestamp_ltz,
)
from parser.types import decimal as decimal_type
from parser.types import row as row_type
from sqlengine.batch import Batch, concat, from_pydict
from sqlengine.connectors.print.values import printer
from sqlengine.formats.registry import get_format
from tests.formats.golden_cases import GOLDENS
from tests.formats.written_rows import SCHEMA, written_rows
from udf.java.hash_maps import flink_text_hash, in_table_order

GOLDEN: dict[str, Any] = json.loads((GOLDENS / "written.json").read_text())
FORMS: dict[str, tuple[str, dict[str, str]]] = {
    "json": ("json", {}),
    "json ISO-8601": (
        "json",
        {
            "timestamp-format.standard": "ISO-8601",
            "encode.decimal-as-plain-number": "true",
            "encode.ignore-null-fields": "true",
        },
    ),
    "csv": ("csv", {}),
    "csv null-literal": ("csv", {"null-literal": "NULL", "field-delimiter": ";"}),
    "csv unquoted": ("csv", {"disable-quote-character": "true"}),
}


def written(form: str) -> bytes:
    format_name, options = FORMS[form]
    batch = written_rows(without=("mp",) if format_name == "csv" else ())
    return b"".join(
        r + b"\n"
        for r in get_format(format_name).encoder(batch.schema, options).encode(batch).to_pylist()
    )


@pytest.mark.parametrize("form", [f for f in FORMS if f.startswith("json")])
def test_json_is_written_as_flink_writes_it(form: str) -> None:
    """Order, NULL and times are the same; numbers are equal numbers (1.50 for Flink's 1.5). A NULL
    field of a ROW may be written where Flink leaves it out."""
    ours, flinks = (
        written(form).decode().replace('{"a":null,', "{").splitlines(),
        GOLDEN[form].replace('{"a":null,', "{").splitlines(),
    )
    assert [json.loads(o) for o in ours] == [json.loads(f) for f in flinks]
    assert [list(json.loads(o)) for o in ours] == [list(json.loads(f)) for f in flinks]


@pytest.mark.parametrize("form", [f for f in FORMS if f.startswith("csv")])
def test_csv_is_written_as_flink_writes_it(form: str) -> None:
    """Byte for byte."""
    assert written(form).decode() == GOLDEN[form]


def test_print_writes_as_flink_writes() -> None:
    batch = written_rows()
    columns = [printer(c.type)(a) for c, a in zip(batch.schema, batch.columns, strict=True)]
    lines = ["+I[" + ", ".join(row) + "]" for row in zip(*columns, strict=True)]
    assert sorted(lines) == GOLDEN["print"]


@pytest.mark.oracle
@pytest.mark.parametrize("form", FORMS)
def test_written_goldens_are_what_flink_says(form: str, flink: Any, tmp_path: Path) -> None:
    format_name, options = FORMS[form]
    batch = written_rows(without=("mp",) if format_name == "csv" else ())
    with_options = "".join(f", '{format_name}.{k}' = '{v}'" for k, v in options.items())
    table = ", ".join(f"{c.name} {c.type}" for c in batch.schema)
    script = (
        "SET 'table.local-time-zone' = 'UTC'; SET 'parallelism.default' = '1';"
        + (GOLDENS / "written.sql").read_text()
        + f"CREATE TEMPORARY TABLE t ({table}) WITH ('connector' = 'filesystem', 'path' ="
        f" '{tmp_path}', " + f"'format' = '{format_name}'{with_options}); INSERT INTO t SELECT"
        f" {', '.join(batch.schema.names)} FROM v;"
    )
    errors = [event["message"] for event in flink.run(script) if event["kind"] == "error"]
    assert not errors
    files = [p for p in tmp_path.rglob("*") if p.is_file() and not p.name.startswith(".")]
    written = "".join(p.read_text() for p in files)
    # Flink's VALUES give their rows in the order in which their threads come.
    assert sorted(written.splitlines()) == sorted(GOLDEN[form].splitlines())


def test_numbers_that_json_has_not_are_texts() -> None:
    schema = Schema.of(i=INT, d=DOUBLE, f=FLOAT)
    batch = from_pydict(
        schema,
        {
            "i": [1, 2, 3, 4],
            "d": [1.5, float("nan"), None, 2.5],
            "f": [1.0, 2.0, float("-inf"), None],
        },
    )
    records = get_format("json").encoder(schema, {}).encode(batch)
    assert records.to_pylist() == [
        b'{"i":1,"d":1.5,"f":1.0}',
        b'{"i":2,"d":"NaN","f":2.0}',
        b'{"i":3,"d":null,"f":"-Infinity"}',
        b'{"i":4,"d":2.5,"f":null}',
    ]


@pytest.mark.parametrize(
    ("format_name", "kind"),
    [("json", map_of(INT, STRING)), ("csv", map_of(STRING, INT)), ("raw", DATE)],
)
def test_a_type_that_a_format_cannot_hold(format_name: str, kind: Any) -> None:
    schema = Schema.of(v=kind)
    with pytest.raises(UnsupportedError, match="cannot hold"):
        get_format(format_name).encoder(schema, {})
    with pytest.raises(UnsupportedError, match="cannot hold"):
        get_format(format_name).decoder(schema, {})


def _read(entries: dict[str, int | None]) -> list[tuple[str, int | None]]:
    """The entries in the order in which a format reads them."""
    return in_table_order([*entries.items()], flink_text_hash)


_text = st.text(st.characters(codec="utf-8"), max_size=30)
_millis = st.integers(-62_135_596_800_000, 253_402_300_799_999)
_VALUES = {
    "i": (INT, st.integers(-(2**31), 2**31 - 1)),
    "l": (BIGINT, st.integers(-(2**63), 2**63 - 1)),
    "y": (TINYINT, st.integers(-128, 127)),
    "d": (DOUBLE, st.floats(allow_nan=False)),
    "f": (FLOAT, st.floats(width=32, allow_nan=False)),
    "m": (decimal_type(20, 5), st.decimals(-(10**14), 10**14, places=5)),
    "s": (STRING, _text),
    "c": (STRING, st.text("\0\a\b\t\n\x1b\x1f\x7f\"\\\\/<é\u2028\uffff😀u", max_size=6)),
    "o": (BOOLEAN, st.booleans()),
    "b": (BYTES, st.binary(max_size=8)),
    "t": (timestamp(3), _millis),
    "n": (timestamp(9), st.integers(-(2**62), 2**62)),
    "z": (timestamp_ltz(6), _millis),
    "a": (array(STRING), st.lists(st.none() | _text, max_size=3)),
    "p": (map_of(STRING, BIGINT), st.dictionaries(_text, st.none() | st.integers(0, 9), max_size=3).map(_read)),
    "r": (row_type(("x", "t"), (INT, timestamp(3))), st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "t": st.none() | _millis})),
}  # fmt: skip


def _batches(names: str) -> st.SearchStrategy[Batch]:
    schema = Schema.of(**{n: _VALUES[n][0] for n in names})
    rows = st.lists(st.tuples(*(st.none() | _VALUES[n][1] for n in names)), min_size=1, max_size=8)
    return rows.map(
        lambda rs: from_pydict(schema, {n: [r[i] for r in rs] for i, n in enumerate(names)})
    )


def _reads_back(batch: Batch, format_name: str, **options: str) -> None:
    given_options = {k.replace("_", "-"): v for k, v in options.items()}
    found = get_format(format_name)
    records = found.encoder(batch.schema, given_options).encode(batch)
    decoded = found.decoder(batch.schema, given_options).decode(records)
    assert not decoded.bad
    for column, expected in zip(decoded.columns, batch.columns, strict=True):
        assert column.equals(expected), (records.to_pylist(), column, expected)


@settings(max_examples=150, deadline=None)
@given(_batches("ilydfmsobtnzapr"))
def test_json_reads_what_it_wrote(batch: Batch) -> None:
    _reads_back(batch, "json")
    _reads_back(batch.slice(batch.num_rows // 2, batch.num_rows - batch.num_rows // 2), "json")


@settings(max_examples=100, deadline=None)
@given(_batches("ilysoc"))
def test_few_rows_are_written_as_many(batch: Batch) -> None:
    encoder = get_format("json").encoder(batch.schema, {})
    several = [batch] * 5
    one_by_one = [encoder.encode(batch.slice(i, 1)).to_pylist()[0] for i in range(batch.num_rows)]
    assert encoder.encode(concat(several)).to_pylist() == one_by_one * 5


@settings(max_examples=100, deadline=None)
@given(_batches("ilydfmsobtnz"), st.sampled_from(["", "\\", "'"]))
def test_csv_reads_what_it_wrote(batch: Batch, escape: str) -> None:
    options = {"escape_character": escape} if escape else {}
    _reads_back(batch, "csv", null_literal="\x01none", **options)


@pytest.mark.parametrize("kind", ["i", "l", "y", "d", "f", "o"])
def test_raw_reads_what_it_wrote(kind: str) -> None:
    schema = Schema.of(v=_VALUES[kind][0])
    values = [True, None, False] if kind == "o" else [1, None, -7]
    for order in ("big-endian", "little-endian"):
        _reads_back(from_pydict(schema, {"v": values}), "raw", endianness=order)


def test_raw_texts_and_bad_sizes() -> None:
    raw = get_format("raw")
    text = raw.decoder(Schema.of(v=STRING), {"charset": "ISO-8859-1"}).decode(
        pa.array([b"\xe9", b""], pa.binary())
    )
    assert text.columns[0].to_pylist() == ["é", ""]
    broken = raw.decoder(Schema.of(v=STRING), {}).decode(pa.array([b"a\xff"], pa.binary()))
    assert broken.columns[0].to_pylist() == ["a\ufffd"]
    numbers = raw.decoder(Schema.of(v=INT), {}).decode(pa.array([b"\0\0\0\7", b"\0"], pa.binary()))
    assert numbers.columns[0].to_pylist() == [7]
    assert [(b.row, b.reason) for b in numbers.bad] == [(1, "1 bytes are not INT, which has 4")]


def test_all_columns_of_the_goldens_are_there() -> None:
    assert list(json.loads(GOLDEN["json"].splitlines()[0])) == list(SCHEMA.names)
