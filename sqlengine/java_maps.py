"""The order in which Java's HashMap gives its entries: Flink's results show maps in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from parser.types import DataType, Root
from udf.hash_maps import in_table_order, java_text_hash

K = TypeVar("K")
V = TypeVar("V")


def _long_hash(value: object) -> int:
    assert isinstance(value, int)
    bits = value & 0xFFFFFFFFFFFFFFFF
    return (bits ^ bits >> 32) & 0xFFFFFFFF


def _int_hash(value: object) -> int:
    assert isinstance(value, int)
    return value & 0xFFFFFFFF


_HASHES: dict[Root, Callable[[object], int]] = {
    Root.CHAR: java_text_hash,
    Root.VARCHAR: java_text_hash,
    Root.TINYINT: _int_hash,
    Root.SMALLINT: _int_hash,
    Root.INT: _int_hash,
    Root.BIGINT: _long_hash,
    Root.BOOLEAN: lambda value: 1231 if value else 1237,
}


def in_java_order(pairs: Sequence[tuple[K, V]], key: DataType) -> list[tuple[K, V]]:
    """Pairs of a map by the slot of their key in Java's table; those of other key types stay as they are."""
    hash_of = _HASHES.get(key.root)
    return list(pairs) if hash_of is None else in_table_order(pairs, hash_of)
