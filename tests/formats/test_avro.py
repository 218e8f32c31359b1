"""Avro: what is written is read again, by fastavro too; what is malformed costs its record."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import time as clock
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import ExecutionError, UnsupportedError
from parser.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    DataType,
    Schema,
    array,
    decimal,
    map_of,
    row,
    time,
    timestamp,
    timestamp_ltz,
)
from sqlengine.batch import Batch, concat, from_pydict
from sqlengine.formats.avro.decoder import BinaryDecoder
from sqlengine.formats.avro.derived import schema_of
from sqlengine.formats.avro.schemas import BadSchema, parse_schema
from sqlengine.formats.base import FileReader
from sqlengine.formats.registry import get_format

AVRO = get_format("avro")
NEW = {"timestamp_mapping.legacy": "false"}
_text = st.text(st.characters(codec="utf-8"), max_size=20)
_millis = st.integers(-62_135_596_800_000, 253_402_300_799_999)
VALUES: dict[str, tuple[DataType, st.SearchStrategy[Any]]] = {
    "o": (BOOLEAN, st.booleans()),
    "y": (TINYINT, st.integers(-128, 127)),
    "h": (SMALLINT, st.integers(-(2**15), 2**15 - 1)),
    "i": (INT, st.integers(-(2**31), 2**31 - 1)),
    "l": (BIGINT, st.integers(-(2**63), 2**63 - 1)),
    "f": (FLOAT, st.floats(width=32, allow_nan=False)),
    "d": (DOUBLE, st.floats(allow_nan=False)),
    "m": (decimal(20, 5), st.decimals(-(10**14), 10**14, places=5)),
    "w": (decimal(38, 0), st.decimals(-(10**37), 10**37, places=0)),
    "s": (STRING, _text),
    "b": (BYTES, st.binary(max_size=20)),
    "D": (DATE, st.integers(-700_000, 2_900_000)),
    "T": (time(3), st.integers(0, 86_399_999)),
    "t": (timestamp(3), _millis),
    "u": (timestamp(6), st.integers(-(2**62), 2**62)),
    "n": (timestamp_ltz(9), st.integers(-(2**62), 2**62)),
    "z": (timestamp_ltz(3), _millis),
    "a": (array(STRING), st.lists(st.none() | _text, max_size=3)),
    "A": (array(array(BIGINT)), st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=2), max_size=3)),
    "p": (map_of(STRING.with_nullable(False), BIGINT), st.dictionaries(_text, st.none() | st.integers(0, 9), max_size=3).map(lambda d: list(d.items()))),
    "r": (row(("x", "t"), (INT, timestamp(3))), st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "t": st.none() | _millis})),
    "R": (array(row(("k", "v"), (STRING, map_of(STRING.with_nullable(False), DOUBLE)))), st.lists(st.fixed_dictionaries({"k": st.none() | _text, "v": st.none() | st.just([("q", 1.5)])}), max_size=2)),
}  # fmt: skip


def batches(names: str) -> st.SearchStrategy[Batch]:
    schema = Schema.of(**{n: VALUES[n][0] for n in names})
    rows = st.lists(st.tuples(*(st.none() | VALUES[n][1] for n in names)), min_size=1, max_size=8)
    return rows.map(
        lambda rs: from_pydict(schema, {n: [r[i] for r in rs] for i, n in enumerate(names)})
    )


def decoded(records: pa.Array, schema: Schema, options: dict[str, str] = NEW) -> Any:
    return AVRO.decoder(schema, options).decode(records)


def assert_equal(columns: Any, batch: Batch) -> None:
    for name, column, expected in zip(batch.schema.names, columns, batch.columns, strict=True):
        assert column.equals(expected), (name, column, expected)


@settings(max_examples=60, deadline=None)
@given(batches("".join(VALUES)), st.sampled_from(["binary", "json"]))
def test_all_types_are_read_as_they_were_written(batch: Batch, encoding: str) -> None:
    """Few records go through fastavro, many side by side."""
    options = {**NEW, "encoding": encoding}
    for rows in (batch, concat([batch] * 200)):
        records = AVRO.encoder(rows.schema, options).encode(rows)
        read = decoded(records, rows.schema, options)
        assert not read.bad
        assert_equal(read.columns, rows)
        if encoding == "json":
            return


@settings(max_examples=40, deadline=None)
@given(batches("".join(VALUES)), st.data())
def test_records_that_are_cut_or_changed_cost_themselves(batch: Batch, data: st.DataObject) -> None:
    """Read side by side and one by one the same records are bad; rows of the others are whole."""
    rows = concat([batch] * (200 // batch.num_rows + 1))
    records = AVRO.encoder(rows.schema, NEW).encode(rows).to_pylist()
    changed = data.draw(st.sets(st.integers(0, len(records) - 1), max_size=20))
    for i in changed:
        at = data.draw(st.integers(0, len(records[i])))
        tail = data.draw(st.sampled_from([b"", b"\xff" * 12, records[i][at + 1 :], records[i]]))
        records[i] = records[i][:at] + tail
    read = decoded(pa.array(records, pa.binary()), rows.schema)
    known = np.arange(len(records)) if read.rows is None else read.rows
    good = np.isin(known, list(changed), invert=True)
    assert set(range(len(records))) - set(changed) <= set(known.tolist())
    for column, expected in zip(read.columns, rows.columns, strict=True):
        assert column.filter(pa.array(good)).equals(expected.take(pa.array(known[good])))
    for i in changed:
        alone = decoded(pa.array([records[i]], pa.binary()), rows.schema)
        there = np.flatnonzero(known == i)
        assert len(alone.columns[0]) == len(there), (records[i], alone.bad, read.bad)
        for column, other in zip(alone.columns, read.columns, strict=True):
            assert column.equals(other.take(pa.array(there)))


def test_fastavro_reads_what_we_write_and_we_what_it_writes() -> None:
    schema = Schema.of(i=INT, s=STRING, m=decimal(10, 2), t=timestamp(3), D=DATE, a=array(INT))
    parsed = fastavro.parse_schema(json.loads(schema_of(schema, legacy=True)))
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, dt.UTC)
    day = dt.date(2026, 1, 2)
    values = [
        {"i": 1, "s": "ä", "m": Decimal("-1.50"), "t": at, "D": day, "a": [1, None]},
        dict.fromkeys("ismtDa"),
    ]
    records = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        records.append(out.getvalue())
    read = decoded(pa.array(records, pa.binary()), schema, {})
    expected = [{**values[0], "t": at.replace(tzinfo=None)}, values[1]]
    assert pa.RecordBatch.from_arrays(list(read.columns), schema.names).to_pylist() == expected
    again = AVRO.encoder(schema, {}).encode(Batch(schema, read.columns, 2)).to_pylist()
    assert again == records


def test_the_schema_is_flinks() -> None:
    not_null = STRING.with_nullable(False)
    schema = Schema.of(s=not_null, t=timestamp(3), r=row(("x",), (INT,)))
    assert json.loads(schema_of(schema, legacy=True)) == {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.flink.avro.generated",
        "fields": [
            {"name": "s", "type": "string"},
            {"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
            {"name": "r", "default": None, "type": ["null", {
                "type": "record", "name": "record_r", "namespace": "org.apache.flink.avro.generated",
                "fields": [{"name": "x", "type": ["null", "int"], "default": None}]}]},
        ],
    }  # fmt: skip
    new = json.loads(schema_of(Schema.of(t=timestamp(6), z=timestamp_ltz(3)), legacy=False))
    kinds = [f["type"][1]["logicalType"] for f in new["fields"]]
    assert kinds == ["local-timestamp-micros", "timestamp-millis"]


@pytest.mark.parametrize(
    ("kind", "options"),
    [(timestamp(6), {}), (timestamp_ltz(3), {}), (time(6), NEW), (map_of(INT, INT), NEW)],
)
def test_a_type_that_avro_cannot_hold(kind: DataType, options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError, match="cannot hold"):
        AVRO.decoder(Schema.of(v=kind), options)


def test_a_name_that_avro_cannot_have() -> None:
    with pytest.raises(UnsupportedError, match="field 'a-b'"):
        AVRO.check(Schema.of(**{"a-b": INT}), {})


WRITTEN = {
    "type": "record",
    "name": "other.Reading",
    "fields": [
        {"name": "gone", "type": {"type": "array", "items": ["null", {"type": "map", "values": "bytes"}]}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "either", "type": ["int", "string", "null", {"type": "fixed", "name": "F", "size": 3}]},
        {"name": "price", "type": {"type": "fixed", "name": "P", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 3}},
        {"name": "count", "type": "int"},
        {"name": "again", "type": ["Kind", "null"]},
    ],
}  # fmt: skip


def test_records_of_another_schema_become_rows_of_the_table() -> None:
    """Fields by name in any order, wider types, what the table has besides is NULL."""
    schema = Schema.of(count=BIGINT, new=STRING, kind=STRING, at=timestamp(3), price=decimal(8, 2), again=STRING)  # fmt: skip
    parsed = fastavro.parse_schema(WRITTEN)
    records = []
    for i in range(200):
        out = io.BytesIO()
        either = [7, "x", None, b"abc"][i % 4]
        value = {"gone": [None, {"k": b"v" * i}], "kind": "AB"[i % 2], "at": 1_700_000_000_123_456 + i, "either": either,
                 "price": Decimal("1.235"), "count": i, "again": None if i % 3 else "B"}  # fmt: skip
        fastavro.schemaless_writer(out, parsed, value)
        records.append(out.getvalue())
    decoder = BinaryDecoder(schema, json.dumps(WRITTEN))
    for count in (200, 20):
        read = decoder.decode(pa.array(records[:count], pa.binary()))
        assert not read.bad
        rows = pa.RecordBatch.from_arrays(list(read.columns), schema.names).to_pylist()
        assert [r["count"] for r in rows] == list(range(count))
        at = dt.datetime(2023, 11, 14, 22, 13, 20, 123000)
        assert rows[1] == {"count": 1, "new": None, "kind": "B", "at": at, "price": None, "again": None}  # fmt: skip
        assert rows[3]["again"] == "B"


def test_long_arrays_are_read_by_themselves() -> None:
    schema = Schema.of(a=array(INT), s=STRING)
    lists = [list(range(5000)) if i == 3 else [i] for i in range(200)]
    batch = from_pydict(schema, {"a": lists, "s": ["x"] * 200})
    read = decoded(AVRO.encoder(schema, NEW).encode(batch), schema)
    assert not read.bad
    assert_equal(read.columns, batch)


def test_arrays_in_arrays_cost_no_more_beside_others() -> None:
    """The elements of all depths together are many: 90,000 in one record of 90,000 bytes."""
    schema = Schema.of(a=array(array(INT)), m=map_of(STRING, array(INT)))
    lists = [[[1] * 300] * 300 if i == 7 else [[i]] for i in range(200)]
    maps = [{"k": [1] * 5} if i % 2 else {} for i in range(200)]
    batch = from_pydict(schema, {"a": lists, "m": maps})
    decoder, records = AVRO.decoder(schema, NEW), AVRO.encoder(schema, NEW).encode(batch)
    start = clock.process_time()
    read = decoder.decode(records)
    assert clock.process_time() - start < 2
    assert not read.bad
    assert_equal(read.columns, batch)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "no JSON"),
        ('"strin"', "'strin' is not known"),
        ("[" * 100 + '"int"' + "]" * 100, "nested too deeply"),
        ('{"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}', "refers to itself"),
        ('{"type": "array", "items": "null"}', "have no bytes"),
        ('{"type": "fixed", "name": "F", "size": -1}', "size of the type 'F'"),
        ('{"type": "fixed", "name": "F", "size": 9223372036854775807}', "size of the type 'F'"),
        ('{"type": "fixed", "name": "F", "size": 9223372036854775808}', "size of the type 'F'"),
    ],
)  # fmt: skip
def test_schemas_that_are_refused(schema: str, reason: str) -> None:
    with pytest.raises(BadSchema, match=reason):
        parse_schema(schema)


def test_a_schema_that_grows_with_every_name_is_refused() -> None:
    inner: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}
    for n in range(1, 40):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{n - 1}"}]
        inner = {"type": "record", "name": f"R{n}", "fields": fields}
    with pytest.raises(BadSchema, match=r"more than 10000 types|too deeply"):
        parse_schema(json.dumps(inner))


HOSTILE = {
    "a text longer than all memory": b"\x02" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x",
    "a text of negative length": b"\x02\x01x",
    "a number without an end": b"\x02" + b"\xff" * 400,
    "a length of many bytes": b"\x02" + b"\x82" + b"\x80" * 40 + b"\x00x",
    "a branch that is not there": b"\x08",
    "no UTF-8": b"\x02\x04\xff\xfe",
    "nothing": b"",
    "something behind": b"\x02\x02xy",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("beside", [1, 300])
def test_hostile_records_are_bad_by_themselves(name: str, beside: int) -> None:
    good = b"\x02\x02x"
    read = decoded(pa.array([good] * beside + [HOSTILE[name]], pa.binary()), Schema.of(s=STRING))
    assert read.columns[0].to_pylist() == ["x"] * beside
    assert [b.row for b in read.bad] == [beside]


@pytest.mark.parametrize("beside", [1, 300])
def test_a_byte_that_is_no_boolean_is_read_as_it_is_alone(beside: int) -> None:
    read = decoded(
        pa.array([b"\x02\x00"] * beside + [b"\x02\x02"], pa.binary()), Schema.of(o=BOOLEAN)
    )
    assert read.columns[0].to_pylist() == [False] * beside + [True]


# ---- files ---------------------------------------------------------------------------------------


@contextmanager
def _file(path: Path, schema: Schema) -> Iterator[FileReader]:
    file = os.open(path, os.O_RDONLY)
    try:
        reader = AVRO.reader(path, file, schema, {})
    finally:
        os.close(file)
    yield reader
    reader.close()


def _batch(rows: int) -> Batch:
    values = [None if i % 7 == 0 else "v" * (i % 50) for i in range(rows)]
    return from_pydict(Schema.of(i=BIGINT, s=STRING), {"i": list(range(rows)), "s": values})


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz"])
def test_files_are_read_by_the_numbers_of_their_rows(codec: str, tmp_path: Path) -> None:
    batch = _batch(5000)
    rows = pa.RecordBatch.from_arrays(list(batch.columns), schema=batch.schema.arrow)
    path = tmp_path / "a.avro"
    made = []
    for _ in range(2):
        writer = AVRO.writer(batch.schema, {"codec": codec})
        parts = [writer.write(rows.slice(a, 300)) for a in range(0, 5000, 300)]
        made.append(b"".join([*parts, writer.finish()]))
    assert made[0] == made[1]
    path.write_bytes(made[0])
    with _file(path, batch.schema) as reader:
        assert reader.num_rows == 5000
        read = [reader.read(a, 999) for a in (0, 999, 1998, 2997, 3996, 4995)]
        assert pa.concat_batches(read).equals(rows)
        assert reader.read(17, 3).equals(rows.slice(17, 3))
        assert reader.read(5000, 3).num_rows == 0
    if codec in ("null", "deflate", "bzip2", "xz"):
        assert [
            cast("dict[str, int]", r)["i"] for r in fastavro.reader(io.BytesIO(made[0]))
        ] == list(range(5000))


def _bomb(rows: int, data: bytes, kind: str) -> bytes:
    """A file with one compressed block."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "b", "type": kind}]}
    packed = zlib.compress(data)[2:-4]
    head = {"avro.schema": json.dumps(schema).encode(), "avro.codec": b"deflate"}
    out = io.BytesIO(b"Obj\x01")
    out.seek(4)
    fastavro.schemaless_writer(out, {"type": "map", "values": "bytes"}, head)
    out.write(bytes(16))
    for number in (rows, len(packed)):
        fastavro.schemaless_writer(out, "long", number)
    return out.getvalue() + packed + bytes(16)


def test_few_compressed_bytes_are_many_rows_and_are_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(_bomb(3 << 20, bytes(3 << 20), "boolean"))
    assert path.stat().st_size < 5000
    tracemalloc.start()
    with _file(path, Schema.of(b=BOOLEAN)) as reader:
        assert reader.num_rows == 3 << 20
        assert reader.read(0, 100).num_rows == reader.read(3_000_000, 100).num_rows == 100
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    wide = b"\x80\x80\x80\x01" + bytes(1 << 20)  # a text of 1 MB
    path.write_bytes(_bomb(100, wide * 100, "string"))
    with _file(path, Schema.of(b=STRING)) as reader:
        assert 0 < reader.read(0, 100).num_rows < 10
        assert reader.read(99, 100).num_rows == 1


@pytest.mark.parametrize(
    ("rows", "kind"), [(1 << 60, "null"), (1 << 60, "boolean"), (101, "boolean")]
)
def test_a_block_has_no_more_rows_than_it_can_hold(rows: int, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(_bomb(rows, bytes(100), kind))
    with _file(path, Schema.of(b=BOOLEAN)) as reader:
        with pytest.raises(ExecutionError, match="cannot be read as Avro") as error:
            reader.read(0, 100)
        assert "more rows than it can hold" in str(error.value.detail)


def test_a_file_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(AVRO.writer(Schema.of(i=INT), {}).finish())
    with _file(path, Schema.of(i=INT)) as reader:
        assert reader.read(0, 10).num_rows == 0


@pytest.mark.parametrize("damage", ["head", "end", "middle", "mark"])
def test_a_damaged_file_is_told(damage: str, tmp_path: Path) -> None:
    writer = AVRO.writer(Schema.of(i=BIGINT, s=STRING), {"codec": "snappy"})
    batch = _batch(5000)
    rows = pa.RecordBatch.from_arrays(list(batch.columns), schema=batch.schema.arrow)
    data = bytearray(writer.write(rows) + writer.finish())
    match damage:
        case "head":
            data[0] = 0
        case "end":
            del data[-30:]
        case "middle":
            data[len(data) // 2] ^= 0xFF
        case "mark":
            data[-1] ^= 0xFF
    path = tmp_path / "a.avro"
    path.write_bytes(data)
    with (
        pytest.raises(ExecutionError, match="cannot be read as Avro"),
        _file(path, batch.schema) as reader,
        closing(reader),
    ):
        reader.read(0, 5000)


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 10**6), put=st.binary(max_size=6), cut=st.integers(0, 6))
def test_any_file_has_rows_or_is_told(
    tmp_path_factory: pytest.TempPathFactory, at: int, put: bytes, cut: int
) -> None:
    batch = _batch(40)
    writer = AVRO.writer(batch.schema, {"codec": "null"})
    rows = pa.RecordBatch.from_arrays(list(batch.columns), schema=batch.schema.arrow)
    data = writer.write(rows) + writer.finish()
    at %= len(data)
    path = tmp_path_factory.mktemp("files") / "a.avro"
    path.write_bytes(data[:at] + put + data[at + cut :])
    with suppress(ExecutionError), _file(path, batch.schema) as reader, closing(reader):
        assert reader.read(0, 100).num_rows == reader.num_rows
