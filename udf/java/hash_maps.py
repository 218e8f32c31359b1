"""The order in which Flink keeps the entries of a map that it has read or gathered: that of Java's
HashMap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

_BITS = 0xFFFFFFFF


def in_table_order(
    pairs: Sequence[tuple[K, V]], hash_of: Callable[[K], int], slots: int = 16
) -> list[tuple[K, V]]:
    """Pairs of different keys by the slot of their key in Java's table, which has at least so many
    (and a power of two); in a slot, as they are. NULL is in the first."""
    if len(pairs) < 2:
        return list(pairs)
    size = 1
    while size < slots:
        size *= 2
    # A HashMap doubles when it is more than three quarters full, and keeps the order in a slot.
    while len(pairs) > size * 3 // 4:
        size *= 2

    def slot(pair: tuple[K, V]) -> int:
        code = 0 if pair[0] is None else hash_of(pair[0])
        # Java spreads the high bits into the low ones, which alone choose the slot.
        return (code ^ code >> 16) & (size - 1)

    # The sort is stable, so that pairs of one slot keep the order in which they were put in.
    return sorted(pairs, key=slot)


def java_text_hash(text: object) -> int:
    """`String.hashCode`."""
    code = 0
    # Java hashes UTF-16 units, not code points: a character beyond U+FFFF counts as two.
    units = str(text).encode("utf-16-le", "surrogatepass")
    for i in range(0, len(units), 2):
        code = (code * 31 + units[i] + (units[i + 1] << 8)) & _BITS
    return code


@lru_cache(maxsize=4096)
def flink_text_hash(text: str) -> int:
    """The hash of a STRING in Flink: Murmur 3 over its UTF-8 bytes, four at a time and the rest one
    by one."""
    data = text.encode("utf-8", "surrogatepass")
    # 42 is the seed; `whole` is the length without the last incomplete word.
    code, whole = 42, len(data) & ~3
    for i in range(0, whole, 4):
        code = _mixed(code, int.from_bytes(data[i : i + 4], "little"))
    for byte in data[whole:]:
        # Java's bytes are signed: 0xFF is mixed in as -1, that is, as a word of ones.
        code = _mixed(code, byte if byte < 128 else byte - 256)
    code ^= len(data)
    code = (code ^ code >> 16) * 0x85EBCA6B & _BITS
    code = (code ^ code >> 13) * 0xC2B2AE35 & _BITS
    return code ^ code >> 16


def _mixed(code: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _BITS
    word = (word << 15 | word >> 17) * 0x1B873593 & _BITS
    code ^= word
    return ((code << 13 | code >> 19) & _BITS) * 5 + 0xE6546B64 & _BITS
