"""PERCENTILE: the value below which a share of the numbers lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import BIGINT, DOUBLE, DataType, Root, array, row
from udf.aggregates.accumulators import Aggregate
from udf.aggregates.collecting import Gather, Values
from udf.aggregates.registry import define, refusal
from udf.casts.cast import convert


def _percentile(types: Sequence[DataType], retract: bool) -> Aggregate:
    parts = types[0].children if types and types[0].root is Root.ROW else ()
    several = len(parts) > 1 and parts[1].root is Root.ARRAY
    asked = parts[1].children[0] if several else parts[1] if len(parts) > 1 else None
    given = asked is not None and asked.is_numeric and not asked.nullable and not parts[1].nullable
    fits = len(parts) in (2, 3) and parts[0].is_numeric and given
    if not fits or (len(parts) == 3 and not parts[2].is_integer):
        raise refusal(
            "PERCENTILE",
            types,
            "a number, a share or an array of them, never NULL, and a frequency expected",
        )
    kept = row(("f0", "f1", "f2"), (DOUBLE, array(DOUBLE), BIGINT))
    result = array(DOUBLE) if several else DOUBLE
    finish, prepare = partial(_percentiles, several=several), partial(_measured, types=parts)
    return Gather(result, kept, finish, prepare, retractable=retract)


def _measured(values: pa.Array, types: Sequence[DataType]) -> pa.Array:
    """Doubles as CAST makes them: Arrow's own cast of a DECIMAL multiplies, and 0.3 is not the
    double nearest to it."""
    wanted = array(DOUBLE) if types[1].root is Root.ARRAY else DOUBLE
    number, asked = (
        convert(pc.struct_field(values, i), types[i], t).values
        for i, t in enumerate((DOUBLE, wanted))
    )
    if wanted is DOUBLE:
        asked = pa.ListArray.from_arrays(pa.array(range(len(asked) + 1), pa.int32()), asked)
    ones = pa.repeat(pa.scalar(1, pa.int64()), len(values))
    often = pc.struct_field(values, 2).cast(pa.int64()) if len(types) > 2 else ones
    return pa.StructArray.from_arrays(
        [number, asked.cast(pa.list_(pa.float64())), often], ["f0", "f1", "f2"]
    )


def _percentiles(values: Values, several: bool) -> object:
    present = ((v["f0"], v["f2"]) for v in values if v["f0"] is not None and (v["f2"] or 0) > 0)
    counted = sorted(present, key=lambda pair: _java_order(pair[0]))
    asked = values[-1]["f1"]
    if not counted or any(p is None or not 0 <= p <= 1 for p in asked):
        return None
    ends = np.cumsum([count for _, count in counted])
    percentiles = [_percentile_at(counted, ends, p) for p in asked]
    return percentiles if several else percentiles[0]


def _java_order(number: float) -> tuple[bool, float, bool]:
    """-0.0 is less than 0.0, and NaN the greatest."""
    return number != number, 0.0 if number != number else number, math.copysign(1, number) > 0


def _percentile_at(
    counted: list[tuple[float, int]], ends: np.ndarray[Any, Any], share: float
) -> float:
    """Between the two values around the place, in proportion. Places begin with 1, as in Flink,
    which shows in the last digit."""
    place = (int(ends[-1]) - 1) * share + 1
    below, above = math.floor(place), math.ceil(place)
    first, second = (counted[int(np.searchsorted(ends, at))][0] for at in (below, above))
    return first if below == above else (above - place) * first + (place - below) * second


define(
    "PERCENTILE",
    factory=_percentile,
    doc=(
        "PERCENTILE(number, percentage [, frequency]): the value below which this share (0 to 1, or"
        " an array of them) of the numbers lies, between two of them in proportion; a number counts"
        " `frequency` times."
    ),
)
