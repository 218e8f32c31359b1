"""CAST and TRY_CAST. The target is the call's result type; `resolve_cast` gives it for the types in
the text."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import PlanError
from parser.types import BYTES, MAX_LENGTH, DataType, Root, TimeAttribute
from udf.arrays.arrays import column_of, errors_of, in_two_ways, null_where, quoted, valid, wrap
from udf.casts.coercion import can_cast
from udf.casts.nested import NESTED, convert_nested
from udf.casts.parsing import (
    DAY_NS,
    parse_boolean,
    parse_date,
    parse_decimal,
    parse_double,
    parse_integer,
    parse_time,
    parse_timestamp,
)
from udf.casts.texts import instants, local, to_text
from udf.numbers.decimal_units import MOST, divided, doubles, fitted, units_of
from udf.numbers.decimals import decimal_rows, rescale, zero_of
from udf.registry import KernelContext, Total, Types, Values, function
from udf.signatures import Custom
from udf.time.intervals import Int64s, from_integers, integers, units_per_ms
from udf.vector import BoolArray, Errors, Vector

_INTERVALS = (Root.INTERVAL_DAY_TIME, Root.INTERVAL_YEAR_MONTH)


def resolve_cast(source: DataType, target: DataType, *, try_cast: bool = False) -> DataType:
    """The type of CAST(source AS target) (TRY_CAST is always nullable); PlanError where Flink has
    no such cast."""
    if not (can_cast(source, target) or source.root is target.root in _INTERVALS):
        hint = instead_of_cast(source, target)
        raise PlanError(f"cannot cast {source.plain} to {target.plain}", hint=hint)
    return target.as_attribute(TimeAttribute.NONE).with_nullable(try_cast or source.nullable)


def instead_of_cast(source: DataType, target: DataType) -> str | None:
    """Returns a hint with what to write where there is no cast, {} standing for the value; None
    where nothing says the same."""
    if source.is_numeric and target.is_timestamp:
        precision = "0 for seconds, 3 for ms"
        if target.root is Root.TIMESTAMP_LTZ:
            return f"write TO_TIMESTAMP_LTZ({{}}, 3), whose second argument is {precision}"
        return "write TO_TIMESTAMP(FROM_UNIXTIME({})) for a number of seconds"
    if source.is_numeric and target.root is Root.DATE:
        return "write TO_DATE(FROM_UNIXTIME({})) for a number of seconds"
    if not target.is_numeric:
        return None
    begin = _BEGINS.get(source.root)
    unit = "DAY" if source.root is Root.DATE else "SECOND"
    return begin and f"write TIMESTAMPDIFF({unit}, {begin}, {{}}) for the number since 1970"


_BEGINS = {
    Root.DATE: "DATE '1970-01-01'",
    Root.TIMESTAMP: "TIMESTAMP '1970-01-01 00:00:00'",
    Root.TIMESTAMP_LTZ: "TO_TIMESTAMP_LTZ(0, 3)",
}


def _bound_by_planner(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 1 else None


def _no_rule(types: Types, literals: object) -> DataType:
    raise PlanError("a target type expected", hint="the planner resolves casts with resolve_cast")


_SIGNATURE = Custom(_bound_by_planner, _no_rule, "one value")


@function("CAST", signature=_SIGNATURE, total=Total.BY_CAST, strict=True)
def cast(ctx: KernelContext, value: Values) -> Vector:
    """CAST(value AS type): the value converted to another type. Error: a text that is no value of
    the type. Integers wrap around, floating point numbers saturate, decimals that do not fit are
    NULL.

    >>> CAST('42' AS INT)
    42
    """
    values = pa.repeat(value, ctx.num_rows) if isinstance(value, pa.Scalar) else value
    return convert(values, ctx.arg_types[0], ctx.result_type, ctx.zone)


@function("TRY_CAST", signature=_SIGNATURE)
def try_cast(ctx: KernelContext, value: Values) -> Vector:
    """TRY_CAST(value AS type): CAST with NULL for what cannot be cast.

    >>> TRY_CAST('abc' AS INT)
    NULL
    """
    result = cast(ctx, value)
    return Vector(
        result.values if result.errors is None else null_where(result.errors.mask, result.values)
    )


def convert(values: pa.Array, source: DataType, target: DataType, zone: str = "UTC") -> Vector:
    """`values` of type `source` as `target`."""
    if source.root is Root.NULL:
        return Vector(pa.nulls(len(values), target.arrow))
    if source.same_as(target):
        return Vector(values)
    if target.is_string:
        return Vector(_to_string(values, source, target, zone))
    if source.is_string:
        return _parse(values, target, zone)
    if target.is_numeric:
        # Only DECIMAL has no form for NaN and the infinities; integers saturate instead.
        errors = _no_numbers(values) if target.root is Root.DECIMAL else None
        return Vector(_to_number(values, source, target), errors)
    if target.root is Root.BOOLEAN:
        return Vector(pc.not_equal(values, zero_of(values.type)))
    if target.is_binary:
        return Vector(_to_binary(values, source, target))
    if target.root in NESTED:
        return convert_nested(values, source, target, lambda v, s, t: convert(v, s, t, zone))
    if target.root in _INTERVALS:
        return Vector(values.cast(target.arrow))
    return _to_time(values, source, target, zone)


def _to_string(values: pa.Array, source: DataType, target: DataType, zone: str) -> pa.Array:
    text = to_text(values, source, zone)
    # Cutting is needed only where the source could be longer than the target.
    if target.length < MAX_LENGTH and not (source.is_string and source.length <= target.length):
        text = pc.utf8_slice_codeunits(text, 0, target.length)
    if target.root is Root.CHAR and not (
        # A CHAR of this length is padded already.
        source.root is Root.CHAR and source.length == target.length
    ):
        text = pc.utf8_rpad(text, target.length, " ")
    return text


def _to_binary(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Cut to the target's length; BINARY is filled up with zeros."""
    if source.length <= target.length and target.root is Root.VARBINARY:
        return values
    size, fill = target.length, target.root is Root.BINARY
    cut = [
        None if v is None else v[:size].ljust(size, b"\0") if fill else v[:size]
        # Bytes are cut or padded by length, not by character.
        for v in values.to_pylist()
    ]
    return pa.array(cut, pa.binary())


def _to_number(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    if source.root is Root.BOOLEAN:
        values, source = values.cast(pa.int8()), DataType(Root.TINYINT)
    if target.root is Root.DECIMAL:
        if source.root in (Root.FLOAT, Root.DOUBLE):
            return _decimals_of(values.cast(pa.float64()), target)
        return rescale(values, target)
    if source.root is Root.DECIMAL:
        return _from_decimals(values, target)
    if target.is_integer and not source.is_integer:
        return _saturated(values, target)
    return values.cast(target.arrow, safe=False)


def _no_numbers(values: pa.Array) -> Errors | None:
    """NaN and the infinities are no DECIMAL."""
    if not pa.types.is_floating(values.type):
        return None
    outside = pc.invert(pc.is_finite(values)).fill_null(False)
    return Errors.where(outside.to_numpy(zero_copy_only=False), "NaN and Infinity are no DECIMAL")


def _decimals_of(values: pa.Array, target: DataType) -> pa.Array:
    """Doubles as the decimals that their texts are, rounded half up: the double nearest to a half
    tells which side."""
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    size = np.abs(numbers)
    # Beyond this size a double has too few bits left for the fraction to be compared exactly.
    small = size < 2.0**40 / 10.0 ** min(target.scale, 40)
    if target.scale > 15 or not small.any():
        # The exact way is through the shortest text of the double, one value at a time.
        return decimal_rows(len(values), lambda v: Decimal(repr(v)), target, values)
    if not small.all():
        # The fast way for those that allow it, the exact one for the rest, merged in order.
        def exact(rest: pa.Array) -> pa.Array:
            return decimal_rows(len(rest), lambda v: Decimal(repr(v)), target, rest)

        return in_two_ways(values, small, lambda v: _decimals_of(v, target), exact)
    # Below 2**40 units a double is precise enough to round by: cut to whole units, then compare
    # with the double nearest to the half.
    floor = np.floor(size * 10.0**target.scale)
    units = (floor + (size >= (floor * 10 + 5) / 10.0 ** (target.scale + 1))).astype(np.int64)
    return fitted(np.where(numbers < 0, -units, units), valid(values, len(values)), target)


def _from_decimals(values: pa.Array, target: DataType) -> pa.Array:
    present = valid(values, len(values))
    units = units_of(values) if target.is_integer else None
    # Units of 64 bits: an integer division replaces Python's Decimal per row.
    if units is not None and values.type.scale <= MOST:
        whole = divided(units, values.type.scale, ROUND_DOWN)
        return pa.array(whole.astype(target.arrow.to_pandas_dtype()), mask=~present)
    exact = None if target.is_integer else doubles(values)
    if exact is not None:
        return column_of(exact, present, pa.float64()).cast(target.arrow, safe=False)
    numbers = [None if v is None else _from_decimal(v, target) for v in values.to_pylist()]
    return pa.array(numbers, target.arrow)


def _from_decimal(value: Decimal, target: DataType) -> int | float:
    # Java's narrowing keeps the low bits, as `wrap` does, and does not saturate.
    return wrap(int(value), target.arrow.bit_width) if target.is_integer else float(value)


def _saturated(values: pa.Array, target: DataType) -> pa.Array:
    """Casts as Java does: NaN is 0, what is too large is the largest INT or BIGINT; smaller types
    take the low bits of an INT."""
    numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    # TINYINT and SMALLINT go through INT, as in Java, and only then lose their high bits.
    wide = 63 if target.root is Root.BIGINT else 31
    present = valid(values, len(values))
    if target.root is Root.INT and (np.abs(numbers) < 2.0**31).all():
        return column_of(numbers.astype(np.int32), present, pa.int32())
    # NumPy's cast of what does not fit is undefined: cast what fits, and put the limits in after.
    whole = np.nan_to_num(np.trunc(numbers), nan=0.0)
    inside = np.where(np.abs(whole) < 2.0**wide, whole, 0.0).astype(np.int64)
    # 2**63 - 1 has no double, so the limits are put in as integers.
    limit = np.where(whole > 0, 2**wide - 1, -(2**wide))
    # Strictly below 2**wide: -2**63 itself comes from `limit` with the same value.
    result = np.where(np.abs(whole) < 2.0**wide, inside, limit)
    return pa.array(result.astype(target.arrow.to_pandas_dtype()), mask=~present)


def _to_time(values: pa.Array, source: DataType, target: DataType, zone: str) -> Vector:
    """A point in time as another; what is finer than the target's precision is cut off. Error: one
    that 64 bits of nanoseconds do not hold."""
    # The wall clock of the session's zone, which is what DATE, TIME and TIMESTAMP hold.
    if source.root is Root.TIMESTAMP_LTZ and target.root is not Root.TIMESTAMP_LTZ:
        values = local(values, zone)
    present = valid(values, len(values))
    numbers = integers(values, len(values))
    # A finer unit may overflow 64 bits, which float arithmetic detects; a coarser one cannot.
    given, wanted = _ns_per_unit(source), _ns_per_unit(target)
    far = (
        np.abs(numbers * float(given // wanted)) >= 2.0**63
        if given >= wanted
        else np.zeros(len(values), np.bool_)
    )
    # Where `far`, the product would wrap around: multiply zero there, and report the row.
    numbers = (
        np.where(far, 0, numbers) * (given // wanted)
        if given >= wanted
        else numbers // (wanted // given)
    )
    # The time of day; floor modulo, so that times before 1970 come out positive.
    if target.root is Root.TIME:
        numbers = numbers % (DAY_NS // wanted)
    # An instant needs no zone any more; a wall clock time is read in the session's.
    placed = _placed(
        numbers, present & ~far, target, zone if source.root is not Root.TIMESTAMP_LTZ else "UTC"
    )
    return Vector(
        placed,
        Errors.where(
            far & present, f"the time is beyond those that {target.plain} holds: from 1677 to 2262"
        ),
    )


def _ns_per_unit(t: DataType) -> int:
    return DAY_NS if t.root is Root.DATE else 1_000_000 // units_per_ms(t.arrow)


def _placed(numbers: Int64s, present: BoolArray, target: DataType, zone: str) -> pa.Array:
    """Wall clock times in the target's unit as values of it: cut to its precision, TIMESTAMP_LTZ
    read in `zone`."""
    if target.root is not Root.DATE:
        # The smallest step of the precision, in units of the column: 1000 for TIMESTAMP(0) in
        # milliseconds.
        step = 10 ** (9 - target.precision) // _ns_per_unit(target)
        # Floor division: before 1970 the cut goes to the past, not towards 1970.
        numbers = numbers // step * step if step > 1 else numbers
    if target.root is not Root.TIMESTAMP_LTZ or zone == "UTC":
        return from_integers(numbers, present, target.arrow)
    naive = from_integers(numbers, present, pa.timestamp(target.arrow.unit))
    return instants(naive, zone)


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


def _parse(values: pa.Array, target: DataType, zone: str) -> Vector:
    if target.is_binary:
        return Vector(_to_binary(values.cast(pa.binary()), BYTES, target))
    plain = _parse_plain(values, target)
    if plain is not None:
        return Vector(plain)
    # Python parses each distinct text once.
    encoded = values.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    parsed = list(map(_parser(target), texts))
    # Reasons by code of the dictionary, spread over the rows below.
    reasons = {
        i: f"cannot cast {quoted([texts[i]])} to {target.plain}"
        for i, p in enumerate(parsed)
        if p is None
    }
    for i, value in enumerate(parsed):
        if _beyond(value, target):
            parsed[i] = None
            reasons[i] = (
                f"{quoted([texts[i]])} is beyond the times that {target.plain} holds: from 1677 to"
                " 2262"
            )
    # An index of NULL stays NULL through `take`, and is never in `reasons`.
    codes = encoded.indices
    result = _parsed_array(parsed, target, zone).take(codes)
    failures = (
        {row: reasons[code] for row, code in enumerate(codes.to_pylist()) if code in reasons}
        if reasons
        else {}
    )
    return Vector(result, errors_of(failures, len(codes)))


def _beyond(parsed: object, target: DataType) -> bool:
    """True if 64 bits do not hold the nanoseconds of a time."""
    return (
        target.is_timestamp
        and isinstance(parsed, int)
        # Python's integers do not overflow, so the test is exact here.
        and not -(2**63) <= parsed // _ns_per_unit(target) < 2**63
    )


def _parsed_array(parsed: list[object], target: DataType, zone: str) -> pa.Array:
    if target.root is Root.FLOAT:
        return pa.array(parsed, pa.float64()).cast(target.arrow, safe=False)
    if not (target.is_timestamp or target.root is Root.TIME):
        return pa.array(parsed, target.arrow)
    present = np.array([p is not None for p in parsed], np.bool_)
    units = [int(p) // _ns_per_unit(target) if isinstance(p, int) else 0 for p in parsed]
    return _placed(np.array(units, np.int64), present, target, zone)
