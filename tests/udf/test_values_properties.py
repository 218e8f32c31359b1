"""What holds for values of every type: texts lead back to values, keys are equal where values are,
nested values are their parts, and a batch is its rows one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from parser.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    DataType,
    Root,
    Schema,
    array,
    decimal,
    map_of,
    row,
    time,
    timestamp,
)
from sqlengine.state.keys import encode
from sqlengine.state.table import KeyedTable
from udf.casts.cast import convert
from udf.registry import KernelContext, bind, call
from udf.time.plain import as_plain, from_plain, plain_type
from udf.vector import Errors, Vector

TEXT = st.text(st.sampled_from("ab1 é😀-."), max_size=5)
N10, N20 = decimal(10, 2), decimal(20, 5)
PLAIN: dict[DataType, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    INT: st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.sampled_from([0, 1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.floats() | st.sampled_from([0.0, -0.0, float("nan"), 1.0]),
    N10: st.decimals(-99999999, 99999999, places=2),
    N20: st.decimals(-99999999, 99999999, places=5)
    | st.integers(-3, 3).map(lambda v: round(st_decimal(v), 5)),
    STRING: TEXT,
    BYTES: st.binary(max_size=4),
    DATE: st.integers(-719162, 2932896),
    time(3): st.integers(0, 86_399_999),
    timestamp(3): st.integers(-62135596800000, 253402300799999),
    timestamp(6): st.integers(-62135596800000000, 253402300799999999),
}
NESTED = {
    array(INT): st.lists(st.none() | PLAIN[INT], max_size=3),
    row(("x", "y"), (INT, STRING)): st.fixed_dictionaries(
        {"x": st.none() | PLAIN[INT], "y": st.none() | TEXT}
    ),
    map_of(STRING, INT): st.dictionaries(TEXT, st.none() | PLAIN[INT], max_size=3).map(
        lambda d: list(d.items())
    ),
    array(array(STRING)): st.lists(st.none() | st.lists(st.none() | TEXT, max_size=2), max_size=2),
}


def st_decimal(value: int) -> Any:
    return pa.scalar(value, pa.decimal128(20, 5)).as_py()


def column(values: Sequence[Any], t: DataType) -> pa.Array:
    if pa.types.is_temporal(t.arrow):
        storage = pa.int32() if t.arrow.bit_width == 32 else pa.int64()
        return pa.array(values, storage).view(t.arrow)
    return pa.array(values, t.arrow)


def run(name: str, types: Sequence[DataType], args: Sequence[Vector], rows: int) -> list[Any]:
    """The value of each row, or the reason why there is none."""
    bound = bind(name, types)
    result = call(bound.definition, args, KernelContext(rows, bound.result_type, bound.arg_types))
    return outcome(result, rows)


def outcome(result: Vector, rows: int) -> list[Any]:
    values = [repr(v) for v in result.array(rows).to_pylist()]
    failed = np.zeros(rows, np.bool_) if result.errors is None else result.errors.mask
    return [
        ("error", result.errors.reason(i)) if result.errors and failed[i] else values[i]
        for i in range(rows)
    ]


@pytest.mark.parametrize(
    "t", [BOOLEAN, INT, BIGINT, DOUBLE, N10, DATE, time(3), timestamp(3), timestamp(6)], ids=str
)
@settings(max_examples=60)
@given(data=st.data())
def test_a_text_leads_back_to_its_value(t: DataType, data: st.DataObject) -> None:
    values = column(data.draw(st.lists(st.none() | PLAIN[t], max_size=4)), t)
    texts = convert(values, t, STRING)
    back = convert(texts.values, STRING, t)
    assert back.errors is None
    assert list(map(repr, back.values.to_pylist())) == list(map(repr, values.to_pylist()))


PAIRS = [(t, t) for t in PLAIN if t is not N20] + [
    (INT, BIGINT),
    (N10, N20),
    (timestamp(3), timestamp(6)),
    (INT, N10),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{p[0]} and {p[1]}")
@settings(max_examples=60)
@given(data=st.data())
def test_keys_are_equal_where_values_are(
    pair: tuple[DataType, DataType], data: st.DataObject
) -> None:
    left, right = pair
    small = st.integers(-2, 2)
    a = data.draw(PLAIN[left] if not left.is_numeric else PLAIN[left] | small)
    b = (
        a
        if data.draw(st.booleans()) and left is right
        else data.draw(PLAIN[right] | small if right.is_numeric else PLAIN[right])
    )
    # 0.0 and -0.0 are two keys, as in Flink.
    assume(a != b or repr(a) == repr(b) or not isinstance(a, float))
    columns = column([a], left), column([b], right)
    types = bind("=", pair).arg_types
    cast = [Vector(convert(c, s, t).values) for c, s, t in zip(columns, pair, types, strict=True)]
    keys = [encode([t], [c], 1)[0] for t, c in zip(pair, columns, strict=True)]
    assert (run("=", types, cast, 1) == ["True"]) == (keys[0] == keys[1])


SOME = st.sampled_from
# Without -0.0, which equals 0.0 and, as in Flink, is another key.
PAIR = st.tuples(SOME([0, 10**18 + 1]), SOME([0.0, -1.0, float("nan")]) | st.none())
ENTRIES = st.lists(
    st.tuples(SOME(["a", "b", "é"]), SOME([0.0, -1.0, None])), max_size=3, unique_by=lambda e: e[0]
)
# Nested types, as Arrow holds them with integers for times.
AS_KEYS: dict[DataType, st.SearchStrategy[Any]] = {
    array(DOUBLE): st.lists(SOME([0.0, -1.0, 1.0, float("nan"), None]), max_size=2),
    row(("t", "d"), (timestamp(9), DOUBLE)): PAIR.map(lambda p: {"t": p[0], "d": p[1]}),
    map_of(STRING, DOUBLE): ENTRIES,
    map_of(N10, array(STRING)): st.lists(
        st.tuples(SOME([1, 2]), st.lists(SOME(["", "a"]), max_size=1)), max_size=1
    ),
    array(map_of(STRING, DOUBLE)): st.lists(ENTRIES | st.none(), max_size=2),
    DataType(Root.MULTISET, children=(STRING,)): st.sampled_from(
        [[("a", 1)], [("a", 2)], [("b", 1), ("a", 2)], [("a", 2), ("b", 1)]]
    ),
}


@pytest.mark.parametrize("t", list(AS_KEYS), ids=str)
@settings(max_examples=60)
@given(data=st.data())
def test_nested_keys_and_state_agree_with_equality(t: DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | AS_KEYS[t], min_size=2, max_size=6))
    keys = from_plain(pa.array(values, plain_type(t.arrow)), t.arrow)
    n, first = len(values), pa.array([0] * len(values))
    same = outcome(
        call(
            bind("IS NOT DISTINCT FROM", [t, t]).definition,
            [Vector(keys), Vector(keys.take(first))],
            KernelContext(n, BOOLEAN, (t, t)),
        ),
        n,
    )
    encoded = encode([t], [keys], n)
    table = KeyedTable("t", Schema.of(k=t), Schema.of(v=t))
    slots, is_new = table.slots_for([keys], n)
    parts = [v for _, v in values[0] or ()] if t.root is Root.MAP else values[0]
    lacks = isinstance(parts, list) and None in parts  # equals nothing, but is a key
    for i in range(n):
        assert (encoded[i] == encoded[0]) == (slots[i] == slots[0])
        assert (same[i] == "True") == (encoded[i] == encoded[0] and not lacks)
    assert int(is_new.sum()) == len(set(encoded)) == len(table)
    table.write(slots, {"v": keys})
    again = KeyedTable("t", Schema.of(k=t), Schema.of(v=t))
    again.load(table.dump())
    found, _ = again.slots_for([keys.take(pa.array(range(n)[::-1]))], n, insert=False)
    assert [encode([t], again.key_arrays(found[i : i + 1]), 1)[0] for i in range(n)] == encoded[
        ::-1
    ]
    last = {e: i for i, e in enumerate(encoded)}
    kept = as_plain(again.array("v", found))
    assert [repr(v) for v in kept.to_pylist()] == [
        repr(as_plain(keys)[last[e]].as_py()) for e in encoded[::-1]
    ]


SHAPES: list[tuple[str, tuple[DataType, ...]]] = [
    ("ROW", (INT, STRING)),
    ("ARRAY", (INT, INT, INT)),
    ("MAP", (STRING, INT, STRING, INT)),
    *[("=", (t, t)) for t in NESTED],
    *[("IS DISTINCT FROM", (t, t)) for t in NESTED],
    *[("COALESCE", (t, t)) for t in NESTED],
    ("ITEM", (array(INT), INT)),
    ("ITEM", (map_of(STRING, INT), STRING)),
    ("IN", (array(INT), array(INT), array(INT))),
    ("=", (DOUBLE, DOUBLE)),
    ("GREATEST", (DOUBLE, DOUBLE)),
    ("<", (decimal(38, 0), decimal(38, 18))),
]


def drawn(t: DataType, place: int) -> st.SearchStrategy[Any]:
    if t == decimal(38, 0):
        return st.integers(-(10**37), 10**37)
    if t == decimal(38, 18):
        return st.decimals(-(10**19), 10**19, places=18)
    if place == 1 and t == INT:
        return st.integers(-1, 4)
    return NESTED[t] if t in NESTED else PLAIN[t]


@pytest.mark.parametrize(("name", "types"), SHAPES, ids=lambda x: x if isinstance(x, str) else "")
@settings(max_examples=25)
@given(data=st.data())
def test_a_batch_is_its_rows(name: str, types: tuple[DataType, ...], data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 4))
    null = st.nothing() if name == "MAP" else st.none()
    values = [[data.draw(null | drawn(t, i)) for _ in range(rows)] for i, t in enumerate(types)]
    columns = [column(v, t) for v, t in zip(values, types, strict=True)]
    whole = run(name, types, [Vector(c) for c in columns], rows)
    for i in range(rows):
        assert run(name, types, [Vector(c.slice(i, 1)) for c in columns], 1) == [whole[i]]
        assert run(name, types, [Vector(c[i]) for c in columns], 2) == [whole[i]] * 2


@pytest.mark.parametrize("t", list(NESTED), ids=str)
@settings(max_examples=40)
@given(data=st.data())
def test_casts_of_nested_values_are_casts_of_their_parts(t: DataType, data: st.DataObject) -> None:
    values = column(data.draw(st.lists(st.none() | NESTED[t], min_size=1, max_size=4)), t)
    target = {
        "ARRAY": array(BIGINT),
        "ROW": row(("a", "b"), (STRING, STRING)),
        "MAP": map_of(STRING, STRING),
    }[t.root.value]
    if t.children[0].children:
        target = array(array(BYTES))
    whole = outcome(convert(values, t, target), len(values))
    for i in range(len(values)):
        assert outcome(convert(values.slice(i, 1), t, target), 1) == [whole[i]]
    there_and_back = convert(convert(values, t, target).values, target, t)
    assert there_and_back.errors is None
    assert there_and_back.values.to_pylist() == values.to_pylist()


TRUTH = st.sampled_from([True, False, None, "error"])


@settings(max_examples=80)
@given(st.lists(st.tuples(TRUTH, TRUTH, TRUTH), min_size=1, max_size=5))
def test_if_and_ifnull_ask_only_for_what_they_select(rows: list[tuple[Any, ...]]) -> None:
    args = []
    for i in range(3):
        failed = np.array([r[i] == "error" for r in rows], np.bool_)
        values = pa.array([None if r[i] == "error" else r[i] for r in rows], pa.bool_())
        args.append(Vector(values, Errors.where(failed, "error")))

    def meaning(condition: Any, value: Any, other: Any) -> Any:
        return "error" if condition == "error" else value if condition is True else other

    def shown(value: Any) -> Any:
        return ("error", "error") if value == "error" else repr(value)

    assert run("IF", [BOOLEAN] * 3, args, len(rows)) == [shown(meaning(*r)) for r in rows]
    firsts = [r[1] if r[0] is None else r[0] for r in rows]
    assert run("IFNULL", [BOOLEAN] * 2, args[:2], len(rows)) == [shown(v) for v in firsts]
