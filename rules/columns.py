"""The columns of a batch as rules read them: distinct values and numbers, computed once for all who
ask."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ExecutionError
from rules.condition import Variable

Codes: TypeAlias = npt.NDArray[np.int32]
Mask: TypeAlias = npt.NDArray[np.bool_]
Number: TypeAlias = bool | int | float | Decimal
# Below this many rows a dictionary of Python's is faster than calls of Arrow kernels.
_SMALL = 256


@dataclass(frozen=True)
class Texts:
    """`values[codes[row]]` is the row's text; code -1 is NULL. Each value is there once."""

    values: list[str]
    codes: Codes


@dataclass(frozen=True)
class Numbers:
    """Numbers by row, int64 or float64; `nulls` marks NULL rows (None: there are none)."""

    values: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    nulls: Mask | None


@dataclass(frozen=True)
class Columns:
    """Plain Arrow arrays by column name, all of one length. `memo` belongs to the batch: distinct
    values and derived variables are kept there under keys that begin with 'rules', for every rule
    set that reads the same batch."""

    arrays: Mapping[str, pa.Array]
    memo: dict[Hashable, object] = field(default_factory=dict)

    def array(self, name: str) -> pa.Array:
        """ExecutionError where the batch has no such column."""
        array = self.arrays.get(name)
        if array is None:
            raise ExecutionError(f"a rule reads the column '{name}', which the batch does not have")
        return array

    def texts(self, variable: Variable) -> Texts:
        """The variable's distinct values. ExecutionError for a column that is not STRING."""
        key = ("rules", variable)
        cached = self.memo.get(key)
        if cached is None:
            cached = self.memo[key] = self._texts(variable)
        assert isinstance(cached, Texts)
        return cached

    def _texts(self, variable: Variable) -> Texts:
        if not variable.transforms:
            return _distinct(self.array(variable.field), variable.field)
        # Derived step by step: LOWER(TRIM(x)) shares TRIM(x) with other rules, and each distinct
        # value is derived once.
        inner = self.texts(Variable(variable.field, variable.transforms[:-1]))
        derive = _DERIVE[variable.transforms[-1]]
        return _merged([derive(v) for v in inner.values], inner.codes)

    def numbers(self, name: str) -> Numbers | None:
        """Values of an integer, boolean, time or floating-point column; None for other types."""
        key = ("rules", "numbers", name)
        if key not in self.memo:
            self.memo[key] = _numbers(self.array(name))
        cached = self.memo[key]
        assert cached is None or isinstance(cached, Numbers)
        return cached

    def nulls(self, name: str) -> Mask | None:
        """Rows where the column is NULL; None if there are none."""
        return _nulls(self.array(name))


_STRING = pa.string()
_NO_TEXT = Texts([], np.full(1, -1, np.int32))
_DERIVE: dict[str, Callable[[str], str]] = {
    "LOWER": str.lower,
    "UPPER": str.upper,
    "TRIM": lambda text: text.strip(" "),
    "LTRIM": lambda text: text.lstrip(" "),
    "RTRIM": lambda text: text.rstrip(" "),
}


def derivation(variable: Variable) -> Callable[[str], str]:
    """Returns what makes the variable's text of the column's."""
    steps = [_DERIVE[name] for name in variable.transforms]
    if len(steps) == 1:
        return steps[0]
    return lambda text: reduce(lambda value, step: step(value), steps, text)


# Different values may become equal: 'A' and 'a' under LOWER.
def _merged(values: list[str], codes: Codes) -> Texts:
    """Equal values as one."""
    numbers = {v: i for i, v in enumerate(dict.fromkeys(values))}
    if len(numbers) == len(values):
        return Texts(values, codes)
    # Code -1 is NULL: the last place.
    return Texts(list(numbers), np.array([*map(numbers.__getitem__, values), -1], np.int32)[codes])


def _distinct(array: pa.Array, name: str) -> Texts:
    if array.null_count == len(array):
        # Also an array of the null type, which is no string.
        return _NO_TEXT if len(array) == 1 else Texts([], np.full(len(array), -1, np.int32))
    if array.type != _STRING:
        raise ExecutionError(
            f"a rule compares the column '{name}' with texts",
            detail=f"the batch has it as {array.type}",
        )
    if len(array) <= _SMALL:
        numbers: dict[str | None, int] = {}
        codes = [-1 if v is None else numbers.setdefault(v, len(numbers)) for v in _to_texts(array)]
        return Texts([v for v in numbers if v is not None], np.array(codes, np.int32))
    encoded = array.dictionary_encode()
    indices = encoded.indices
    if indices.null_count:
        indices = indices.fill_null(-1)
    return Texts([v for v in _to_texts(encoded.dictionary) if v is not None], indices.to_numpy())


def _to_texts(array: pa.Array) -> list[str | None]:
    """Bytes that are no UTF-8, which a careless source may let through, become lone surrogates."""
    try:
        texts: list[str | None] = array.to_pylist()
    except UnicodeDecodeError:
        raw = array.cast(pa.binary()).to_pylist()
        texts = [None if v is None else v.decode("utf-8", "surrogateescape") for v in raw]
    return texts


def _nulls(array: pa.Array) -> Mask | None:
    """Reads the bitmap, since that takes a tenth of a kernel's time on a few rows."""
    missing = array.null_count
    if not missing:
        return None
    if missing == len(array):
        return np.ones(len(array), np.bool_)
    bitmap = np.frombuffer(array.buffers()[0], np.uint8)
    # The array may be a slice that begins in the middle of a byte.
    first = array.offset >> 3
    bits = np.unpackbits(bitmap[first : (array.offset + len(array) + 7) >> 3], bitorder="little")
    nulls: Mask = bits[array.offset & 7 :][: len(array)] == 0
    return nulls


def _numbers(array: pa.Array) -> Numbers | None:
    kind = array.type
    nulls = _nulls(array)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        array = array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    if nulls is not None:
        # What stands for NULL is never read: `nulls` decides.
        array = pc.fill_null(array, 0)
    target = np.float64 if pa.types.is_floating(kind) else np.int64
    return Numbers(array.to_numpy().astype(target, copy=False), nulls)
