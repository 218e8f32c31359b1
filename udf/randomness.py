"""Random values, which depend on nothing but the context's seed and the row's number, so that a replay repeats them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import DOUBLE, char
from udf.arrays import row_by_row
from udf.registry import KernelContext, Values, function
from udf.signatures import int_, never_null, nullable, takes


def _words(ctx: KernelContext, per_row: int, stream: int = 0) -> npt.NDArray[np.uint64]:
    """Random 64-bit words, `per_row` for each row."""
    key = [ctx.seed % 2**64, ctx.seed >> 64 & (2**64 - 1), stream]
    generator = np.random.Philox(np.random.SeedSequence(key))
    words: npt.NDArray[np.uint64] = generator.random_raw(ctx.num_rows * per_row).reshape(ctx.num_rows, per_row)
    return words


@function("UUID", signature=takes(result=never_null(char(36))), deterministic=False)
def uuid(ctx: KernelContext) -> Values:
    """A random UUID (version 4) for every row."""
    words = _words(ctx, 2)
    return pa.array([_uuid_text(high, low) for high, low in words.tolist()], pa.string())


def _uuid_text(high: int, low: int) -> str:
    bits = (high << 64 | low) & ~(0xF000 << 64) & ~(0xC000 << 48) | 0x4000 << 64 | 0x8000 << 48
    h = f"{bits:032x}"
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


_RAND = takes(int_, optional=1, result=lambda types, literals: DOUBLE.with_nullable(nullable(types)))


@function("RAND", signature=_RAND, deterministic=False)
def rand(ctx: KernelContext, seed: Values | None = None) -> Values:
    """A random DOUBLE from 0 to 1 (exclusive) for every row; RAND(seed) gives other ones for other seeds."""
    if seed is None:
        return pa.array((_words(ctx, 1)[:, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53)
    rows = pa.array(range(ctx.num_rows), pa.int64())
    return row_by_row(ctx.num_rows, lambda row, s: _seeded(ctx, row, s), pa.float64(), rows, seed)


def _seeded(ctx: KernelContext, row: int, seed: int) -> float:
    key = [ctx.seed % 2**64, ctx.seed >> 64 & (2**64 - 1), row, seed % 2**32]
    return float(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]) >> 11) * 2.0**-53
