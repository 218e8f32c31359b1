"""Records of changes that are nested as deeply as no reader goes: each is bad, and no other."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parser.types import INT, Schema
from sqlengine.formats.registry import get_format

FORMATS = {
    "debezium-json": b'{"before": null, "after": {"id": 1}, "op": "c"}',
    "canal-json": b'{"data": [{"id": 1}], "type": "INSERT"}',
    "maxwell-json": b'{"data": {"id": 1}, "type": "insert"}',
    "ogg-json": b'{"before": null, "after": {"id": 1}, "op_type": "I"}',
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_deep_record_is_bad_by_itself(name: str) -> None:
    good = FORMATS[name]
    deep = good.replace(b"1}", b"1, " + b'"a": ' + b"[" * 5000 + b"]" * 5000 + b"}")
    decoder = get_format(name).decoder(Schema.of(id=INT), {})
    decoded = decoder.decode(pa.array([good, deep, good], pa.binary()))
    assert decoded.columns[0].to_pylist() == [1, 1]
    assert [(b.row, b.reason) for b in decoded.bad] == [(1, "it is nested too deeply")]
