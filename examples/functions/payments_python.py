"""Functions for payments_python.sql: a check digit, a rate of exchange, the steps of a limit, an
average by amount."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc

from sqlengine import udaf, udf, udtf

EUROS = {"EUR": Decimal("1"), "GBP": Decimal("1.17"), "USD": Decimal("0.92")}
LIMITS = (10, 100, 1000)


@udf
def euros(
    amount: Annotated[Decimal, "DECIMAL(12, 2)"], currency: str
) -> Annotated[Decimal, "DECIMAL(12, 2)"]:
    """The amount in euros. A currency without a rate is an error of its row."""
    return amount * EUROS[currency]


@udf(vectorized=True, input_types=["DOUBLE NOT NULL"], result_type="BOOLEAN")
def is_round(amount: pa.Array) -> pa.Array:
    """Whether the amount has no cents; a whole column at once."""
    cents = pc.round(pc.multiply(amount, 100.0))
    return pc.equal(pc.multiply(pc.floor(pc.divide(cents, 100.0)), 100.0), cents)


@udtf
def limits_passed(amount: float) -> Iterator[int]:
    """Every limit that the amount is above."""
    return (limit for limit in LIMITS if amount > limit)


@udaf
class Spread:
    """The greatest value less the smallest."""

    def create_accumulator(self) -> list[float]:
        return []

    def accumulate(self, acc: list[float], value: float) -> None:
        acc[:] = [min([*acc, value]), max([*acc, value])]

    def merge(self, acc: list[float], other: list[float]) -> None:
        for value in other:
            self.accumulate(acc, value)

    def get_value(self, acc: list[float]) -> float | None:
        return acc[1] - acc[0] if acc else None
