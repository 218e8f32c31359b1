"""Where only the first row of each key is visible, changes are found for all keys together: the same
ones, in the same order, as those found key by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import INT, STRING, Schema, TimeAttribute, timestamp_ltz
from planner.logical import Rank, SortKey
from planner.logical.change_kinds import ModifyKindSet
from sqlengine.batch import RowKind, from_pydict
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.formats.results import JsonValue, rows_of
from sqlengine.operators.ranks.rank import RankOperator
from tests.operators.test_joins import Source
from tests.operators.test_over_sorted import SCHEMA, STEPS, Row, batch_of


def changes_of(steps: Sequence[tuple[bool, Row, int]], retracts: bool) -> list[tuple[int, Row]]:
    """Rows that come and, where they may, go; one in five that goes is unknown."""
    held: list[Row] = []
    changes = []
    for goes, row, which in steps:
        if goes and retracts and held and which % 5:
            changes.append((int(RowKind.DELETE), held.pop(which % len(held))))
        elif goes and retracts:
            changes.append((int(RowKind.DELETE), row))
        else:
            changes.append((int(RowKind.INSERT), row))
            held.append(row)
    return changes


def emitted(
    node: Rank, changes: Sequence[tuple[int, Row]], size: int, *, together: bool
) -> list[tuple[str, list[JsonValue]]]:
    operator = RankOperator(node)
    operator._only_first &= together
    operator.open(TaskContext())
    batches = (batch_of(changes[start : start + size]) for start in range(0, len(changes), size))
    outputs = (batch for rows in batches for _, batch in operator.process(0, rows))
    return [(str(kind), row) for batch in outputs for kind, row in rows_of(batch)]


@given(
    steps=STEPS,
    retracts=st.booleans(),
    ranked=st.booleans(),
    descending=st.booleans(),
    size=st.integers(1, 9),
)
@settings(max_examples=100, deadline=None)
def test_keys_together_are_keys_one_by_one(
    steps: Sequence[tuple[bool, Row, int]],
    retracts: bool,
    ranked: bool,
    descending: bool,
    size: int,
) -> None:
    source = Source(SCHEMA, ModifyKindSet.ALL if retracts else ModifyKindSet.NONE)
    order = (SortKey("o", descending=descending),)
    node = Rank(source, ("k",), order, 1, 1, "n" if ranked else None, keeps_name=ranked)
    changes = changes_of(steps, retracts)
    assert emitted(node, changes, size, together=True) == emitted(
        node, changes, size, together=False
    )


def test_of_the_first_row_to_arrive_its_key_alone_stays() -> None:
    """A stream of distinct keys costs state in proportion to its keys, not to its rows."""
    now = replace(timestamp_ltz(3), time=TimeAttribute.PROCTIME)
    schema = Schema.of(k=INT, text=STRING, must=STRING.with_nullable(False), now=now)
    operator = RankOperator(
        Rank(Source(schema, ModifyKindSet.NONE), ("k",), (SortKey("now"),), 1, 1)
    )
    context = TaskContext()
    operator.open(context)
    told = []
    for start in range(0, 2000, 100):  # each key comes in two batches
        keys = [max(0, start - 50) + n for n in range(100)]
        rows: dict[str, list[object]] = {
            "k": [*keys],
            "text": ["x" * 1000] * 100,
            "must": ["y"] * 100,
            "now": [start] * 100,
        }
        for _, batch in operator.process(0, replace(from_pydict(schema, rows), proctime=start)):
            told += [row[:3] for _, row in rows_of(batch)]
    assert told == [[key, "x" * 1000, "y"] for key in range(1950)]
    (table,) = context.tables.values()
    assert len(table) == 1950
    assert table.bytes < 1950 * 250
    again = table.copy()
    assert again.dump().equals(table.dump()), "what is forgotten is restored as such"
