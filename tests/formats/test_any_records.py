"""Any bytes to any format are rows or bad records, and never an error of another kind: by chance,
and by changes of records that are valid, for a table with columns of all types."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    Schema,
    decimal,
    map_of,
    time,
    timestamp,
    timestamp_ltz,
)
from sqlengine.formats.avro.decoder import BinaryDecoder
from sqlengine.formats.avro.schemas import BadSchema
from sqlengine.formats.base import Decoder
from sqlengine.formats.registry import get_format
from tests.formats.messages import options as message_options
from tests.formats.messages import order_class
from tests.formats.test_hostile_records import FORMATS, ORDER, SAMPLES, outcome
from tests.formats.test_logs import EVENT, FIELDS, entry
from tests.formats.written_rows import SCHEMA, written_rows
from tests.hostile.fuzzing.mutations import mutated
from tests.servers.registry import Registry, running

KINDS: Final = {
    "y": TINYINT, "h": SMALLINT, "i": INT, "l": BIGINT, "f": FLOAT, "d": DOUBLE, "m": decimal(10, 2),
    "w": decimal(38, 0), "o": BOOLEAN, "D": DATE, "T": time(3), "t": timestamp(3), "n": timestamp(9),
    "z": timestamp_ltz(6), "s": STRING, "b": BYTES,
}  # fmt: skip
# Columns of types that a format does not have.
_AVRO: Final = ("t9", "lt", "mp")
_WITHOUT: Final[Mapping[str, tuple[str, ...]]] = {
    "csv": ("mp",),
    "avro": _AVRO,
    "avro-confluent": _AVRO,
    "debezium-avro-confluent": _AVRO,
}
_LOG: Final[Mapping[str, Sequence[bytes]]] = {
    "cef": [
        b"CEF:0|v|p|1.0|100|a name|9|i=7 l=5 m=1.50 t=2026-01-02 03:04:05 src=1.2.3.4 rt=1767323045000"
    ],
    "leef": [
        b"LEEF:2.0|v|p|1|id|^|i=7^l=5^m=1.50^devTime=Jan 02 2026 03:04:05^t=2026-01-02T03:04:05Z^o=true"
    ],
    "key-value": [b'i=7 l=5 m=1.50 t="2026-01-02 03:04:05" s="a \\" b" o=true D=2026-01-02 T=03:04:05'],
    "grok": [b"7 2026-01-02 03:04:05 1.5 true a text", b"12 2026-01-02T03:04:05.5Z -12 false x"],
    "syslog": [
        b"<34>Oct 11 22:14:15 host su[12]: a message",
        b'<165>1 2026-10-11T22:14:15.003Z host app 12 id [a@1 i="7" m="1.5"] \xef\xbb\xbfa message',
    ],
    "journald": [entry(FIELDS), b'{"__REALTIME_TIMESTAMP":"1767323045678901","i":"7","MESSAGE":[97,98],"b":null}'],
    "windows-event-xml": [EVENT.encode()],
}  # fmt: skip
_CHANGES: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "debezium-json": [
        {"before": 0, "after": 1, "op": "u", "ts_ms": 1767323045678, "source": {"ts_ms": 5, "db": "x"}},
        {"after": 1, "op": "c"},
        {"before": 1, "op": "d"},
    ],
    "canal-json": [{"data": [1], "old": [0], "type": "UPDATE", "ts": 1767323045678, "isDdl": False}],
    "maxwell-json": [{"data": 1, "old": 0, "type": "update", "ts": 1767323045}],
    "ogg-json": [{"before": 0, "after": 1, "op_type": "U", "op_ts": "2026-01-02 03:04:05.000000"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with running() as opened:
        yield opened


def options_of(name: str, url: str = "") -> dict[str, str]:
    if name == "protobuf":
        return message_options()
    if name == "grok":
        pattern = "%{INT:i} %{TIMESTAMP_ISO8601:t} %{NUMBER:m} %{WORD:o} %{GREEDYDATA:s}"
        return {"pattern": pattern}
    return {"url": url} if "confluent" in name else {}


def schema_of(name: str) -> Schema:
    if name == "protobuf":
        return ORDER
    if name == "raw":
        return Schema.of(i=INT)
    if name in _LOG:
        rest = getattr(get_format(name), "rest")  # noqa: B009
        return Schema.of(**KINDS, timestamp=timestamp_ltz(3), **{rest: map_of(STRING, STRING)})
    return SCHEMA.select(tuple(n for n in SCHEMA.names if n not in _WITHOUT.get(name, ())))


def decoder_of(name: str, url: str) -> Decoder:
    """The decoder itself, without what guards it."""
    return get_format(name).decoder(schema_of(name), options_of(name, url))


def _made(value: object, rows: Sequence[object]) -> object:
    return rows[value] if type(value) is int and value < 2 else value


def _change(of: Mapping[str, Any], rows: Sequence[object]) -> bytes:
    named = {
        key: [_made(v, rows) for v in value] if isinstance(value, list) else _made(value, rows)
        for key, value in of.items()
    }
    return json.dumps(named).encode()


@cache
def valid(name: str, url: str) -> Sequence[bytes]:
    """Records of a format that give rows."""
    if name in _LOG:
        return _LOG[name]
    if name == "raw":
        return [b"\0\0\0\1"]
    if name in _CHANGES:
        rows = [json.loads(line) for line in valid("json", "")]
        return [_change(of, rows) for of in _CHANGES[name]]
    if name == "protobuf":
        order = order_class()(i=7, s="a", a=[1, 2], m={"k": 2**40})
        order.at.FromJsonString("2026-01-02T03:04:05.123Z")
        return [order.SerializeToString()]
    written = written_rows(without=_WITHOUT.get(name, ()))
    options = options_of(name, url) | ({"subject": "any"} if "confluent" in name else {})
    found: list[bytes] = (
        get_format(name).encoder(written.schema, options).encode(written).to_pylist()
    )
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_valid_records_are_rows(name: str, registry: Registry) -> None:
    """What is changed below: the first, at least, is read."""
    records = valid(name, registry.url)
    bad, rows = outcome(decoder_of(name, registry.url).decode(pa.array(records, pa.binary())))
    assert 0 in rows, bad


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**64), data=st.data())
def test_any_records_are_rows_or_bad(
    name: str, registry: Registry, seed: int, data: st.DataObject
) -> None:
    """The same alone as beside others, few or many."""
    random, seeds = Random(seed), [*valid(name, registry.url), *SAMPLES.values()]
    changed = [mutated(random, random.choice(valid(name, registry.url))) for _ in range(5)]
    odd = data.draw(st.lists(st.binary(max_size=80), max_size=3))
    records = [*changed, *odd, random.choice(seeds)]
    decoder = decoder_of(name, registry.url)
    bad, rows = outcome(decoder.decode(pa.array(records, pa.binary())))
    assert all(reason and len(reason) < 1000 for reason in bad.values()), bad
    for number, record in enumerate(records):
        alone, places = outcome(decoder.decode(pa.array([record], pa.binary())))
        assert (number in bad, rows.count(number)) == (bool(alone), len(places)), record
    many, _ = outcome(decoder.decode(pa.array(records * 20, pa.binary())))
    assert {n % len(records) for n in many} == set(bad)


_FIXED: Final = ("fixed", "bytes", "string", "int", "long", "float", "double", "boolean", "null")
_FITTING: Final = {
    "fixed": [BYTES, decimal(10, 2), decimal(38, 0)], "bytes": [BYTES, decimal(20, 3)], "string": [STRING, BYTES],
    "int": [INT, DATE, time(3)], "long": [BIGINT, TINYINT, timestamp(9), timestamp_ltz(3), DOUBLE],
    "float": [FLOAT], "double": [DOUBLE], "boolean": [BOOLEAN], "null": [STRING],
}  # fmt: skip
_numbers = st.sampled_from([0, 1, 2, 8, 16, 17, 38, 39, 2**31 - 1, 2**31, 2**62, 2**63, 2**70, -1])
_leaves = st.builds(
    lambda kind, size, logical, precision, scale, number: {
        "type": kind, "name": f"F{number}", "size": size, "logicalType": logical, "precision": precision,
        "scale": scale,
    },
    st.sampled_from(_FIXED), _numbers,
    st.sampled_from(["", "decimal", "date", "timestamp-micros", "time-millis", "duration", "uuid"]),
    _numbers, _numbers, st.integers(0, 10**9),
)  # fmt: skip
_types = st.recursive(
    _leaves | st.sampled_from(_FIXED[1:]),
    lambda inner: st.one_of(
        st.builds(lambda t: {"type": "array", "items": t}, inner),
        st.builds(lambda t: {"type": "map", "values": t}, inner),
        st.builds(lambda t: ["null", t], inner),
        st.builds(lambda n: {"type": "enum", "name": "E", "symbols": ["A"] * n}, st.integers(0, 3)),
    ),
    max_leaves=3,
)


@settings(max_examples=150, deadline=None)
@given(
    first=_leaves,
    others=st.lists(_types, max_size=2),
    records=st.lists(st.binary(max_size=40), min_size=2, max_size=4),
    times=st.sampled_from([1, 100]),
    data=st.data(),
)
def test_any_schema_gives_rows_or_bad_records(
    first: dict[str, Any],
    others: list[Any],
    records: list[bytes],
    times: int,
    data: st.DataObject,
) -> None:
    """Of who writes: sizes, digits and types that no column holds, also of fields that no table
    reads."""
    column = data.draw(st.sampled_from(_FITTING[first["type"]]))
    fields = [{"name": f"f{i}", "type": kind} for i, kind in enumerate([*others, first])]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    try:
        decoder = BinaryDecoder(Schema.of(**{f"f{len(others)}": column}), text)
    except BadSchema:
        return
    bad, _ = outcome(decoder.decode(pa.array(records * times, pa.binary())))
    alone = [bool(decoder.decode(pa.array([r], pa.binary())).bad) for r in records]
    assert [n in bad for n in range(len(records))] == alone
