"""VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP: by Welford's method, row by row, so that no result
depends on batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, DOUBLE, DataType, TimeAttribute
from udf.aggregates.accumulators import (
    Accumulator,
    Aggregate,
    RetractableAggregate,
    Slots,
    to_numpy,
)
from udf.aggregates.registry import Factory, define, refusal
from udf.arrays.arrays import valid
from udf.casts.cast import convert
from udf.vector import BoolArray, Vector

_COUNT, _DOUBLE = BIGINT.with_nullable(False), DOUBLE.with_nullable(False)


@dataclass(frozen=True)
class Spread(RetractableAggregate):
    """The variance of what is not NULL in DOUBLE, or (`root`) its square root, as the type of the
    argument; NULL for no value, and of a sample for one."""

    result_type: DataType
    sample: bool
    root: bool
    retractable: bool = True

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("count", _COUNT), ("mean", _DOUBLE), ("m2", _DOUBLE))

    def _change(
        self,
        acc: Accumulator,
        slots: Slots,
        values: pa.Array | None,
        selected: BoolArray,
        sign: int,
    ) -> None:
        if values is None:
            raise ValueError("a variance has an argument")
        keep = selected & valid(values, len(values))
        numbers = np.asarray(to_numpy(values.cast(pa.float64(), safe=False)), np.float64)[keep]
        counts, means, squares = acc["count"], acc["mean"], acc["m2"]
        with np.errstate(all="ignore"):
            # Row by row, for slots repeat and the rounding of each step is part of the result.
            for slot, number in zip(slots[keep].tolist(), numbers, strict=True):
                count = counts[slot] + sign
                # The distance from the mean before this row and, below, from the one after it:
                # Welford's update.
                delta = number - means[slot]
                counts[slot] = count
                if count:
                    means[slot] += sign * delta / count
                    squares[slot] += sign * delta * (number - means[slot])
                else:
                    # Nothing is left: start anew, without the rounding errors of what went.
                    means[slot] = squares[slot] = 0.0

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        left, right = acc["count"][slots], other["count"][others]
        total = left + right
        with np.errstate(all="ignore"):
            divisor = np.where(total == 0, 1, total)
            mean, m2 = other["mean"][others], other["m2"][others]
            # In the order of Flink's operations, which shows in the last digits.
            delta = mean - acc["mean"][slots]
            both = (
                acc["m2"][slots] + m2 + (left * right).astype(np.float64) / divisor * delta * delta
            )
            # An empty side is not merged by the formula, for 0 * NaN would spoil the other.
            acc["m2"][slots] = np.where(left == 0, m2, np.where(right == 0, acc["m2"][slots], both))
            acc["mean"][slots] = np.where(
                left == 0, mean, acc["mean"][slots] + right / divisor * delta
            )
        acc["count"][slots] = total

    def parts(self, acc: Accumulator, slots: Slots) -> list[Vector]:
        """Returns the columns that the result is made from: the number of values, and the sum of
        squared distances from their mean."""
        return [Vector(pa.array(acc[name][slots])) for name in ("count", "m2")]

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        counts = acc["count"][slots]
        least = 2 if self.sample else 1
        with np.errstate(all="ignore"):
            spread = acc["m2"][slots]
            # An error of rounding where values were taken back.
            spread = np.where(spread < 0, 0.0, spread)
            # Bessel's correction for a sample; the divisor of too few values is never shown.
            variance = spread / np.where(counts < least, 1, counts - self.sample)
            variance = np.sqrt(variance) if self.root else variance
        column = pa.array(np.asarray(variance, np.float64), mask=np.asarray(counts < least))
        return convert(column, DOUBLE, self.result_type).values


def _factory(name: str, sample: bool, root: bool) -> Factory:
    def bind(types: Sequence[DataType], retract: bool) -> Aggregate:
        if len(types) != 1 or not types[0].is_numeric:
            raise refusal(name, types, "a number expected")
        return Spread(_result(types[0]), sample, root)

    return bind


def _result(t: DataType) -> DataType:
    kind = t.as_attribute(TimeAttribute.NONE)
    return (
        DataType(kind.root, precision=38, scale=max(6, t.scale), nullable=kind.nullable)
        if t.scale or t.precision
        else kind
    )


_DOCS = {
    "VAR_POP": "VAR_POP(number): the variance of the values.",
    "VAR_SAMP": "VAR_SAMP(number): the variance of a sample, NULL for one value.",
    "STDDEV_POP": "STDDEV_POP(number): the standard deviation of the values.",
    "STDDEV_SAMP": "STDDEV_SAMP(number): the standard deviation of a sample, NULL for one value.",
}
for _name, _other in (
    ("VAR_POP", None),
    ("VAR_SAMP", "VARIANCE"),
    ("STDDEV_POP", None),
    ("STDDEV_SAMP", "STDDEV"),
):
    _made = _factory(_name, _name.endswith("SAMP"), _name.startswith("STDDEV"))
    _text = (
        f"{_DOCS[_name]} Computed in DOUBLE and given in the type of the argument: that of an INT"
        " is an INT."
    )
    define(*(n for n in (_name, _other) if n), factory=_made, doc=_text)
