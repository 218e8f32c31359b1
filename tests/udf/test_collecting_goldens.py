"""Aggregates of several arguments, of DISTINCT values, and those that keep values give what real
Flink gives; and the same when their rows come in parts that are merged, or when their state has
been written down in between."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parser import parse_condition
from parser.errors import PlanError
from parser.types import Root
from planner.binder.queries.aggregate_calls import aggregate_argument
from planner.binder.scope import Context, Field, Place, Scope
from planner.catalog import Catalog
from planner.scalar import ColumnRef
from sqlengine.batch import Batch
from sqlengine.expressions import evaluate
from sqlengine.formats.results import column_to_json
from sqlengine.state.columns import to_arrow, to_numpy
from tests.udf.golden import FOLDER, read_table
from udf.aggregates.accumulators import Accumulator, Aggregate, empty_accumulator
from udf.aggregates.registry import bind_aggregate

CALLS = json.loads((FOLDER / "collecting.json").read_text())["calls"]
TABLE = read_table()


def bound(call: str, batch: Batch, *, grouped: bool) -> tuple[Aggregate, pa.Array]:
    """The aggregate of a call and its argument's values."""
    scope = Scope(tuple(Field(("t",), c.name, ColumnRef(c.name, c.type)) for c in batch.schema))
    name, argument = aggregate_argument(
        parse_condition(call), Place(Context(Catalog(), {}), scope, "an aggregate")
    )
    assert argument is not None
    return bind_aggregate(name, [argument.type], grouped=grouped), evaluate(argument, batch).array(
        batch.num_rows
    )


def shown(aggregate: Aggregate, acc: Accumulator, slots: list[int]) -> list[Any]:
    result = aggregate.result(acc, np.array(slots, np.int64))
    assert isinstance(result, pa.Array)
    assert result.type == aggregate.result_type.arrow
    return column_to_json(result, aggregate.result_type)


def same(found: Any, wanted: Any, root: Root) -> bool:
    if root is Root.MULTISET and wanted is not None:
        return sorted(map(repr, found)) == sorted(map(repr, wanted))
    if root is Root.FLOAT and isinstance(wanted, float):
        return bool(np.float32(found) == np.float32(wanted))
    # Computed in DOUBLE: parts differ in the last digit.
    if isinstance(wanted, int) and abs(wanted) > 2**53:
        return bool(found == pytest.approx(wanted, rel=1e-14))
    return bool(found == wanted)


@pytest.mark.parametrize("parts", [1, 2], ids=["at once", "merged"])
@pytest.mark.parametrize(
    "golden", CALLS, ids=lambda g: g["call"] + (" grouped" if g["group"] else "")
)
def test_aggregates(golden: dict[str, Any], parts: int) -> None:
    aggregate, values = bound(golden["call"], TABLE, grouped=golden["group"] is not None)
    keys = [
        "" if golden["group"] is None else str(k).lower() for k in TABLE.column("b0").to_pylist()
    ]
    slot_of = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    slots = np.array([slot_of[k] for k in keys], np.int64)
    half = len(keys) // parts
    accs = []
    for begin in range(0, len(keys), half if parts > 1 else len(keys)):
        rows = np.arange(len(keys))
        selected = (rows >= begin) & (rows < begin + (half if parts > 1 else len(keys)))
        acc = empty_accumulator(aggregate.accumulators, 8)
        aggregate.update(acc, slots, values, selected)
        accs.append(written_down(aggregate, acc))
    every = np.array(list(slot_of.values()), np.int64)
    for other in accs[1:]:
        aggregate.merge(accs[0], every, other, every)
    for key, found in zip(slot_of, shown(aggregate, accs[0], list(slot_of.values())), strict=True):
        assert same(found, golden["values"][key], aggregate.result_type.root), (key, found)


def written_down(aggregate: Aggregate, acc: Accumulator) -> Accumulator:
    """The accumulators as they are after a checkpoint and a restart."""
    read: Accumulator = {}
    for name, kind in aggregate.accumulators:
        column, present = to_numpy(kind, to_arrow(kind, acc[name], acc.get(f"{name}?")))
        read[name] = column.copy()
        if kind.nullable:
            read[f"{name}?"] = present.copy()
    return read


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("LISTAGG(s, u)", "the separator of LISTAGG is a literal"),
        ("LISTAGG(i)", "cannot apply 'LISTAGG'"),
        ("VARIANCE(s)", "cannot apply 'VAR_SAMP'"),
        ("SUM(i, j)", "SUM takes one argument"),
        ("JSON_ARRAYAGG(dt)", "is not supported in JSON"),
        ("JSON_OBJECTAGG(i VALUE i)", "cannot apply 'JSON_OBJECTAGG'"),
    ],
)
def test_refusals(call: str, message: str) -> None:
    with pytest.raises(PlanError, match=message.replace("(", r"\(")):
        bound(call, TABLE, grouped=True)
