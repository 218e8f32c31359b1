"""Casts of one point in time to another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parser.types import DataType, Root
from udf.arrays.arrays import valid
from udf.casts.parsing import (
    DAY_NS,
)
from udf.casts.texts import instants, local
from udf.time.intervals import Int64s, from_integers, integers, units_per_ms
from udf.vector import BoolArray, Errors, Vector


def to_time(values: pa.Array, source: DataType, target: DataType, zone: str) -> Vector:
    """A point in time as another; what is finer than the target's precision is cut off. Error: one
    that 64 bits of nanoseconds do not hold."""
    # The wall clock of the session's zone, which is what DATE, TIME and TIMESTAMP hold.
    if source.root is Root.TIMESTAMP_LTZ and target.root is not Root.TIMESTAMP_LTZ:
        values = local(values, zone)
    present = valid(values, len(values))
    numbers = integers(values, len(values))
    # A finer unit may overflow 64 bits, which float arithmetic detects; a coarser one cannot.
    given, wanted = ns_per_unit(source), ns_per_unit(target)
    far = (
        np.abs(numbers * float(given // wanted)) >= 2.0**63
        if given >= wanted
        else np.zeros(len(values), np.bool_)
    )
    # Where `far`, the product would wrap around: multiply zero there, and report the row.
    numbers = (
        np.where(far, 0, numbers) * (given // wanted)
        if given >= wanted
        else numbers // (wanted // given)
    )
    # The time of day; floor modulo, so that times before 1970 come out positive.
    if target.root is Root.TIME:
        numbers = numbers % (DAY_NS // wanted)
    # An instant needs no zone any more; a wall clock time is read in the session's.
    read_in = zone if source.root is not Root.TIMESTAMP_LTZ else "UTC"
    return Vector(
        placed(numbers, present & ~far, target, read_in),
        Errors.where(
            far & present, f"the time is beyond those that {target.plain} holds: from 1677 to 2262"
        ),
    )


def ns_per_unit(t: DataType) -> int:
    """The nanoseconds of one unit of the type's column."""
    return DAY_NS if t.root is Root.DATE else 1_000_000 // units_per_ms(t.arrow)


def placed(numbers: Int64s, present: BoolArray, target: DataType, zone: str) -> pa.Array:
    """Wall clock times in the target's unit as values of it: cut to its precision, TIMESTAMP_LTZ
    read in `zone`."""
    if target.root is not Root.DATE:
        # The smallest step of the precision, in units of the column: 1000 for TIMESTAMP(0) in
        # milliseconds.
        step = 10 ** (9 - target.precision) // ns_per_unit(target)
        # Floor division: before 1970 the cut goes to the past, not towards 1970.
        numbers = numbers // step * step if step > 1 else numbers
    if target.root is not Root.TIMESTAMP_LTZ or zone == "UTC":
        return from_integers(numbers, present, target.arrow)
    naive = from_integers(numbers, present, pa.timestamp(target.arrow.unit))
    return instants(naive, zone)
