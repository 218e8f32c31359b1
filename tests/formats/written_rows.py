"""The rows of goldens/written.sql, as a batch."""

from __future__ import annotations

from decimal import Decimal

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
    array,
    decimal,
    map_of,
    row,
    time,
    timestamp,
    timestamp_ltz,
)
from sqlengine.batch import Batch, from_pydict

SCHEMA = Schema.of(
    a1=TINYINT,
    a2=SMALLINT,
    a3=INT,
    a4=BIGINT,
    f=FLOAT,
    d=DOUBLE,
    dc=decimal(10, 2),
    s=STRING,
    b=BOOLEAN,
    dt=DATE,
    tm=time(0),
    ts=timestamp(3),
    t9=timestamp(9),
    lt=timestamp_ltz(3),
    bt=BYTES,
    ar=array(INT),
    mp=map_of(STRING, INT),
    rw=row(("a", "b"), (INT, STRING)),
)

_DAY = 86_400_000
_NOON = 1_577_968_496  # 2020-01-02 12:34:56
_ROWS: list[list[object]] = [
    [1, 2, 3, 2**63 - 1, 1.5, 1e10, Decimal("1.50"), 'x"y\\é,/', True, 18263, 45_296_000, _NOON * 1000 + 700,
     _NOON * 10**9 + 123_456_789, _NOON * 1000 + 789, b"ab", [1, 2], [("k", 1)], {"a": 1, "b": "z"}],
    [1, 2, 3, -5, 0.1, 1e-7, Decimal("-0.01"), "", False, -719_161, 0, -719_162 * _DAY,
     _NOON * 10**9, 0, b"", [1, 2], [("k", 1)], {"a": 1, "b": "z"}],
    [None] * 18,
    [1, 2, 3, -5, 100.0, 100.0, Decimal("100.00"), "a\x01\t\nb", False, 2_932_896, 86_399_000, 18263 * _DAY,
     _NOON * 10**9 + 100_000_000, _NOON * 1000 + 780, b"x", [1, None], [("k", None)], {"a": None, "b": "z"}],
]  # fmt: skip


def written_rows(*, without: tuple[str, ...] = ()) -> Batch:
    schema = SCHEMA.select(tuple(n for n in SCHEMA.names if n not in without))
    return from_pydict(schema, {n: [row[SCHEMA.index(n)] for row in _ROWS] for n in schema.names})
