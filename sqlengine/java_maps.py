"""The order in which Java's HashMap gives its entries: Flink's results show maps in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from parser.types import DataType, Root

K = TypeVar("K")
V = TypeVar("V")


def _text_hash(text: object) -> int:
    """`String.hashCode`."""
    found = 0
    units = str(text).encode("utf-16-le", "surrogatepass")
    for i in range(0, len(units), 2):
        found = (found * 31 + units[i] + (units[i + 1] << 8)) & 0xFFFFFFFF
    return found


def _long_hash(value: object) -> int:
    assert isinstance(value, int)
    bits = value & 0xFFFFFFFFFFFFFFFF
    return (bits ^ bits >> 32) & 0xFFFFFFFF


def _int_hash(value: object) -> int:
    assert isinstance(value, int)
    return value & 0xFFFFFFFF


_HASHES: dict[Root, Callable[[object], int]] = {
    Root.CHAR: _text_hash,
    Root.VARCHAR: _text_hash,
    Root.TINYINT: _int_hash,
    Root.SMALLINT: _int_hash,
    Root.INT: _int_hash,
    Root.BIGINT: _long_hash,
    Root.BOOLEAN: lambda value: 1231 if value else 1237,
}


def in_java_order(pairs: Sequence[tuple[K, V]], key: DataType) -> list[tuple[K, V]]:
    """Pairs of a map by the slot of their key in Java's table; those of other key types stay as they are."""
    hash_of = _HASHES.get(key.root)
    if hash_of is None or len(pairs) < 2:
        return list(pairs)
    size = 16
    while len(pairs) > size * 3 // 4:
        size *= 2

    def slot(pair: tuple[K, V]) -> int:
        found = 0 if pair[0] is None else hash_of(pair[0])
        return (found ^ found >> 16) & (size - 1)

    return sorted(pairs, key=slot)
