"""Random values, which depend on nothing but the context's seed and the row's number, so that a
replay repeats them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import DOUBLE, INT, char
from udf.arrays.arrays import RowError, row_by_row, row_errors
from udf.registry import KernelContext, Values, function
from udf.signatures import int_, never_null, nullable, takes
from udf.text.bytes import texts_of
from udf.vector import Vector


def _words(ctx: KernelContext, per_row: int, stream: int = 0) -> npt.NDArray[np.uint64]:
    """Random 64-bit words, `per_row` for each row."""
    # The seed as two words of 64 bits.
    key = [ctx.seed % 2**64, ctx.seed >> 64 & (2**64 - 1), stream]
    generator = np.random.Philox(np.random.SeedSequence(key))
    words: npt.NDArray[np.uint64] = generator.random_raw(ctx.num_rows * per_row).reshape(
        ctx.num_rows, per_row
    )
    return words


@function("UUID", signature=takes(result=never_null(char(36))), deterministic=False)
def uuid(ctx: KernelContext) -> Values:
    """UUID(): a random UUID (version 4) for every row.

    >>> CHAR_LENGTH(UUID())
    36
    """
    words = _words(ctx, 2)
    # Version 4 and the variant of RFC 4122 stand in fixed bits.
    words[:, 0] = words[:, 0] & np.uint64(0xFFFFFFFFFFFF0FFF) | np.uint64(0x4000)
    words[:, 1] = words[:, 1] & np.uint64(0x3FFFFFFFFFFFFFFF) | np.uint64(0x8000000000000000)
    digits = _HEX_PAIRS[np.ascontiguousarray(words.astype(">u8")).view(np.uint8)].reshape(
        ctx.num_rows, 32
    )
    texts = np.full((ctx.num_rows, 36), ord("-"), np.uint8)
    texts[:, _DIGIT_PLACES] = digits
    offsets = np.arange(ctx.num_rows + 1) * 36
    return texts_of(offsets, texts.reshape(-1), np.ones(ctx.num_rows, np.bool_), pa.string())


_HEX_PAIRS = np.array([list(f"{i:02x}".encode()) for i in range(256)], np.uint8)
_DIGIT_PLACES = [i for i in range(36) if i not in (8, 13, 18, 23)]


_RAND = takes(
    int_, optional=1, result=lambda types, literals: DOUBLE.with_nullable(nullable(types))
)


@function("RAND", signature=_RAND, deterministic=False)
def rand(ctx: KernelContext, seed: Values | None = None) -> Values:
    """RAND(), RAND(seed): a random DOUBLE from 0 to 1 (exclusive) for every row; another seed gives
    others.

    >>> RAND() < 1
    TRUE
    """
    if seed is None:
        # 53 bits are what a double holds: each result is equally likely, and 1.0 is none.
        return pa.array((_words(ctx, 1)[:, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53)
    rows = pa.array(range(ctx.num_rows), pa.int64())
    return row_by_row(ctx.num_rows, lambda row, s: _seeded(ctx, row, s), pa.float64(), rows, seed)


def _seeded(ctx: KernelContext, row: int, seed: int) -> float:
    # By row and seed, so that a row's value does not depend on the batch's others.
    key = [ctx.seed % 2**64, ctx.seed >> 64 & (2**64 - 1), row, seed % 2**32]
    return float(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]) >> 11) * 2.0**-53


@function("RAND_INTEGER", signature=takes(int_, int_, optional=1, result=INT), deterministic=False)
def rand_integer(ctx: KernelContext, first: Values, bound: Values | None = None) -> Vector:
    """RAND_INTEGER(bound), RAND_INTEGER(seed, bound): a random INT from 0 to the bound (exclusive)
    for every row. Error: a bound below 1.

    >>> RAND_INTEGER(1)
    0
    """
    if bound is None:
        drawn = _words(ctx, 1)[:, 0]
        if isinstance(first, pa.Scalar) and first.is_valid and first.as_py() > 0:
            return Vector(pa.array(_below(drawn, first.as_py())))
        words = pa.array(drawn)
        return Vector(
            *row_errors(ctx.num_rows, lambda w, b: w % _positive(b), pa.int32(), words, first)
        )
    rows = pa.array(range(ctx.num_rows), pa.int64())
    draw = lambda row, s, b: int(_seeded(ctx, row, s) * _positive(b))  # noqa: E731
    return Vector(*row_errors(ctx.num_rows, draw, pa.int32(), rows, first, bound))


def _below(words: npt.NDArray[np.uint64], bound: int) -> npt.NDArray[np.int32]:
    """The remainders; NumPy divides by one number fast, and takes remainders slowly."""
    return np.asarray(words - words // np.uint64(bound) * np.uint64(bound), np.int32)


def _positive(bound: int) -> int:
    if bound < 1:
        raise RowError("the bound of RAND_INTEGER must be positive")
    return bound
