"""Several rows per key against a model of lists, also after a dump and load."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import BIGINT, INT, STRING, Schema
from sqlengine.state.equal_rows import EqualRows
from sqlengine.state.rows import COUNT, RowsTable
from sqlengine.state.sort_keys import Sorting
from sqlengine.state.table import KeyedTable

KEY = Schema.of(k=STRING)
ROW = Schema.of(v=INT)
EXTRA = Schema.of(t=BIGINT.with_nullable(False))


class OneTable:
    """The only part of an operator's context that is needed here."""

    def __init__(self) -> None:
        self.held: dict[str, KeyedTable] = {}

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...]
    ) -> KeyedTable:
        return self.held.setdefault(name, KeyedTable(name, keys, values, exchange))


keys = st.sampled_from(["a", "b", "", None])
values = st.sampled_from([1, 2, 3, None])
steps = st.lists(st.tuples(st.booleans(), keys, values), max_size=40)


def arrays(rows: list[tuple[str | None, int | None]]) -> tuple[list[pa.Array], list[pa.Array]]:
    return [pa.array([k for k, _ in rows], pa.string())], [
        pa.array([v for _, v in rows], pa.int32())
    ]


def content(table: RowsTable, key: str | None) -> Counter[int | None]:
    (at,) = table.groups([pa.array([key], pa.string())], 1).tolist()
    if at < 0:
        return Counter()
    slots = table.slots(at)
    found = zip(
        table.arrays(["v"], slots)[0].to_pylist(),
        table.table.columns[COUNT][slots].tolist(),
        strict=True,
    )
    return Counter(dict(found))


@settings(max_examples=60, deadline=None)
@given(steps, st.booleans())
def test_rows_come_and_go_as_in_a_multiset(
    steps: list[tuple[bool, str | None, int | None]], restart: bool
) -> None:
    table = RowsTable(OneTable(), "rows", KEY, ROW, EXTRA, ("k",))
    model: dict[str | None, Counter[int | None]] = {k: Counter() for k in ("a", "b", "", None)}
    for adds, key, value in steps:
        k, v = arrays([(key, value)])
        if adds:
            table.put(k, v, [pa.array([7])], 1)
            model[key][value] += 1
        else:
            (slot,) = table.take(k, v, 1).tolist()
            assert (slot >= 0) == (model[key][value] > 0)
            model[key] = +(model[key] - Counter([value]))
            if slot >= 0 and table.table.columns[COUNT][slot] == 0:
                table.drop(np.array([slot]))
    if restart:
        again = OneTable()
        copy = RowsTable(again, "rows", KEY, ROW, EXTRA, ("k",))
        again.held["rows"].load(table.table.dump())
        table = copy
    assert {k: content(table, k) for k in model} == model
    assert len(table) == sum(len(c) for c in model.values())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(keys, st.integers(0, 5)), max_size=30))
def test_rows_of_a_key_are_in_order_of_the_column_then_of_arrival(
    rows: list[tuple[str | None, int]],
) -> None:
    table = RowsTable(
        OneTable(), "rows", KEY, Schema(()), Schema((*EXTRA, *ROW)), ("k",), order_by="t"
    )
    for start in range(0, len(rows), 7):
        part = rows[start : start + 7]
        numbers = pa.array(range(start, start + len(part)), pa.int32())
        table.put(
            [pa.array([k for k, _ in part], pa.string())],
            [],
            [pa.array([t for _, t in part]), numbers],
            len(part),
        )
    wanted = pa.array(["b", "a", None, "x"], pa.string())
    found, slots = table.matches([wanted], 4)
    expected = [
        (i, n)
        for i, k in enumerate(wanted.to_pylist())
        for _, n in sorted((t, n) for n, (x, t) in enumerate(rows) if x == k)
    ]
    assert (
        list(zip(found.tolist(), table.arrays(["v"], slots)[0].to_pylist(), strict=True))
        == expected
    )


@settings(max_examples=60, deadline=None)
@given(steps, st.booleans())
def test_equal_rows_each_keep_their_place_and_the_first_goes_first(
    steps: list[tuple[bool, str | None, int | None]], restart: bool
) -> None:
    """In the order of half their value, so that others come between equal ones."""
    order = Sorting(
        ("v",), lambda columns, n: [bytes([(v or 0) // 2]) for v in columns[0].to_pylist()]
    )
    held = OneTable()
    table = EqualRows(held, "rows", KEY, ROW, EXTRA, ("k",), order)
    model: dict[str | None, list[int | None]] = {k: [] for k in ("a", "b", "", None)}
    for number, (adds, key, value) in enumerate(steps):
        if restart and number == len(steps) // 2:
            held = OneTable()
            copy = EqualRows(held, "rows", KEY, ROW, EXTRA, ("k",), order)
            held.held["rows"].load(table.table.dump())
            table = copy
        k, v = arrays([(key, value)])
        if adds:
            table.put(k, v, [pa.array([7])], 1)
            model[key].append(value)
            model[key].sort(key=lambda v: (v or 0) // 2)
        else:
            slots = table.take(k, v, 1)
            assert (slots[0] >= 0) == (value in model[key])
            if slots[0] >= 0:
                model[key].remove(value)
                table.drop(slots)
    for key, rows in model.items():
        (at,) = table.groups([pa.array([key], pa.string())], 1).tolist()
        assert (table.arrays(["v"], table.slots(at))[0].to_pylist() if at >= 0 else []) == rows


def test_several_equal_rows_go_together() -> None:
    table = EqualRows(OneTable(), "rows", KEY, ROW, EXTRA, ("k",))
    k, v = arrays([("a", 1)] * 3)
    slots, is_new = table.put(k, v, [pa.array([7] * 3)], 3)
    assert is_new.all()
    k, v = arrays([("a", 1)] * 4)
    assert table.take(k, v, 4).tolist() == [*slots.tolist(), -1]
