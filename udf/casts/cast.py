"""CAST and TRY_CAST. The target is the call's result type; `resolve_cast` gives it for the types in
the text."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import PlanError
from parser.types import BYTES, MAX_LENGTH, DataType, Root, TimeAttribute
from udf.arrays.arrays import null_where
from udf.casts.coercion import can_cast
from udf.casts.from_text import parse
from udf.casts.nested import NESTED, convert_nested
from udf.casts.texts import to_text
from udf.casts.to_number import no_numbers, to_number
from udf.casts.to_time import to_time
from udf.numbers.decimals import zero_of
from udf.registry import KernelContext, Total, Types, Values, function
from udf.signatures import Custom
from udf.vector import Vector

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
    if source.is_string and not target.is_binary:
        return parse(values, target, zone)
    if target.is_numeric:
        # Only DECIMAL has no form for NaN and the infinities; integers saturate instead.
        errors = no_numbers(values) if target.root is Root.DECIMAL else None
        return Vector(to_number(values, source, target), errors)
    if target.root is Root.BOOLEAN:
        return Vector(pc.not_equal(values, zero_of(values.type)))
    if target.is_binary:
        bytes_of = (values.cast(pa.binary()), BYTES) if source.is_string else (values, source)
        return Vector(_to_binary(*bytes_of, target))
    if target.root in NESTED:
        return convert_nested(values, source, target, lambda v, s, t: convert(v, s, t, zone))
    if target.root in _INTERVALS:
        return Vector(values.cast(target.arrow))
    return to_time(values, source, target, zone)


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
