"""Protobuf: messages are rows as Flink reads and writes them; what is malformed costs its
record."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import ExecutionError, PlanError
from parser.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TINYINT,
    DataType,
    Schema,
    array,
    map_of,
    row,
    timestamp_ltz,
)
from sqlengine.batch import Batch, from_pydict
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.connectors.registry import open_sink, open_source, validate
from sqlengine.formats.registry import decoder_for, get_format
from sqlengine.system.file_access import ANY_FILES
from tests.connectors.tables import environment, table
from tests.formats.messages import descriptors, options, order_class

PROTOBUF = get_format("protobuf")
INNER = row(("v1", "v2"), (BIGINT, INT))
_text = st.text(st.characters(codec="utf-8"), max_size=10)
_int = st.integers(-(2**31), 2**31 - 1)
_long = st.integers(-(2**63), 2**63 - 1)
_inner = st.fixed_dictionaries({"v1": _long, "v2": _int})
VALUES: dict[str, tuple[DataType, st.SearchStrategy[Any]]] = {
    "i": (INT, _int),
    "u": (INT, _int),
    "l": (BIGINT, _long),
    "x": (BIGINT, _long),
    "d": (DOUBLE, st.floats(allow_nan=False)),
    "f": (FLOAT, st.floats(width=32, allow_nan=False)),
    "o": (BOOLEAN, st.booleans()),
    "s": (STRING, _text),
    "b": (BYTES, st.binary(max_size=8)),
    "k": (STRING, st.sampled_from(["NONE", "ONE", "TWO"])),
    "n": (TINYINT, st.integers(0, 2)),
    "r": (INNER, _inner),
    "a": (array(INT), st.lists(_int, min_size=1, max_size=3)),
    "ra": (array(INNER), st.lists(_inner, min_size=1, max_size=3)),
    "ka": (array(STRING), st.lists(st.sampled_from(["ONE", "TWO"]), min_size=1, max_size=3)),
    "m": (map_of(STRING, BIGINT), st.dictionaries(_text, _long, min_size=1, max_size=3).map(lambda d: sorted(d.items()))),
    "mr": (map_of(BIGINT, INNER), st.dictionaries(_long, _inner, min_size=1, max_size=2).map(lambda d: sorted(d.items()))),
    "right": (STRING, _text),
    "at": (timestamp_ltz(9), _long),
    "maybe": (INT, _int),
}  # fmt: skip
# Messages do not know of these whether they have them, in proto3.
IMPLICIT = "iulxdfosbkn"


@st.composite
def batches(draw: st.DrawFn, syntax: str) -> Batch:
    names = [n for n in VALUES if syntax == "proto3" or n not in ("at", "maybe")]
    schema = Schema.of(**{n: VALUES[n][0] for n in names})
    count = draw(st.integers(1, 5))
    columns = {}
    for name in names:
        value = VALUES[name][1]
        if syntax == "proto2" or name not in IMPLICIT:
            value = st.none() | value
        columns[name] = draw(st.lists(value, min_size=count, max_size=count))
    return from_pydict(schema, columns)


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_rows_are_read_as_they_were_written(syntax: str, data: st.DataObject) -> None:
    batch = data.draw(batches(syntax))
    records = PROTOBUF.encoder(batch.schema, options(syntax)).encode(batch)
    read = PROTOBUF.decoder(batch.schema, options(syntax)).decode(records)
    assert not read.bad
    for name, column, expected in zip(batch.schema.names, read.columns, batch.columns, strict=True):
        assert column.equals(expected), (name, column, expected)


def decoded(message: Any, schema: Schema, syntax: str = "proto3", **more: str) -> list[Any]:
    records = pa.array([message.SerializeToString()], pa.binary())
    read = PROTOBUF.decoder(schema, options(syntax, **more)).decode(records)
    return [c.to_pylist()[0] for c in read.columns]


@pytest.mark.parametrize(
    ("syntax", "defaults", "expected"),
    [
        ("proto2", "false", [None, None, None, None, None, None]),
        ("proto2", "true", [0, "", "NONE", {"v1": 0, "v2": 0}, [], []]),
        ("proto3", "false", [0, "", "NONE", None, None, None]),
        ("proto3", "true", [0, "", "NONE", {"v1": 0, "v2": 0}, [], []]),
    ],
)
def test_what_a_message_has_not(syntax: str, defaults: str, expected: list[Any]) -> None:
    schema = Schema.of(i=INT, s=STRING, k=STRING, r=INNER, a=array(INT), m=map_of(STRING, BIGINT))
    message = order_class(syntax)()
    assert decoded(message, schema, syntax, read_default_values=defaults) == expected


def test_values_as_java_has_them() -> None:
    """The highest bit of what has no sign is one; of a oneof the last column counts."""
    schema = Schema.of(u=INT, x=BIGINT, k=STRING, n=INT)
    message = order_class()(u=2**32 - 1, x=2**64 - 2, k=7, n=2)
    assert decoded(message, schema) == [-1, -2, "7", 2]
    wide = Schema.of(u=BIGINT)
    assert decoded(message, wide) == [2**32 - 1]
    both = Schema.of(left=STRING, right=STRING)
    records = PROTOBUF.encoder(both, options()).encode(
        from_pydict(both, {"left": ["a"], "right": ["b"]})
    )
    assert order_class().FromString(records[0].as_py()).WhichOneof("choice") == "right"


def test_null_in_an_array_or_a_map_is_written_as_a_default() -> None:
    schema = Schema.of(a=array(INT), ra=array(INNER), ka=array(STRING), m=map_of(STRING, BIGINT))
    batch = from_pydict(
        schema, {"a": [[1, None]], "ra": [[None]], "ka": [[None]], "m": [[("k", None)]]}
    )
    message = order_class().FromString(PROTOBUF.encoder(schema, options()).encode(batch)[0].as_py())
    assert list(message.a) == [1, 0]
    assert [(r.v1, r.v2) for r in message.ra] == [(0, 0)]
    assert list(message.ka) == [0]
    assert dict(message.m) == {"k": 0}


def test_records_that_are_no_message_are_bad() -> None:
    schema = Schema.of(i=INT)
    good = order_class()(i=7).SerializeToString()
    deep = b"\x0a\xff"
    records = pa.array([good, deep, good[:-1], b"", b"\x42\x02\xff\xff"], pa.binary())
    read = PROTOBUF.decoder(schema, options()).decode(records)
    assert read.columns[0].to_pylist() == [7, 0]
    assert [b.row for b in read.bad] == [1, 2, 4]
    lenient = PROTOBUF.decoder(schema, options(ignore_parse_errors="true")).decode(records)
    assert lenient.columns[0].to_pylist() == [7, 0]
    assert not lenient.bad


def test_a_message_with_a_value_that_no_column_can_hold_is_bad() -> None:
    """A time in seconds goes further than any TIMESTAMP."""
    schema = Schema.of(at=timestamp_ltz(9), i=INT)
    order = order_class("proto3")
    far, near = order(i=1), order(i=2)
    far.at.seconds, near.at.seconds = 2**62, 5
    records = pa.array([m.SerializeToString() for m in (far, near)], pa.binary())
    read = PROTOBUF.decoder(schema, options("proto3")).decode(records)
    assert read.columns[1].to_pylist() == [2]
    ((row, reason),) = [(b.row, b.reason) for b in read.bad]
    assert (row, reason.partition(":")[0]) == (0, "it has a value that no column can hold")


def test_a_value_that_a_message_cannot_hold() -> None:
    schema = Schema.of(k=STRING)
    encoder = PROTOBUF.encoder(schema, options())
    with pytest.raises(ExecutionError, match=r"message 'shop\.Order' cannot hold a row"):
        encoder.encode(from_pydict(schema, {"k": ["MANY"]}))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("com.example.AllTypes$Order", True),
        ("shop.Order", True),
        ("shop.Ordre", False),
    ],
)
def test_names_of_classes(name: str, found: bool) -> None:
    given = {**options(), "message-class-name": name}
    if found:
        PROTOBUF.decoder(Schema.of(i=INT), given)
    else:
        with pytest.raises(PlanError, match="names no message") as error:
            PROTOBUF.decoder(Schema.of(i=INT), given)
        assert error.value.hint == "did you mean 'shop.Order'?"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (Schema.of(j=INT), "column 'j' is no field of message 'shop.Order'"),
        (Schema.of(i=STRING), "column 'i' is STRING, and its field is int32"),
        (Schema.of(r=row(("v1",), (STRING,))), r"column 'r\.v1' is STRING, and its field is int64"),
        (Schema.of(a=INT), "column 'a' is INT, and its field is repeated int32"),
        (Schema.of(m=array(INT)), "its field is a map"),
    ],
)
def test_columns_that_do_not_fit(schema: Schema, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        PROTOBUF.decoder(schema, options())


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"descriptor": "x", "descriptor-file": "/x"},
        {"descriptor": "AAAA"},
        {"descriptor": ""},
        {"descriptor": "no Base64"},
    ],
)
def test_descriptors_that_are_none(given: dict[str, str]) -> None:
    with pytest.raises(PlanError):
        PROTOBUF.decoder(Schema.of(i=INT), {"message-class-name": "shop.Order", **given})


def test_a_topic_with_a_file_of_descriptors(tmp_path: Path) -> None:
    """The file is read where the table is opened."""
    file = tmp_path / "orders.desc"
    file.write_bytes(descriptors())
    broker = EmbeddedBroker(tmp_path / "data")
    broker.create_topic("x")
    given = {"connector": "topic", "topic": "x", "format": "protobuf", "scan.startup.mode": "earliest-offset",
             "protobuf.message-class-name": "shop.Order", "protobuf.descriptor-file": str(file)}  # fmt: skip
    of = table(given, Schema.of(i=INT, s=STRING))
    validate(of)
    sink = open_sink(of, environment(broker))
    sink.write(from_pydict(of.physical, {"i": [1, 2], "s": ["a", "b"]}))
    sink.commit(1)
    sink.close()
    source = open_source(of, environment(broker))
    (shard,) = source.shards()
    chunk = source.read(shard, 0, max_rows=10)
    assert chunk is not None
    read = decoder_for(of).decode(chunk.records)
    assert [c.to_pylist() for c in read.columns] == [[1, 2], ["a", "b"]]
    source.close()
    wrong = {**given, "protobuf.descriptor-file": str(tmp_path / "none.desc")}
    with pytest.raises(PlanError, match=r"none\.desc' of descriptors cannot be read"):
        open_source(table(wrong, Schema.of(i=INT)), environment(broker))
    other = table(given, Schema.of(missing=INT))
    with pytest.raises(PlanError, match="is no field"):
        open_source(other, environment(broker))
    broker.close()


# ---- .proto files --------------------------------------------------------------------------------

ORDERS = """// A file as people write it.
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "lib/inner.proto";
option java_package = "com.example";
option java_multiple_files = true;

/* An enum
   with a comment. */
enum Kind { option allow_alias = true; NONE = 0; ONE = 1 [deprecated = true]; UNO = 0x1; LESS = -2; reserved 5 to 7; }

message Order {
  reserved 2, 4 to 6; reserved "old";
  int32 i = 1;
  optional int32 maybe = 21;
  repeated sint32 a = 13 [packed = true, (my.option) = { x: "}" }];
  map<string, lib.Inner> by_name = 31;
  oneof choice { string left = 40; lib.Inner right = 41; }
  .shop.Kind k = 10;
  Line line = 50;
  google.protobuf.Timestamp at = 20;
  string option = 60;
  string message = 61;
  message Line { string text = 1; Kind kind = 2; message Deep { bytes b = 1; } repeated Deep deep = 3; }
}
service Orders { rpc Get(Order) returns (stream Order) { option (x) = 1; } }
"""
INNER_FILE = 'package lib; message Inner { required int64 v1 = 1; optional string s = 2 [default = "a\\x62\\n"]; }'


def test_rows_of_a_proto_file(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "inner.proto").write_text(INNER_FILE)
    (tmp_path / "orders.proto").write_text(ORDERS)
    inner = row(("v1", "s"), (BIGINT, STRING))
    deep = row(("b",), (BYTES,))
    schema = Schema.of(
        i=INT, maybe=INT, a=array(INT), by_name=map_of(STRING, inner), right=inner, k=STRING,
        line=row(("text", "kind", "deep"), (STRING, STRING, array(deep))), at=timestamp_ltz(3), option=STRING,
        message=STRING,
    )  # fmt: skip
    values: dict[str, list[Any]] = {
        "i": [1, 0], "maybe": [0, None], "a": [[1, -1], None], "by_name": [[("x", {"v1": 1, "s": "t"})], None],
        "right": [{"v1": 2, "s": "u"}, None], "k": ["LESS", "NONE"],
        "line": [{"text": "t", "kind": "ONE", "deep": [{"b": b"x"}]}, None], "at": [1, None], "option": ["o", ""],
        "message": ["m", ""],
    }  # fmt: skip
    given = {
        "message-class-name": "com.example.Order",
        "descriptor-file": str(tmp_path / "orders.proto"),
    }
    PROTOBUF.connect(given, given, ANY_FILES)
    batch = from_pydict(schema, values)
    read = PROTOBUF.decoder(schema, given).decode(PROTOBUF.encoder(schema, given).encode(batch))
    assert not read.bad
    for column, expected in zip(read.columns, batch.columns, strict=True):
        assert column.to_pylist() == expected.to_pylist()
    named = {**given, "message-class-name": "lib.Inner", "read-default-values": "true"}
    found = PROTOBUF.decoder(Schema.of(s=STRING), named).decode(
        pa.array([b"\x08\x01"], pa.binary())
    )
    assert found.columns[0].to_pylist() == ["ab\n"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message A {", "line 1: it ends too early"),
        ("syntax = 'proto4';", "syntax 'proto4' is not known"),
        ("\nmessage A { int32 a = x; }", "line 2: unexpected 'int32'"),
        ("syntax = 'proto3';\nmessage A { int32 a = x; }", "line 2: unexpected 'x'"),
        ("message A { repeated group B = 1 { } }", "groups are not supported"),
        ("message \x00", r"unexpected '\\x00'"),
        ("message A {" * 100, "nested too deeply"),
        ("syntax = 'proto3'; message A { B b = 1; }", "cannot be read"),
        ("import 'none.proto';", "imports 'none.proto', which is not there"),
    ],
)
def test_texts_that_are_no_proto_files(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "a.proto"
    file.write_text(text + "message Z {}" if "import" in text else text)
    given = {"message-class-name": "Z" if "import" in text else "A", "descriptor-file": str(file)}

    def opened() -> None:
        PROTOBUF.connect(given, given, ANY_FILES)
        PROTOBUF.decoder(Schema.of(a=INT), given)

    with pytest.raises(PlanError) as error:
        opened()
    told = f"{error.value.message} {error.value.detail}"
    assert re.search(reason, told), told
