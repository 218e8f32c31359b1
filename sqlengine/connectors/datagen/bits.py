"""Random bits of generated rows, each by the number of its row, the place of its column and the
seed: a counter that is mixed (SplitMix64)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint64]

# The two digits of a byte, the lower half first.
_HEX = np.frombuffer("".join(f"{b:02x}"[::-1] for b in range(256)).encode(), np.uint16)


def random_bits(first: int, end: int, column: int, seed: int, stream: int) -> Bits:
    """64 random bits a row; `stream` tells the uses within one column apart."""
    return _drawn(np.arange(first, end, dtype=np.uint64), np.uint64(_key(column, seed, stream)))


def _key(column: int, seed: int, stream: int) -> int:
    return (
        seed * 0x9E3779B97F4A7C15 + column * 0xD1B54A32D192ED03 + stream * 0x8CB92BA72F3D8DD7
    ) % 2**64


def _drawn(rows: Bits, key: np.uint64 | Bits) -> Bits:
    """64 random bits for each row and key."""
    return _mix(_mix(rows * np.uint64(0x9E3779B97F4A7C15) + key) ^ key)


def _mix(state: Bits) -> Bits:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def unit(bits: Bits) -> npt.NDArray[np.float64]:
    """Maps random bits to doubles in [0, 1)."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def random_digits(
    first: int, end: int, column: int, seed: int, length: int
) -> npt.NDArray[np.uint8]:
    """Returns random digits, so many a row. The words of all rows are drawn together: one at a
    time, millions of digits would take a minute."""
    words = range((length + 15) // 16)
    keys = np.array([_key(column, seed, 2 + word) for word in words], np.uint64)
    bits = _drawn(np.arange(first, end, dtype=np.uint64)[:, None], keys)
    digits = _HEX[bits.astype("<u8").view(np.uint8)].view(np.uint8)
    return digits.reshape(end - first, len(words) * 16)[:, :length]
