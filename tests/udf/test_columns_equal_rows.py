"""What a kernel computes for a column at once is what it, or Python, computes value by value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.grammar.datatypes import parse_type
from parser.types import BIGINT, DOUBLE, INT, STRING, DataType
from udf import registry
from udf.casts.cast import convert
from udf.casts.texts import float_text
from udf.json.path import parse_path
from udf.json.reading import DOUBTFUL, NOTHING, values_at
from udf.json.text import BadPath, NotFound, NotJson, read_json
from udf.registry import KernelContext
from udf.time.patterns import write
from udf.vector import Vector

EXACT = Context(prec=90)
WORDS = st.text("aAbB09 ,=é😀/%-_.:", max_size=12)
PLAIN_WORDS = st.text("aAbB09 ,=", max_size=12)
TIMES = st.sampled_from(
    [
        "2024-02-29 23:59:59",
        "2023-02-29 00:00:00",
        "0000-01-01 00:00:00",
        "9999-12-31 12:00:00",
        "2024-1-1 1:1:1",
        "x",
    ]
)
JSONS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 2**40), st.sampled_from([1.5, -0.0, 1e300]), st.text("ab\"\\é", max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip
# Function, values of the first argument, constants behind it.
CONSTANT = [
    ("LEFT", WORDS, [(3,), (0,), (-1,)]),
    ("RIGHT", WORDS, [(3,), (0,), (20,)]),
    ("LPAD", WORDS, [(5, "x"), (0, "é"), (4, "xy"), (-1, "x")]),
    ("RPAD", WORDS, [(5, "x"), (0, "é"), (4, "xy")]),
    ("REPEAT", WORDS, [(3,), (0,)]),
    ("SPLIT_INDEX", WORDS, [(",", 0), (",", 1), ("=", 2), ("é", 1), ("a,", 1)]),
    ("INSTR", PLAIN_WORDS, [("a",), ("AB",), ("",)]),
    ("INSTR", WORDS, [("a",), ("é",)]),
    ("TRANSLATE", WORDS, [("aA", "xy"), ("aba", "xyz"), ("ab", "x"), ("é", "e")]),
    ("SUBSTRING", PLAIN_WORDS, [(2,), (-3,), (0, 2), (3, 20), (2, -1), (-20, 3)]),
    ("OVERLAY", WORDS, [("xé", 2), ("x", 1, 0), ("x", 3, -2), ("xyz", 20), ("x", -1, 2)]),
    ("TO_TIMESTAMP", TIMES, [("yyyy-MM-dd HH:mm:ss",)]),
    ("TO_DATE", TIMES, [("yyyy-MM-dd HH:mm:ss",), ("yyyy-MM-dd",)]),
    ("UNIX_TIMESTAMP", TIMES, [("yyyy-MM-dd HH:mm:ss",), ("MM/yyyy",)]),
    ("DATE_FORMAT", TIMES, [("dd.MM.yyyy HH 'h'",), ("uuuu yyyy",)]),
    ("CONVERT_TZ", TIMES, [("UTC", "America/Los_Angeles"), ("UTC", "Europe/Berlin")]),
    ("REGEXP_INSTR", WORDS, [("[0-9]+",), ("b|é",)]),
    ("REGEXP_SUBSTR", WORDS, [("[0-9]+",), ("a?",)]),
    ("SIMILAR TO", WORDS, [("%(a|b)%",), ("_%",), ("[a-b]+",)]),
    (
        "PARSE_URL",
        st.sampled_from(
            [
                "http://a.b:8/p?k=v&q=1#r",
                "http://a@b/",
                "ftp://h?kk=1&k=2&k=3",
                "x://y",
                "http://h/a b",
                "",
            ]
        ),
        [(part,) for part in ("HOST", "PATH", "QUERY", "REF", "AUTHORITY", "PROTOCOL", "FILE")]
        + [("QUERY", "k")],
    ),
]
EACH: list[tuple[str, DataType, st.SearchStrategy[Any], Callable[[Any], object]]] = [
    ("HEX", STRING, WORDS, lambda v: v.encode().hex().upper()),
    ("HEX", BIGINT, st.integers(-(2**63), 2**63 - 1), lambda v: f"{v % 2**64:X}"),
    ("BIN", BIGINT, st.integers(-(2**63), 2**63 - 1), lambda v: f"{v % 2**64:b}"),
    ("UNHEX", STRING, st.text("0aF", max_size=6).filter(lambda v: len(v) % 2 == 0), bytes.fromhex),
    ("CHR", BIGINT, st.integers(-3, 600), lambda v: "" if v < 0 else chr(v % 256)),
    ("URL_ENCODE", STRING, WORDS, lambda v: quote_plus(v, safe="*")),
    ("INITCAP", STRING, WORDS, lambda v: re.sub("[A-Za-z0-9]+", lambda m: m[0].capitalize(), v)),
    ("REVERSE", STRING, WORDS, lambda v: v[::-1]),
    ("CAST STRING", DOUBLE, st.floats(), float_text),
]


def _call(name: str, kinds: list[DataType], args: list[Vector], rows: int) -> Vector:
    bound = registry.bind(
        name, kinds, [a.values.as_py() if isinstance(a.values, pa.Scalar) else None for a in args]
    )
    cast = [Vector(a.values.cast(t.arrow)) for a, t in zip(args, bound.arg_types, strict=True)]
    return registry.call(
        bound.definition, cast, KernelContext(rows, bound.result_type, bound.arg_types)
    )


def _outcome(vector: Vector, rows: int) -> list[object]:
    values = vector.array(rows).to_pylist()
    return [
        "error" if vector.errors is not None and vector.errors.mask[i] else v
        for i, v in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("name", "values", "constants"), CONSTANT, ids=[f"{c[0]}-{i}" for i, c in enumerate(CONSTANT)]
)
@given(data=st.data())
def test_constants_are_as_columns_of_them(
    name: str, values: st.SearchStrategy[str], constants: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    column = pa.array(
        data.draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=6)), pa.string()
    )
    chosen = data.draw(st.sampled_from(constants))
    rows, kinds = len(column), [STRING, *(INT if isinstance(c, int) else STRING for c in chosen)]
    scalars = [pa.scalar(c, k.arrow) for c, k in zip(chosen, kinds[1:], strict=True)]
    one = _call(name, kinds, [Vector(column), *map(Vector, scalars)], rows)
    other = _call(
        name, kinds, [Vector(column), *(Vector(pa.repeat(s, rows)) for s in scalars)], rows
    )
    assert _outcome(one, rows) == _outcome(other, rows)


@pytest.mark.parametrize(
    ("name", "kind", "values", "expected"), EACH, ids=[f"{e[0]}-{e[1]}" for e in EACH]
)
@given(data=st.data())
def test_each_value_by_itself(
    name: str,
    kind: DataType,
    values: st.SearchStrategy[Any],
    expected: Callable[[Any], object],
    data: st.DataObject,
) -> None:
    column = pa.array(
        data.draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=6)), kind.arrow
    )
    sliced = column.slice(data.draw(st.integers(0, len(column) - 1)))
    found = (
        convert(sliced, kind, STRING)
        if name == "CAST STRING"
        else _call(name, [kind], [Vector(sliced)], len(sliced))
    )
    wanted = [None if v is None else expected(v) for v in sliced.to_pylist()]
    assert found.array(len(sliced)).to_pylist() == wanted


@given(
    st.lists(
        st.one_of(
            st.none(), st.decimals(allow_nan=False, places=4, min_value=-(10**14), max_value=10**14)
        ),
        min_size=1,
    )
)
def test_decimals_are_rounded_as_exact_numbers(values: list[Decimal | None]) -> None:
    source, target = parse_type("DECIMAL(20, 4)"), parse_type("DECIMAL(12, 1)")
    column = pa.array(values, source.arrow)
    for name, rounding in (("ROUND", ROUND_HALF_UP), ("TRUNCATE", ROUND_DOWN)):
        found = _call(
            name, [source, INT], [Vector(column), Vector(pa.scalar(2, pa.int32()))], len(column)
        )
        wanted = [None if v is None else v.quantize(Decimal("0.01"), rounding) for v in values]
        assert found.array(len(column)).to_pylist() == wanted
    exact = [None if v is None else v.quantize(Decimal("0.1"), ROUND_HALF_UP) for v in values]
    fits = [None if v is None or abs(v) >= 10**11 else v for v in exact]
    assert convert(column, source, target).values.to_pylist() == fits
    assert convert(column, source, DOUBLE).values.to_pylist() == [
        None if v is None else float(v) for v in values
    ]


NUMBERS = st.decimals(allow_nan=False, places=2, min_value=-(10**7), max_value=10**7)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1))
def test_quotients_are_those_of_exact_numbers(pairs: list[tuple[Decimal, Decimal]]) -> None:
    kind = parse_type("DECIMAL(10, 2)")
    left, right = (pa.array([p[i] for p in pairs], kind.arrow) for i in (0, 1))
    found = _call("/", [kind, kind], [Vector(left), Vector(right)], len(pairs))
    scale = Decimal(1).scaleb(-found.array(len(pairs)).type.scale)
    for (a, b), value in zip(pairs, found.array(len(pairs)).to_pylist(), strict=True):
        assert value == (EXACT.divide(a, b).quantize(scale, ROUND_HALF_UP, EXACT) if b else None)


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**6), 10**6).map(lambda v: v / 1000)), min_size=1))  # fmt: skip
def test_doubles_become_the_decimals_of_their_texts(values: list[float | None]) -> None:
    target = parse_type("DECIMAL(18, 2)")
    found = convert(pa.array(values, pa.float64()), DOUBLE, target).values.to_pylist()
    for value, decimal in zip(values, found, strict=True):
        exact = None if value is None else Decimal(repr(value)).quantize(Decimal("0.01"), ROUND_HALF_UP, EXACT) if abs(value) < 1e60 else None  # fmt: skip
        assert decimal == (exact if exact is not None and abs(exact) < 10**16 else None)


@given(st.lists(st.integers(-62_135_596_800_000, 253_402_300_799_999), min_size=1))
def test_times_are_written_as_one_by_one(millis: list[int]) -> None:
    kind, pattern = parse_type("TIMESTAMP(3)"), "yyyy-MM-dd'T'HH:mm:ss"
    column = pa.array(np.array(millis), pa.int64()).view(kind.arrow)
    found = _call(
        "DATE_FORMAT", [kind, STRING], [Vector(column), Vector(pa.scalar(pattern))], len(millis)
    )
    assert found.array(len(millis)).to_pylist() == [write(ms * 1_000_000, pattern) for ms in millis]


@given(
    st.lists(JSONS, min_size=1),
    st.sampled_from(["$.a", "$.a.b", "lax $.a.b[0]", "$", "$.a[*]", "$['a']", "$..b"]),
)
def test_paths_are_found_fast_as_in_the_whole_text(values: list[object], path: str) -> None:
    texts = [json.dumps(v, ensure_ascii=bool(i % 2)) for i, v in enumerate(values)] + [
        "{",
        '{"a":01}',
        '{"a":1} x',
    ]
    for text, found in zip(texts, values_at(texts, parse_path(path)), strict=True):
        if found is DOUBTFUL:
            continue
        try:
            wanted: object = parse_path(path).find(read_json(text))
        except NotFound:
            wanted = NOTHING
        except (NotJson, BadPath) as error:
            wanted = error
        assert repr(found) == repr(wanted), text
