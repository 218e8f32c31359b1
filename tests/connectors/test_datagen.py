"""Made-up rows depend on their number only, and come at the rate of the clock."""

from __future__ import annotations

from collections.abc import Mapping
from time import process_time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import PlanError, UnsupportedError
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
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.registry import open_source
from tests.connectors.tables import Clock, environment, table

ALL = Schema.of(
    y=TINYINT, i=INT, l=BIGINT, f=FLOAT, d=DOUBLE, m=decimal(5, 2), b=BOOLEAN, s=STRING, c=char(3), v=varchar(20),
    x=BYTES, t=timestamp(3), z=timestamp_ltz(9), a=DATE, o=time(0),
)  # fmt: skip


def source(schema: Schema, clock: Clock | None = None, /, **options: str) -> Source:
    named = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return open_source(table({"connector": "datagen", **named}, schema), environment(clock=clock))


def columns_of(chunk: Chunk | None) -> Mapping[str, pa.Array]:
    assert chunk is not None
    assert chunk.columns is not None
    return chunk.columns


@settings(max_examples=50, deadline=None)
@given(
    start=st.integers(0, 50),
    middle=st.integers(1, 30),
    rest=st.integers(1, 30),
    seed=st.integers(0, 2**40),
)
def test_a_replay_gives_the_same_rows(start: int, middle: int, rest: int, seed: int) -> None:
    """However rows are cut into reads, by whichever instance and whenever."""
    options = {
        "seed": str(seed),
        "fields__s__null-rate": "0.3",
        "fields__v__var-len": "true",
        "fields__t__max-past": "1 h",
    }
    whole = source(ALL, Clock(5), **options).read(
        "0", start, max_rows=1, until=start + middle + rest
    )
    again = source(ALL, Clock(99), **options)
    parts = [
        again.read("0", start, max_rows=1, until=start + middle),
        again.read("0", start + middle, max_rows=1, until=start + middle + rest),
    ]
    for name in ALL.names:
        assert columns_of(whole)[name].type == ALL.type(name).arrow
        assert columns_of(whole)[name].to_pylist() == [
            v for p in parts for v in columns_of(p)[name].to_pylist()
        ]


def test_options_bound_the_values() -> None:
    options = {
        "i__min": "1",
        "i__max": "6",
        "d__min": "-0.5",
        "d__max": "0.5",
        "s__length": "8",
        "m__max": "9",
        "m__min": "0",
    }
    read = source(ALL, **{f"fields__{k}": v for k, v in options.items()}).read(
        "0", 0, max_rows=1, until=2000
    )
    columns = {name: c.to_pylist() for name, c in columns_of(read).items()}
    assert set(columns["i"]) == set(range(1, 7))
    assert all(-0.5 <= v <= 0.5 for v in columns["d"])
    assert all(0 <= v <= 9 for v in columns["m"])
    assert {len(v) for v in columns["s"]} == {8}
    assert {len(v) for v in columns["c"]} == {3}
    assert {len(v) for v in columns["v"]} == {20}
    assert len(set(columns["l"])) == 2000
    assert 800 < sum(columns["b"]) < 1200
    other = source(ALL, seed="1").read("0", 0, max_rows=1, until=5)
    assert columns_of(other)["l"].to_pylist() != columns["l"][:5]


def test_a_sequence_bounds_the_table() -> None:
    opened = source(Schema.of(n=BIGINT, s=STRING), fields__n__kind="sequence", fields__n__start="5", fields__n__end="9",
                    fields__s__kind="sequence", fields__s__start="1", fields__s__end="90")  # fmt: skip
    assert (opened.bounded, opened.end("0")) == (True, 5)
    read = opened.read("0", 0, max_rows=1, until=5)
    assert [c.to_pylist() for c in columns_of(read).values()] == [
        [5, 6, 7, 8, 9],
        ["1", "2", "3", "4", "5"],
    ]


def test_rows_come_at_the_rate() -> None:
    clock = Clock(1_000)
    opened = source(Schema.of(n=INT), clock, rows_per_second="10", number_of_rows="25")
    offset, counts = 7, []
    for now in (1_000, 1_050, 1_100, 2_000, 60_000):
        clock.now = now
        chunk = opened.read("0", offset, max_rows=100)
        counts.append(chunk.num_rows if chunk else 0)
        offset = chunk.end if chunk else offset
    assert counts == [1, 0, 1, 9, 7]
    assert not source(Schema.of(n=INT)).bounded


NESTED = Schema.of(
    a=array(INT), r=row(("x", "t"), (array(STRING), timestamp(3))),
    m=map_of(INT, DOUBLE), c=DataType(Root.MULTISET, children=(char(1),)),
)  # fmt: skip


def test_options_of_parts_bound_what_is_in_arrays_rows_maps_and_multisets() -> None:
    given = {
        "fields__a__element__min": "1",
        "fields__a__element__max": "2",
        "fields__r__x__length": "1",
        "fields__r__x__element__length": "4",
        "fields__m__key__min": "7",
        "fields__m__key__max": "8",
        "fields__m__length": "9",
        "fields__c__length": "40",
        "fields__c__null-rate": "0.5",
    }
    opened = source(NESTED, rows_per_second="1", **given)
    whole, later = (opened.read("0", first, max_rows=1, until=50) for first in (0, 20))
    columns = {name: c.to_pylist() for name, c in columns_of(whole).items()}
    assert {name: c.type for name, c in columns_of(whole).items()} == {
        c.name: c.type.arrow for c in NESTED
    }
    assert {name: c.to_pylist() for name, c in columns_of(later).items()} == {
        n: c[20:] for n, c in columns.items()
    }
    assert {v for element in columns["a"] for v in element} == {1, 2}
    assert {len(v) for v in columns["a"]} == {3}
    assert {len(v) for r in columns["r"] for v in r["x"]} == {4}
    assert (columns["r"][30]["t"] - columns["r"][0]["t"]).total_seconds() == 30
    assert {tuple(sorted(k for k, _ in v)) for v in columns["m"]} <= {(7,), (8,), (7, 8)}
    assert {None if v is None else sum(n for _, n in v) for v in columns["c"]} == {None, 40}


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (map_of(INT, INT), {"fields__a__key__null-rate": "0.1"}, "a key is not NULL"),
        (
            DataType(Root.MULTISET, children=(array(INT),)),
            {},
            "datagen makes no keys of ARRAY<INT>",
        ),
        (array(INT), {"fields__a__element__kind": "sequence"}, "'a.element' cannot be a sequence"),
        (VARIANT, {}, "datagen makes no VARIANT"),
    ],
)
def test_what_cannot_be_made_is_refused(
    kind: DataType, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        source(Schema.of(a=kind), **options)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (STRING, {"fields__a__length": "16000000"}),
        (varchar(5_000_000), {"fields__a__var-len": "true"}),
        (array(INT), {"fields__a__length": "2000000"}),
        (array(STRING), {"fields__a__length": "100000"}),
        (map_of(INT, INT), {"fields__a__length": "1000000"}),
        (array(decimal(10, 2)), {"fields__a__length": "200000"}),
    ],
)
def test_large_values_hold_nobody_up(kind: DataType, options: dict[str, str]) -> None:
    """One text of 4 MB took a minute. What a read makes is bounded by its bytes, however many rows
    are due; a row takes seconds at most."""
    clock = Clock()
    opened = source(Schema.of(a=kind), clock, **options)
    opened.read("0", 0, max_rows=1)
    clock.now, began = 600_000, process_time()
    chunk = opened.read("0", 1, max_rows=100_000)
    assert process_time() - began < 8
    assert chunk is not None
    assert chunk.num_rows == 1


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (Schema.of(a=varchar(2**30)), {}, "column 'a' would have 1,073,741,824 bytes"),
        (Schema.of(a=array(STRING)), {"fields__a__length": "16000000"}, "1,600,000,000 bytes"),
        (
            Schema.of(r=row(("x",), (array(decimal(9, 1)),))),
            {"fields__r__x__length": "16000000"},
            "column 'r' would have 1,024,000,000 bytes",
        ),
        (
            Schema.of(**{f"c{i}": varchar(10_000_000) for i in range(9)}),
            {},
            "a row would have 90,000,000 bytes",
        ),
    ],
)
def test_rows_that_take_gigabytes_are_refused(
    schema: Schema, options: dict[str, str], message: str
) -> None:
    """Also where a length is that of the type, or of what is in an array."""
    with pytest.raises(PlanError, match=message):
        source(schema, **options)


def test_decimals_have_all_their_digits() -> None:
    read = source(Schema.of(a=decimal(38, 0))).read("0", 0, max_rows=1, until=100)
    assert max(abs(v) for v in columns_of(read)["a"].to_pylist()) > 10**37
