"""Canonical keys are a stored format: these bytes and buckets may never change within a version."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.errors import UnsupportedError
from parser.types import (
    BIGINT,
    BITMAP,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL_DAY_TIME,
    NULL,
    SMALLINT,
    STRING,
    TINYINT,
    VARIANT,
    DataType,
    Root,
    Schema,
    array,
    char,
    decimal,
    map_of,
    row,
    time,
    timestamp,
    timestamp_ltz,
    varchar,
)
from sqlengine.state.keys import (
    BUCKETS,
    bucket_of,
    buckets_of,
    check_keys,
    encode,
    hash_rows,
    key_column,
    plain_column,
)
from tests.state.few import few_rows

ONE, A, B = "020100000000000000", "050100000061", "050100000062"
ROW, MAP = row(("x", "y"), (INT, STRING)), map_of(STRING, INT)
MULTISET = DataType(Root.MULTISET, children=(STRING,))
# type, Arrow storage of the values, values, canonical bytes of each
FORMS: list[tuple[DataType, pa.DataType, list[object], list[str]]] = [
    (BOOLEAN, pa.bool_(), [True, False, None], ["0101", "0100", "00"]),
    (TINYINT, pa.int8(), [1, -1], ["020100000000000000", "02ffffffffffffffff"]),
    (INT, pa.int32(), [1, None], ["020100000000000000", "00"]),
    (BIGINT, pa.int64(), [1, -(2**63)], ["020100000000000000", "020000000000000080"]),
    (
        decimal(3, 2),
        pa.decimal128(3, 2),
        [Decimal("1.00"), Decimal("-0.10")],
        ["020100000000000000", "030101ff"],
    ),
    (decimal(38, 0), pa.decimal128(38, 0), [Decimal(2**64)], ["030009000000000000000001"]),
    (
        DOUBLE,
        pa.float64(),
        [0.0, -0.0, float("nan")],
        ["040000000000000000", "040000000000000080", "04000000000000f87f"],
    ),
    (FLOAT, pa.float32(), [0.5], ["04000000000000e03f"]),
    (STRING, pa.string(), ["", "é"], ["0500000000", "0502000000c3a9"]),
    (char(3), pa.string(), ["a", "a  "], ["050100000061", "0503000000612020"]),
    (BYTES, pa.binary(), [b"\x00"], ["060100000000"]),
    (DATE, pa.int32(), [-1], ["07ffffffff"]),
    (time(3), pa.int32(), [1], ["0840420f0000000000"]),
    (timestamp(3), pa.int64(), [-1], ["09ffffffffffffffff" + "c0878b3b"]),
    (timestamp(6), pa.int64(), [-1000], ["09ffffffffffffffff" + "c0878b3b"]),
    (timestamp_ltz(9), pa.int64(), [10**9 + 1], ["0a0100000000000000" + "01000000"]),
    (INTERVAL_DAY_TIME, pa.int64(), [7], ["0b0700000000000000"]),
    (NULL, pa.null(), [None], ["00"]),
    (
        array(INT),
        pa.list_(pa.int32()),
        [[1, None], [], None],
        ["0d02000000" + ONE + "00", "0d00000000", "00"],
    ),
    (
        ROW,
        ROW.arrow,
        [{"x": 1, "y": "b"}, {"x": None, "y": None}],
        ["0f02000000" + ONE + B, "0f020000000000"],
    ),
    (
        MAP,
        MAP.arrow,
        [[("b", 1), ("a", None)], [("a", None), ("b", 1)]],
        ["0e02000000" + A + "00" + B + ONE] * 2,
    ),
    (MULTISET, MULTISET.arrow, [[("b", 1)]], ["0e01000000" + B + ONE]),
    (VARIANT, pa.string(), ['{"a":1}'], ["10070000007b2261223a317d"]),
    (BITMAP, pa.string(), ["{1}"], ["11030000007b317d"]),
]


@pytest.mark.parametrize(
    ("kind", "storage", "values", "expected"), FORMS, ids=lambda v: str(v)[:20]
)
def test_canonical_bytes(
    kind: DataType, storage: pa.DataType, values: list[object], expected: list[str]
) -> None:
    column = pa.array(values, storage)
    if pa.types.is_temporal(kind.arrow):
        column = column.view(kind.arrow)
    assert [b.hex() for b in encode([kind], [column], len(values))] == expected


@pytest.mark.parametrize(
    ("kind", "storage", "values", "expected"), FORMS, ids=lambda v: str(v)[:20]
)
def test_few_keys_are_made_as_many(
    kind: DataType, storage: pa.DataType, values: list[object], expected: list[str]
) -> None:
    column = pa.array([*values, values[0], None], storage)
    if pa.types.is_temporal(kind.arrow):
        column = column.view(kind.arrow)
    if not column.type.equals(kind.arrow):  # joined with another type: cast before it is a key
        return
    chosen, made = np.array([len(column) - 1, 0, 0]), []
    for most in (0, len(column)):
        with few_rows(most):
            key = key_column(kind, column)
            stored = plain_column(kind, key.values, key.valid)
            taken = key.take(chosen)
            made.append(
                [
                    encode([kind, kind], [column, column], len(column)),
                    hash_rows([key], len(column)).tolist(),
                    hash_rows([stored], len(column)).tolist(),
                    hash_rows([taken], 3).tolist(),
                    buckets_of([kind], [key], len(column)).tolist(),
                    buckets_of([kind, kind], [taken, taken], 3).tolist(),
                    buckets_of([kind], [stored.take(chosen)], 3).tolist(),
                ]
            )
    assert made[0] == made[1]
    assert made[0][1] == made[0][2]
    assert made[0][3] == [made[0][1][row] for row in chosen.tolist()]
    assert made[0][6] == [made[0][4][row] for row in chosen.tolist()]


def test_buckets_are_fixed() -> None:
    keys = [pa.array(["a", "b", None, "a"]), pa.array([1, 1, 1, 2], pa.int32())]
    assert buckets_of([STRING, INT], keys, 4).tolist() == [69, 100, 30, 111]
    assert bucket_of(b"") == 0
    assert buckets_of([], [], 3).tolist() == [0, 0, 0]
    spread = buckets_of([INT], [pa.array(range(BUCKETS * 20), pa.int32())], BUCKETS * 20)
    assert np.bincount(spread, minlength=BUCKETS).min() > 0


@given(st.lists(st.one_of(st.none(), st.integers(-128, 127)), min_size=1))
def test_equal_values_of_joined_types_are_one_key(values: list[int | None]) -> None:
    exact = [Decimal(v).quantize(Decimal("1.00")) if v is not None else None for v in values]
    forms = [
        encode([TINYINT], [pa.array(values, pa.int8())], len(values)),
        encode([SMALLINT], [pa.array(values, pa.int16())], len(values)),
        encode([BIGINT], [pa.array(values, pa.int64())], len(values)),
        encode([decimal(10, 2)], [pa.array(exact, pa.decimal128(10, 2))], len(values)),
        encode([decimal(38, 18)], [pa.array(exact, pa.decimal128(38, 18))], len(values)),
    ]
    assert all(form == forms[0] for form in forms)
    approximate = [None if v is None else v / 2 for v in values]
    assert encode([FLOAT], [pa.array(approximate, pa.float32())], len(values)) == encode(
        [DOUBLE], [pa.array(approximate, pa.float64())], len(values)
    )


KEY = st.tuples(
    st.one_of(st.none(), st.text(max_size=3)), st.one_of(st.none(), st.text(max_size=3))
)


@given(st.lists(KEY, min_size=1, max_size=30))
def test_bytes_and_hashes_tell_keys_apart(keys: list[tuple[str | None, str | None]]) -> None:
    columns = [pa.array([k[i] for k in keys], pa.string()) for i in range(2)]
    types = [varchar(3), STRING]
    encoded = encode(types, columns, len(keys))
    hashes = hash_rows(
        [key_column(t, c) for t, c in zip(types, columns, strict=True)], len(keys)
    ).tolist()
    assert len(set(encoded)) == len(set(keys)) == len(set(zip(keys, encoded, hashes, strict=True)))


def test_types_without_a_form_are_refused() -> None:
    raw = DataType(Root.RAW, class_name="A", names=("b",))
    with pytest.raises(
        UnsupportedError, match=r"column 'tags' of type ARRAY<RAW\('A', 'b'\)> cannot be a key"
    ):
        check_keys(Schema.of(id=INT, tags=array(raw)))
