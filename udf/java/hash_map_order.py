"""The order in which Java's HashMap gives its entries: Flink's results show maps in it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TypeVar

from parser.types import DataType, Root
from udf.java.hash_maps import in_table_order, java_text_hash

K = TypeVar("K")
V = TypeVar("V")


def _long_hash(value: object) -> int:
    assert isinstance(value, int)
    bits = value & 0xFFFFFFFFFFFFFFFF
    # Long.hashCode: the high half folded into the low one, which makes -1 hash to 0.
    return (bits ^ bits >> 32) & 0xFFFFFFFF


def _int_hash(value: object) -> int:
    assert isinstance(value, int)
    return value & 0xFFFFFFFF


def _double_hash(value: object) -> int:
    assert isinstance(value, float | str)  # NaN and the infinities are texts
    # Double.hashCode is that of its bits, so 0.0 and -0.0 stand in different slots.
    return _long_hash(int.from_bytes(struct.pack(">d", float(value))))


def _float_hash(value: object) -> int:
    assert isinstance(value, float | str)
    return int.from_bytes(struct.pack(">f", float(value)))


def _decimal_hash(value: object) -> int:
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    assert isinstance(exponent, int)
    # BigDecimal.hashCode: 31 * unscaledValue.hashCode() + scale, where BigInteger hashes its
    # 32-bit words from the highest on and the sign at last.
    code, unscaled = 0, int("".join(map(str, digits)))
    # A word at a time from the most significant; Python's int stands in for Java's overflow, which
    # the mask at the end restores.
    for word in range((unscaled.bit_length() + 31) // 32 - 1, -1, -1):
        code = code * 31 + (unscaled >> 32 * word & 0xFFFFFFFF)
    return 31 * (-code if sign else code) - exponent & 0xFFFFFFFF


def _date_hash(value: object) -> int:
    # LocalDate.hashCode; split from the right: a year before our era begins with a minus sign.
    year, month, day = map(int, str(value).rsplit("-", 2))
    return (year & 0xFFFFF800 ^ (year << 11) + (month << 6) + day) & 0xFFFFFFFF


def _time_hash(value: object) -> int:
    # The seconds are missing where they are zero: "10:15".
    hour, minute, second = (*str(value).split(":"), "0")[:3]
    # LocalTime.hashCode is that of the nanoseconds of the day, as a long.
    return _long_hash(
        (int(hour) * 60 + int(minute)) * 60_000_000_000 + int(Decimal(second) * 1_000_000_000)
    )


def _timestamp_hash(value: object) -> int:
    date, _, time = str(value).partition("T")
    # LocalDateTime.hashCode joins the two by exclusive or.
    return _date_hash(date) ^ _time_hash(time)


_HASHES: dict[Root, Callable[[object], int]] = {
    Root.CHAR: java_text_hash,
    Root.VARCHAR: java_text_hash,
    Root.TINYINT: _int_hash,
    Root.SMALLINT: _int_hash,
    Root.INT: _int_hash,
    Root.BIGINT: _long_hash,
    Root.FLOAT: _float_hash,
    Root.DOUBLE: _double_hash,
    Root.DECIMAL: _decimal_hash,
    Root.DATE: _date_hash,
    Root.TIME: _time_hash,
    Root.TIMESTAMP: _timestamp_hash,
    # The constants of Boolean.hashCode.
    Root.BOOLEAN: lambda value: 1231 if value else 1237,
}


def in_java_order(pairs: Sequence[tuple[K, V]], key: DataType) -> list[tuple[K, V]]:
    """Pairs of a map by the slot of their key in Java's table; those of other key types stay as
    they are."""
    hash_of = _HASHES.get(key.root)
    return list(pairs) if hash_of is None else in_table_order(pairs, hash_of)
