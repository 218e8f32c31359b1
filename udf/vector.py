"""Arguments and results of kernels: a column of values, and a mask of the rows whose value could
not be computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.limits import present

LiteralValue: TypeAlias = None | bool | int | float | str | bytes | Decimal
BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Errors:
    """Rows whose value does not exist. `mask[i]` is True for such a row; `reasons[codes[i]]` says
    why, in words that name the value (`division by zero`). The value of such a row in the vector is
    undefined (NULL by custom)."""

    mask: BoolArray
    codes: npt.NDArray[np.int32]
    reasons: tuple[str, ...]

    @staticmethod
    def where(mask: BoolArray, reason: str) -> Errors | None:
        """Returns one reason for all rows of `mask`; None when no row is in it."""
        return Errors(mask, np.zeros(len(mask), np.int32), (reason,)) if mask.any() else None

    def restrict(self, rows: BoolArray) -> Errors | None:
        """Returns only the errors of the rows in `rows`: the others were never evaluated (laziness
        of AND, CASE, …)."""
        mask = self.mask & rows
        return Errors(mask, self.codes, self.reasons) if mask.any() else None

    def take(self, rows: npt.NDArray[np.intp]) -> Errors | None:
        mask = self.mask[rows]
        return Errors(mask, self.codes[rows], self.reasons) if mask.any() else None

    def reason(self, row: int) -> str:
        return self.reasons[int(self.codes[row])]


def merge_errors(parts: Sequence[Errors | None]) -> Errors | None:
    """The union; where two have an error in one row, the first in order wins, as evaluation from
    left to right does."""
    present = [p for p in parts if p is not None]
    if len(present) <= 1:
        return present[0] if present else None
    mask, codes, reasons = present[0].mask.copy(), present[0].codes.copy(), list(present[0].reasons)
    for part in present[1:]:
        new = part.mask & ~mask
        codes[new] = part.codes[new] + len(reasons)
        reasons += part.reasons
        mask |= part.mask
    return Errors(mask, codes, tuple(reasons))


class ColumnTooLarge(Exception):
    """A column of several rows would take more than 'column-size': it is to be computed for fewer
    of them at a time."""


@dataclass(frozen=True, slots=True)
class Vector:
    """`values` is a plain Arrow array with one value a row, or a scalar that stands for all
    rows."""

    values: pa.Array | pa.Scalar
    errors: Errors | None = None

    def array(self, num_rows: int) -> pa.Array:
        """The values as an array of `num_rows`. ColumnTooLarge where a long text stands for
        many."""
        if isinstance(self.values, pa.Scalar):
            if num_rows > 1 and isinstance(self.values, pa.StringScalar | pa.BinaryScalar):
                text = self.values.as_buffer()
                if text is not None and text.size * num_rows > present().column_size:
                    raise ColumnTooLarge
            return pa.repeat(self.values, num_rows)
        return self.values
