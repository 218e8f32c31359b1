"""Casts of texts: plain ones by Arrow, the others one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root
from udf.arrays.arrays import errors_of, quoted
from udf.casts.parsing import (
    parse_boolean,
    parse_date,
    parse_decimal,
    parse_double,
    parse_integer,
    parse_time,
    parse_timestamp,
)
from udf.casts.to_time import ns_per_unit, placed
from udf.vector import Vector

_Parser = Callable[[str], object]


def _parser(target: DataType) -> _Parser:
    match target.root:
        case Root.BOOLEAN:
            return parse_boolean
        case Root.FLOAT | Root.DOUBLE:
            return parse_double
        case Root.DECIMAL:
            return lambda text: parse_decimal(text, target)
        case Root.DATE:
            return parse_date
        case Root.TIME:
            return parse_time
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return parse_timestamp
    bits = target.arrow.bit_width
    return lambda text: parse_integer(text, bits)


# Texts that Arrow reads as Flink does, and surely within the type's range.
_PLAIN = {
    Root.TINYINT: r"\A-?[0-9]{1,2}\z",
    Root.SMALLINT: r"\A-?[0-9]{1,4}\z",
    Root.INT: r"\A-?[0-9]{1,9}\z",
    Root.BIGINT: r"\A-?[0-9]{1,18}\z",
    Root.DOUBLE: r"\A-?[0-9]{1,15}(\.[0-9]{1,15})?\z",
    Root.DATE: r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z",
    Root.TIMESTAMP: r"\A[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?\z",
}


def _parse_plain(values: pa.Array, target: DataType) -> pa.Array | None:
    """The values if all texts are plain ones."""
    plain = _plain_decimal(target) if target.root is Root.DECIMAL else _PLAIN.get(target.root)
    # Other precisions are cut to fewer digits than the column's unit holds.
    if plain is None or (target.root is Root.TIMESTAMP and target.precision not in (3, 6, 9)):
        return None
    if not pc.all(pc.match_substring_regex(values, plain)).as_py():
        return None
    try:
        return values.cast(target.arrow)
    except pa.ArrowInvalid:  # a day that does not exist, more digits than the type has
        return None


def _plain_decimal(target: DataType) -> str | None:
    """Digits that fit without rounding."""
    whole = target.precision - target.scale
    if not 0 < whole <= 18 or not pa.types.is_decimal128(target.arrow):
        return None
    return rf"\A-?[0-9]{{1,{whole}}}" + (
        rf"(\.[0-9]{{1,{target.scale}}})?\z" if target.scale else r"\z"
    )


def parse(values: pa.Array, target: DataType, zone: str) -> Vector:
    """Texts as numbers, BOOLEAN or points in time. Error: a text that is no value of the type."""
    plain = _parse_plain(values, target)
    if plain is not None:
        return Vector(plain)
    # Python parses each distinct text once.
    encoded = values.dictionary_encode()
    parsed, reasons = _parsed(encoded.dictionary.to_pylist(), target)
    # An index of NULL stays NULL through `take`, and is never in `reasons`.
    codes = encoded.indices
    result = _parsed_array(parsed, target, zone).take(codes)
    failures = (
        {row: reasons[code] for row, code in enumerate(codes.to_pylist()) if code in reasons}
        if reasons
        else {}
    )
    return Vector(result, errors_of(failures, len(codes)))


def _parsed(texts: list[str], target: DataType) -> tuple[list[object], dict[int, str]]:
    """Returns the values of distinct texts, and by index why one has none."""
    parsed = list(map(_parser(target), texts))
    reasons = {
        i: f"cannot cast {quoted([texts[i]])} to {target.plain}"
        for i, value in enumerate(parsed)
        if value is None
    }
    for i, value in enumerate(parsed):
        if _beyond(value, target):
            parsed[i] = None
            reasons[i] = (
                f"{quoted([texts[i]])} is beyond the times that {target.plain} holds: from 1677 to"
                " 2262"
            )
    return parsed, reasons


def _beyond(parsed: object, target: DataType) -> bool:
    """True if 64 bits do not hold the nanoseconds of a time."""
    return (
        target.is_timestamp
        and isinstance(parsed, int)
        # Python's integers do not overflow, so the test is exact here.
        and not -(2**63) <= parsed // ns_per_unit(target) < 2**63
    )


def _parsed_array(parsed: list[object], target: DataType, zone: str) -> pa.Array:
    if target.root is Root.FLOAT:
        return pa.array(parsed, pa.float64()).cast(target.arrow, safe=False)
    if not (target.is_timestamp or target.root is Root.TIME):
        return pa.array(parsed, target.arrow)
    present = np.array([p is not None for p in parsed], np.bool_)
    units = [int(p) // ns_per_unit(target) if isinstance(p, int) else 0 for p in parsed]
    return placed(np.array(units, np.int64), present, target, zone)
