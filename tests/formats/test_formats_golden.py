"""JSON values and CSV fields are read as Flink 2.3 reads them."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parser.types import INT, DataType, Root, Schema
from sqlengine.formats.registry import get_format
from sqlengine.formats.times import ISO, parse_date, parse_time, parse_timestamp
from tests.formats import golden_cases
from tests.formats.golden_cases import CASES

GOLDEN = golden_cases.load()
# Where Flink is at fault: a bad element moves its parser on by too little, and java.sql.Date has
# the Julian calendar.
DIFFERENT = {
    ("json ARRAY<INT>", "[[1]]"),
    (
        "json MAP<STRING, INT>",
        '{"a": 1, "b": 2.50, "c": 1E5, "d": "x\\"y\\u00e9\\n/", "e": null, "f": [true, false]}',
    ),
    ("csv DATE", "0000-01-01"),
    ("csv DATE", "1582-10-10"),
}


def from_oracle(value: Any, kind: DataType) -> Any:
    """What the oracle printed, as `stored` gives it."""
    match kind.root:
        case Root.FLOAT | Root.DOUBLE:
            return float(value)
        case Root.DECIMAL:
            return Decimal(value)
        case Root.VARBINARY:
            return bytes.fromhex(value)
        case Root.DATE:
            return parse_date(value)
        case Root.TIME:
            nanos = parse_time(value if value.count(":") == 2 else value + ":00")
            return None if nanos is None else nanos // 10**6
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return parse_timestamp(value.rstrip("Z"), Root.TIMESTAMP, ISO, kind.precision)
        case Root.MAP:
            return [tuple(pair) for pair in value]
        case Root.ROW:
            return dict(zip(kind.names, value, strict=True))
    return value


def stored(column: pa.Array, kind: DataType) -> list[Any]:
    """Values as Python has them, times as numbers."""
    if kind.is_timestamp:
        return column.view(pa.int64()).to_pylist()
    if kind.root in (Root.DATE, Root.TIME):
        return column.view(pa.int32()).to_pylist()
    return column.to_pylist()


def same(ours: Any, flinks: Any, kind: DataType) -> bool:
    if isinstance(ours, float) and isinstance(flinks, float):
        if kind.root is Root.FLOAT:
            ours, flinks = float(np.float32(ours)), float(np.float32(flinks))
        return (math.isnan(ours) and math.isnan(flinks)) or ours == flinks
    # Which is shown in another order.
    if kind.root is Root.MAP and ours is not None and flinks is not None:
        return sorted(ours) == sorted(flinks)
    return ours == flinks


@pytest.mark.parametrize("name", CASES)
def test_values_are_read_as_flink_reads_them(name: str) -> None:
    format_name, options, _, kind = CASES[name]
    decoder = get_format(format_name).decoder(
        Schema.of(id=INT, v=kind), {**options, "ignore-parse-errors": "true"}
    )
    records = golden_cases.records(format_name)
    decoded = decoder.decode(pa.array(records, pa.binary()))
    read = dict(zip(decoded.columns[0].to_pylist(), stored(decoded.columns[1], kind), strict=True))
    wrong = []
    for i, text in enumerate(golden_cases.literals(format_name)):
        expected = GOLDEN[name].get(text)
        expected = None if expected is None else from_oracle(expected, kind)
        if not same(read.get(i), expected, kind) and (name, text) not in DIFFERENT:
            wrong.append((text, read.get(i), expected))
    assert not wrong


@pytest.mark.oracle
def test_goldens_are_what_flink_says(flink: Any, tmp_path: Path, update: bool) -> None:
    found = golden_cases.record(flink, tmp_path)
    if update:
        golden_cases.save(found)
    assert found == GOLDEN
