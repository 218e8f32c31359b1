"""Random seeds from consecutive numbers: of epochs, of Spark's batches and partitions."""

from __future__ import annotations

from typing import Final

MAX_SEED: Final = 0x7FFFFFFFFFFFFFFF
# 2^64 divided by the golden ratio: its multiples are far apart (as in splitmix64).
_GOLDEN: Final = 0x9E3779B97F4A7C15


def spread_seed(number: int) -> int:
    """Returns a seed of 63 bits; seeds of consecutive numbers are far apart."""
    return number * _GOLDEN & MAX_SEED
