"""Table functions: any number of rows for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import DataType
from udf.vector import Errors, Vector


@dataclass(frozen=True)
class Expanded:
    """The result of a table function.

    `rows[i]` is the input row that output row i comes from, ascending; `columns` are the
    function's; `errors` has the input rows for which it failed, which have no output."""

    rows: npt.NDArray[np.int64]
    columns: tuple[pa.Array, ...]
    errors: Errors | None = None


# Called with the arguments and the number of rows; never raises for data.
TableKernel: TypeAlias = Callable[[Sequence[Vector], int], Expanded]
# Gives the kernel for arguments of certain types.
BindTable: TypeAlias = Callable[[Sequence[DataType]], TableKernel]

_TABLES: dict[str, BindTable] = {}


def register_table(name: str, bind: BindTable) -> None:
    """Makes a table function callable by its name in upper case, or by the identity of a user's."""
    _TABLES[name] = bind


def lookup_table(name: str) -> BindTable | None:
    return _TABLES.get(name)
