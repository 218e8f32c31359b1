"""A keyed table against a dict: dumps, loads, drops of buckets, checkpoints."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sqlengine.state.slot_table as slot_table_module
from parser.errors import ServiceError
from parser.types import BIGINT, DOUBLE, INT, STRING, Schema, decimal, timestamp
from sqlengine.state.checkpoint import Checkpointer
from sqlengine.state.keys import BUCKETS, bucket_of, encode
from sqlengine.state.store import MemoryStore
from sqlengine.state.table import METADATA_KEY, KeyedTable

KEYS = Schema.of(w=timestamp(3).with_nullable(False), k=STRING)
VALUES = Schema.of(n=BIGINT.with_nullable(False), t=timestamp(3), d=decimal(5, 1), s=STRING)
Key = tuple[int, str | None]


def new_table() -> KeyedTable:
    return KeyedTable("node/windows", KEYS, VALUES, ("k",))


def arrays(keys: list[Key]) -> list[pa.Array]:
    return [
        pa.array([k[0] for k in keys], pa.int64()).view(pa.timestamp("ms")),
        pa.array([k[1] for k in keys], pa.string()),
    ]


def bucket(key: Key) -> int:
    return bucket_of(encode([STRING], [pa.array([key[1]], pa.string())], 1)[0])


@dataclass
class Pair:
    """A table, a dict with its expected content, and the content that a reader of its
    changes has."""

    table: KeyedTable = field(default_factory=new_table)
    model: dict[Key, list[Any]] = field(default_factory=dict)
    store: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        self.checkpointer = Checkpointer(self.store, clock=lambda: 0.0)

    def add(self, keys: list[Key]) -> None:
        """COUNT(*), a time once the count is even, a decimal and a text from the third row on."""
        slots, is_new = self.table.slots_for(arrays(keys), len(keys))
        columns = self.table.columns
        for key, slot, new in zip(keys, slots.tolist(), is_new.tolist(), strict=True):
            assert new == (key not in self.model)
            n = self.model[key][0] + 1 if key in self.model else 1
            row: list[Any] = [
                n,
                10 * n if n % 2 == 0 else None,
                Decimal(n) / 2 if n > 2 else None,
                f"{n}" if n > 2 else None,
            ]
            self.model[key] = row
            for name, value in zip(VALUES.names, row, strict=True):
                columns[name][slot] = (
                    value if value is not None or columns[name].dtype.kind == "O" else 0
                )
                if name != "n":
                    columns[name + "?"][slot] = value is not None
        self.table.mark(slots)

    def remove(self, keys: list[Key]) -> None:
        gone = [k for k in dict.fromkeys(keys) if k in self.model]
        slots, _ = self.table.slots_for(arrays(gone), len(gone), insert=False)
        self.table.remove(slots)
        for key in gone:
            del self.model[key]

    def checkpoint(self) -> None:
        assert self.checkpointer.begin({"epoch": 1}, {"node/windows": self.table})

    def stored(self) -> KeyedTable:
        table, loaded = new_table(), self.store.load()
        assert loaded is not None
        table.load(loaded.tables["node/windows"])
        return table

    def check(self) -> None:
        assert rows(self.table.dump()) == [(*k, *v) for k, v in self.model.items()]


def rows(dump: pa.Table) -> list[tuple[object, ...]]:
    columns = [dump[n].to_pylist() for n in ("k", "d", "s")]
    times = [dump[n].cast(pa.int64()).to_pylist() for n in ("w", "n", "t")]
    return list(zip(times[0], columns[0], times[1], times[2], columns[1], columns[2], strict=True))


SOME_KEYS = st.lists(
    st.tuples(st.sampled_from([-1, 0, 1000]), st.sampled_from([None, "", "a", "b", "ü"])),
    max_size=12,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "remove"]), SOME_KEYS),
        st.tuples(st.sampled_from(["checkpoint", "recover", "move"]), st.just([])),
    ),
    max_size=20,
)


@settings(max_examples=120, deadline=None)
@given(STEPS, st.booleans())
def test_table_is_a_dict(steps: list[tuple[str, list[Key]]], colliding: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if colliding:
            patch.setattr(
                slot_table_module, "hash_rows", lambda columns, count: np.full(count, 7, np.uint64)
            )
        pair = Pair()
        for what, keys in steps:
            match what:
                case "add":
                    pair.add(keys)
                case "remove":
                    pair.remove(keys)
                case "checkpoint":
                    pair.checkpoint()
                    assert rows(pair.stored().dump()) == rows(pair.table.dump())
                case "recover":
                    pair.checkpoint()
                    pair.table = pair.stored()
                    pair.checkpointer.adopt({"epoch": 1}, {"node/windows": pair.table})
                case "move":
                    move_there_and_back(pair)
            pair.check()
        assert len(pair.table) == len(pair.model)


def move_there_and_back(pair: Pair) -> None:
    """Half of the buckets go to another instance and come back."""
    other, half = new_table(), range(BUCKETS // 2)
    other.load(pair.table.dump(half))
    pair.table.drop(half)
    assert all(bucket(k) >= BUCKETS // 2 for k in remaining(pair.table))
    pair.table.load(other.dump())


def remaining(table: KeyedTable) -> Iterator[Key]:
    for window, key, *_ in rows(table.dump()):
        yield cast(Key, (window, key))


def test_arrival_order_survives_slots_that_are_used_again() -> None:
    pair = Pair()
    pair.add([(0, "a"), (0, "b"), (0, "c")])
    pair.remove([(0, "a"), (0, "b")])
    pair.add([(0, "d"), (0, "a"), (0, "e")])
    slots = pair.table.live()
    assert slots.tolist() == [0, 1, 2, 3]
    assert pair.table.key_arrays(pair.table.in_order(slots))[1].to_pylist() == ["c", "d", "a", "e"]
    assert pair.table.dump().schema.metadata == {
        METADATA_KEY: b'{"format": 1, "bucket_hash": 1, "table": "node/windows"}'
    }


def test_appended_rows_are_found_when_somebody_looks() -> None:
    chance, model, table = random.Random(3), dict[Key, int](), new_table()
    for number in range(60):
        what = chance.choice(["append", "append", "remove", "find", "put", "load"])
        keys: list[Key] = [(number, t) for t in chance.sample(["a", "b", None], 2)]
        some = chance.sample(sorted(model, key=str), min(3, len(model)))
        if what == "append":
            slots = table.append(arrays(keys), 2)
            table.write(slots, {"n": pa.array([number, number])})
            table.mark(slots)
            model |= dict.fromkeys(keys, number)
        elif what == "remove":  # rows that are in the index, and others
            live = table.live()
            gone = live[[n in {model[k] for k in some} for n in table.columns["n"][live].tolist()]]
            table.remove(gone)
            model = {k: n for k, n in model.items() if n not in {model[k] for k in some}}
        elif what == "put":
            slots, is_new = table.slots_for(arrays([*some, *keys]), len(some) + 2)
            assert is_new.tolist() == [False] * len(some) + [True] * 2
            table.columns["n"][slots[-2:]] = number
            model |= dict.fromkeys(keys, number)
        elif what == "load":
            dump, table = table.dump(), new_table()
            table.load(dump)
        else:
            slots, _ = table.slots_for(arrays([*some, *keys]), len(some) + 2, insert=False)
            found = table.columns["n"][slots[: len(some)]].tolist()
            assert (found, slots[-2:].tolist()) == ([model[k] for k in some], [-1, -1])
        assert len(table) == len(model)
    assert sorted(table.columns["n"][table.live()].tolist()) == sorted(model.values())


def test_keys_compare_as_sql_groups_them() -> None:
    table = KeyedTable(
        "t", Schema.of(d=DOUBLE, e=decimal(4, 2)), Schema.of(n=INT.with_nullable(False))
    )
    doubles = pa.array([0.0, -0.0, float("nan"), -float("nan"), None, None], pa.float64())
    decimals = pa.array([Decimal(1), Decimal("1.0")] + [None] * 4, pa.decimal128(4, 2))
    slots, is_new = table.slots_for([doubles, decimals], 6)
    assert slots.tolist() == [0, 1, 2, 2, 3, 3]
    assert is_new.tolist() == [True, True, True, False, True, False]
    first, second = table.key_arrays(np.array([0, 1, 3]))
    assert (str(first.to_pylist()), second.to_pylist()) == (
        "[0.0, -0.0, None]",
        [Decimal("1.00")] * 2 + [None],
    )


def test_timer_is_due_once_its_time_has_come() -> None:
    pair = Pair()
    table = pair.table
    assert table.due("w", 2**62).tolist() == []
    pair.add([(5, "a"), (3, "b"), (9, "c"), (3, "b")])
    assert table.due("w", 2).tolist() == []
    assert sorted(table.due("w", 5).tolist()) == [0, 1]
    table.remove(table.due("w", 5))
    assert table.due("w", 8).tolist() == []
    pair.add([(7, "d")])
    assert table.key_arrays(table.due("w", 8))[1].to_pylist() == ["d"]
    assert table.due("t", 20).tolist() == []  # all NULL but one that was removed
    pair.add([(9, "c")])
    assert table.key_arrays(table.due("t", 20))[1].to_pylist() == ["c"]
    again = new_table()
    again.load(table.dump())
    assert sorted(again.key_arrays(again.due("w", 9))[1].to_pylist()) == ["c", "d"]


def test_changes_are_the_marked_rows() -> None:
    pair = Pair()
    pair.add([(0, "a"), (0, "b")])
    first = pair.table.changes(0)
    pair.add([(0, "b"), (0, "c")])
    pair.remove([(0, "a"), (0, "c")])
    second = pair.table.changes(first.version)
    assert second.puts["k"].to_pylist() == ["b"]
    assert second.removed["k"].to_pylist() == ["a"]  # c came and went unseen
    assert pair.table.changes(second.version).puts.num_rows == 0


def test_a_dump_of_another_table_is_rejected() -> None:
    pair = Pair()
    pair.add([(0, "a")])
    dump = pair.table.dump()
    with pytest.raises(ServiceError, match="loaded twice"):
        pair.table.load(dump)
    with pytest.raises(ServiceError, match="other columns"):
        KeyedTable("node/windows", KEYS, Schema.of(n=BIGINT), ("k",)).load(dump)
    old = dump.replace_schema_metadata({METADATA_KEY: b'{"format": 1, "bucket_hash": 0}'})
    with pytest.raises(ServiceError, match="bucket_hash 0, this version reads 1"):
        new_table().load(old)


def test_rows_spread_over_buckets_by_the_exchange_key() -> None:
    table = new_table()
    keys: list[Key] = [(w, f"k{i}") for i in range(300) for w in (0, 1000)]
    table.slots_for(arrays(keys), len(keys))
    counts = Counter(bucket(k) for k in keys)
    for one in (0, 1, 127):
        assert table.dump([one]).num_rows == counts[one]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "remove", "due", "earliest", "load"]),
            st.integers(0, 8),
            st.one_of(st.none(), st.integers(-5_000, 9_000)),
        ),
        max_size=40,
    )
)
def test_due_rows_are_those_that_a_scan_finds(
    steps: list[tuple[str, int, int | None]],
) -> None:
    def new() -> KeyedTable:
        return KeyedTable("t", Schema.of(k=INT), Schema.of(at=BIGINT), ("k",))

    table, model = new(), dict[int, int | None]()
    for what, key, time in steps:
        slots, _ = table.slots_for([pa.array([key], pa.int32())], 1, insert=what == "put")
        if what == "put":
            table.write(slots, {"at": pa.array([time], pa.int64())})
            table.mark(slots)
            model[key] = time
        elif what == "remove" and key in model:
            table.remove(slots)
            del model[key]
        elif what == "due" and time is not None:
            found = table.key_arrays(table.due("at", time))[0].to_pylist()
            assert sorted(found) == sorted(
                k for k, t in model.items() if t is not None and t <= time
            )
        elif what == "earliest":
            assert table.earliest("at") == min(
                (t for t in model.values() if t is not None), default=None
            )
        elif what == "load":
            again = new()
            again.load(table.dump())
            table = again
