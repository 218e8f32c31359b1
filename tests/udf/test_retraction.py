"""An aggregate that takes rows back gives what the rows that are left give, in whatever order rows
come and go, also when its state was written down in between or parts of it were merged; and what
real Flink gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import PlanError
from parser.types import BITMAP, DOUBLE, INT, STRING, DataType, array, decimal, row, timestamp
from sqlengine.state.columns import to_arrow, to_numpy
from udf.aggregates.accumulators import Accumulator, Aggregate, empty_accumulator
from udf.aggregates.registry import bind_aggregate
from udf.time.plain import from_plain, plain_type
from udf.vector import Vector

PAIR, ITEMS = row(("f0", "f1"), (STRING, STRING)), array(INT)
VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    INT: st.none() | st.integers(-2, 3),
    DOUBLE: st.none() | st.integers(-2, 3).map(float),
    decimal(10, 2): st.none() | st.decimals(-2, 2, places=1),
    STRING: st.none() | st.sampled_from(["", "a", "b", "é", "😀"]),
    timestamp(9): st.none() | st.sampled_from([0, 1, 10**18 + 1]),
    ITEMS: st.none() | st.lists(st.none() | st.integers(0, 1), max_size=1),
    PAIR: st.fixed_dictionaries(
        {"f0": st.sampled_from(["a", "b"]), "f1": st.sampled_from([",", ";"])}
    ),
    BITMAP: (
        st.none() | st.sets(st.integers(0, 4)).map(lambda s: f"{{{','.join(map(str, sorted(s)))}}}")
    ),
}
_ANY = [
    "COUNT",
    "COUNT DISTINCT",
    "MIN",
    "MAX",
    "FIRST_VALUE",
    "LAST_VALUE",
    "COLLECT",
    "ARRAY_AGG",
    "ARRAY_AGG DISTINCT",
]
_SETS = [f"BITMAP_{n}{c}_AGG" for n in ("AND", "OR", "XOR") for c in ("", "_CARDINALITY")]
CASES: list[tuple[str, DataType]] = [
    *[(name, t) for t in (INT, STRING, timestamp(9)) for name in _ANY],
    *[(name, ITEMS) for name in _ANY if name not in ("MIN", "MAX")],
    *[(name, t) for t in (INT, decimal(10, 2)) for name in ("SUM", "AVG", "SUM DISTINCT")],
    *[(name, DOUBLE) for name in ("SUM", "VAR_POP", "STDDEV_SAMP")],
    *[(name, STRING) for name in ("LISTAGG", "LISTAGG DISTINCT", "JSON_ARRAYAGG", "JSON_ARRAYAGG NULL")],
    *[(name, PAIR) for name in ("LISTAGG", "JSON_OBJECTAGG")],
    ("BITMAP_BUILD_AGG", INT), ("BITMAP_BUILD_CARDINALITY_AGG", INT), *[(name, BITMAP) for name in _SETS],
]  # fmt: skip
Row = tuple[int, Any]


def change(
    aggregate: Aggregate, acc: Accumulator, rows: Sequence[Row], t: DataType, *, back: bool = False
) -> None:
    """Adds rows of (slot, value), or takes them back."""
    values = from_plain(pa.array([v for _, v in rows], plain_type(t.arrow)), t.arrow)
    step = aggregate.retract if back else aggregate.update
    step(acc, np.array([s for s, _ in rows], np.int64), values, np.ones(len(rows), np.bool_))


def shown(aggregate: Aggregate, acc: Accumulator) -> list[Any]:
    result = aggregate.result(acc, np.arange(2))
    if isinstance(result, Vector):
        assert result.errors is not None
        return [bool(b) and result.errors.reason(i) for i, b in enumerate(result.errors.mask)]
    assert result.type == aggregate.result_type.arrow
    return [sorted(map(repr, v)) if isinstance(v, list) and pa.types.is_map(result.type) else v for v in
            from_plain_list(result)]  # fmt: skip


def from_plain_list(result: pa.Array) -> list[Any]:
    return (
        result.view(plain_type(result.type)).to_pylist()
        if result.type != plain_type(result.type)
        else result.to_pylist()
    )


def written_down(aggregate: Aggregate, acc: Accumulator) -> Accumulator:
    """The accumulator as state writes and reads it."""
    again: Accumulator = {}
    for name, t in aggregate.accumulators:
        column = to_arrow(t, acc[name], acc[name + "?"].astype(np.bool_) if t.nullable else None)
        values, present = to_numpy(t, column)
        again[name] = values.copy()
        if t.nullable:
            again[name + "?"] = present.copy()
    return again


@pytest.mark.parametrize(("name", "t"), CASES, ids=lambda x: str(x))
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_what_is_taken_back_was_never_there(name: str, t: DataType, data: st.DataObject) -> None:
    aggregate = bind_aggregate(name, [t], retract=True)
    acc = empty_accumulator(aggregate.accumulators, 2)
    live: list[Row] = []
    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.lists(st.tuples(st.integers(0, 1), VALUES[t]), max_size=4))
        back = data.draw(st.lists(st.sampled_from(live + rows), max_size=3)) if live + rows else []
        back = [r for i, r in enumerate(back) if back[: i + 1].count(r) <= (live + rows).count(r)]
        # What is taken back may come later in the batch.
        early = t != DOUBLE and data.draw(st.booleans())
        for step in ([back, rows], [rows, back])[not early]:
            change(aggregate, acc, step, t, back=step is back)
        live += rows
        for gone in back:
            live.remove(gone)
        match data.draw(st.sampled_from(["", "write", "merge"])):
            case "write":
                acc = written_down(aggregate, acc)
            case "merge":
                other = acc
                acc = empty_accumulator(aggregate.accumulators, 2)
                aggregate.merge(acc, np.arange(2), other, np.arange(2))
    plain = bind_aggregate(name, [t])
    wanted = empty_accumulator(plain.accumulators, 2)
    change(plain, wanted, live, t)
    found, expected = shown(aggregate, acc), shown(plain, wanted)
    if name == "ARRAY_AGG DISTINCT":  # a value stays in its place while there is one like it
        found, expected = (
            [v if v is None else sorted(map(repr, v)) for v in r] for r in (found, expected)
        )
    elif name == "LISTAGG DISTINCT":
        found, expected = (
            [v if v is None else sorted(v.split(",")) for v in r] for r in (found, expected)
        )
    assert found == (pytest.approx(expected, abs=1e-6) if t == DOUBLE else expected)


def test_numbers_compare_as_in_flink_where_values_are_taken_back() -> None:
    nan = float("nan")
    for name, kept, taken in (("MIN", "1.0", "-0.0"), ("MAX", "nan", "1.0")):
        aggregate = bind_aggregate(name, [DOUBLE], retract=True)
        acc = empty_accumulator(aggregate.accumulators, 2)
        change(aggregate, acc, [(0, 1.0), (0, nan), (0, 0.0), (0, -0.0)], DOUBLE)
        if name == "MIN":
            assert str(shown(aggregate, acc)) == "[-0.0, None]"
            change(aggregate, acc, [(0, -0.0), (0, 0.0)], DOUBLE, back=True)
        assert str(shown(aggregate, acc)[0]) == kept, taken


def test_without_retraction_nothing_is_kept_and_nothing_is_taken_back() -> None:
    plain = bind_aggregate("MIN", [INT])
    assert [n for n, _ in plain.accumulators] == ["value"]
    with pytest.raises(NotImplementedError):
        plain.retract({}, np.zeros(0, np.int64), pa.array([], pa.int32()), np.zeros(0, np.bool_))
    with pytest.raises(PlanError):
        bind_aggregate("MIN", [ITEMS], retract=True)
