"""PRINTF: Java's format strings."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from itertools import repeat

import pyarrow as pa

from parser.limits import present
from parser.types import STRING, DataType, Root
from udf.arrays.arrays import RowError, errors_of, rows_of
from udf.casts.texts import float_text, to_text
from udf.registry import KernelContext, Types, Values, function
from udf.signatures import Custom, always_nullable, text_or_null
from udf.vector import Vector

_SPECIFIER = re.compile(r"%(?:([0-9]+)\$)?([-#+ 0,(<]*)([0-9]+)?(?:\.([0-9]+))?([a-zA-Z%])")
_PRECISE = Context(prec=400, rounding=ROUND_HALF_UP)
# Widths beyond this are a mistake or an attack.
_WIDEST = 65536
# The types whose values %c takes.
_CODE_POINTS = (Root.TINYINT, Root.SMALLINT, Root.INT)


class _Illegal(Exception):
    """The format and its arguments do not fit."""


@lru_cache(maxsize=1024)
def _parts(pattern: str) -> tuple[str | tuple[str, ...], ...]:
    """Plain texts and (index, flags, width, precision, conversion)."""
    parts: list[str | tuple[str, ...]] = []
    at = 0
    for match in _SPECIFIER.finditer(pattern):
        parts.append(pattern[at : match.start()])
        parts.append(tuple(g or "" for g in match.groups()))
        at = match.end()
    parts.append(pattern[at:])
    if any(isinstance(p, str) and "%" in p for p in parts):
        raise _Illegal(pattern)
    return tuple(parts)


def printf(pattern: str, arguments: Sequence[object], types: Sequence[DataType]) -> str | None:
    """The text, or None where Java would refuse the format. RowError for one that is too long."""
    try:
        return "".join(_written(_parts(pattern), arguments, types))
    except _Illegal:
        return None


def _written(
    parts: Sequence[str | tuple[str, ...]], arguments: Sequence[object], types: Sequence[DataType]
) -> list[str]:
    written: list[str] = []
    size, ordinary, last = 0, 0, -1
    for part in parts:
        size += len(written[-1]) if written else 0
        if size > present().value_size:
            raise RowError(f"PRINTF: the value has more than {size:,} characters ('value-size')")
        if isinstance(part, str):
            written.append(part)
            continue
        index, flags, width, precision, conversion = part
        if conversion in "%n":
            written.append(_padded("%" if conversion == "%" else "\n", flags, width))
            continue
        if "<" in flags:
            at = last
        elif index:
            at = int(index) - 1
        else:
            at, ordinary = ordinary, ordinary + 1
        if not 0 <= at < len(arguments):
            raise _Illegal(conversion)
        last = at
        places = int(precision) if precision else None
        written.append(_one(arguments[at], types[at], conversion, flags, width, places))
    return written


def _one(
    value: object, kind: DataType, conversion: str, flags: str, width: str, precision: int | None
) -> str:
    """Formats one value by one specifier, as java.util.Formatter does. Raises _Illegal."""
    lower = conversion.lower()
    _check_specifier(conversion, flags, precision)
    if lower in "sb":
        text = _general(value, kind, lower)
        text = _padded(text[:precision] if precision is not None else text, flags, width)
    elif value is None:
        text = _padded("null"[:precision], flags.replace("0", ""), width)
    else:
        text = _typed(value, kind, lower, flags, width, precision)
    return text.upper() if conversion != lower else text


def _check_specifier(conversion: str, flags: str, precision: int | None) -> None:
    """Raises _Illegal for a specifier that java.util.Formatter refuses."""
    if precision is not None and precision > _WIDEST:
        raise _Illegal("precision")
    has_upper_case_form = conversion.lower() in "sxegbch"
    if conversion.isupper() and not has_upper_case_form:
        raise _Illegal(conversion)
    if {"-", "0"} <= set(flags) or {"+", " "} <= set(flags):
        raise _Illegal(conversion)


def _typed(
    value: object, kind: DataType, conversion: str, flags: str, width: str, precision: int | None
) -> str:
    """Formats a value that is not NULL by a conversion that asks for its type."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if conversion in "dxo" and precision is None and is_integer:
        assert isinstance(value, int)
        return _signed(*_whole(value, kind, conversion, flags), flags, width)
    if conversion in "feg" and isinstance(value, float):
        return _fraction(value, conversion, flags, width, 6 if precision is None else precision)
    if conversion == "c" and kind.root in _CODE_POINTS and isinstance(value, int):
        return _padded(_character(value), flags, width)
    raise _Illegal(conversion)


def _character(code: int) -> str:
    if not 0 <= code < 0x110000:
        raise _Illegal("character")
    return chr(code)


def _general(value: object, kind: DataType, conversion: str) -> str:
    if conversion == "b":
        return (
            str(value).lower() if isinstance(value, bool) else "false" if value is None else "true"
        )
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return float_text(value, kind.root is Root.FLOAT)
        case Decimal():
            return f"{value:f}"
    return str(value)


def _whole(value: int, kind: DataType, conversion: str, flags: str) -> tuple[bool, str]:
    """Returns whether the number is negative, and its digits."""
    if conversion == "d":
        return value < 0, f"{abs(value):,}" if "," in flags else str(abs(value))
    unsigned = value % (1 << kind.arrow.bit_width)
    prefix = ("0x" if conversion == "x" else "0") if "#" in flags else ""
    return False, prefix + format(unsigned, conversion)


def _fraction(value: float, conversion: str, flags: str, width: str, precision: int) -> str:
    if not math.isfinite(value):
        if value != value:
            return _padded("NaN", flags.replace("0", ""), width)
        return _signed(value < 0, "Infinity", flags.replace("0", ""), width)
    exact = Decimal(repr(value))
    negative, exact = bool(exact.is_signed()), abs(exact)
    if conversion == "g":
        conversion, precision = _chosen(exact, precision)
    digits = (
        _scientific(exact, precision)
        if conversion == "e"
        else _fixed(exact, precision, "," in flags)
    )
    return _signed(negative, digits + ("." if "#" in flags and not precision else ""), flags, width)


def _chosen(value: Decimal, precision: int) -> tuple[str, int]:
    """Java's %g: so many significant digits, without an exponent from 0.0001 up to ten to their
    number."""
    precision = precision or 1
    rounded = value if not value else Context(prec=precision, rounding=ROUND_HALF_UP).plus(value)
    if not rounded:
        return "f", precision - 1
    if Decimal("0.0001") <= rounded < Decimal(10) ** precision:
        return "f", max(precision - rounded.adjusted() - 1, 0)
    return "e", precision - 1


def _fixed(value: Decimal, precision: int, grouped: bool) -> str:
    rounded = value.quantize(Decimal((0, (1,), -precision)), context=_PRECISE)
    return f"{rounded:,f}" if grouped else f"{rounded:f}"


def _scientific(value: Decimal, precision: int) -> str:
    if not value:
        return f"{_fixed(value, precision, False)}e+00"
    rounded = Context(prec=precision + 1, rounding=ROUND_HALF_UP).plus(value)
    exponent = rounded.adjusted()
    digits = _fixed(rounded.scaleb(-exponent), precision, False)
    return f"{digits}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _signed(negative: bool, digits: str, flags: str, width: str) -> str:
    opening = (
        "("
        if negative and "(" in flags
        else "-"
        if negative
        else "+"
        if "+" in flags
        else " "
        if " " in flags
        else ""
    )
    closing = ")" if opening == "(" else ""
    if "0" in flags:
        if not width:
            raise _Illegal("no width")
        digits = digits.zfill(min(int(width), _WIDEST) - len(opening) - len(closing))
    return _padded(opening + digits + closing, flags.replace("0", ""), width)


def _padded(text: str, flags: str, width: str) -> str:
    if not width:
        if "-" in flags:
            raise _Illegal("no width")
        return text
    if int(width) > _WIDEST:
        raise _Illegal("width")
    return text.ljust(int(width)) if "-" in flags else text.rjust(int(width))


def _types(types: Types) -> tuple[DataType, ...] | None:
    return (text_or_null.cast(types[0]), *types[1:]) if types else None


def _internal(value: Values, kind: DataType, num_rows: int) -> Sequence[object]:
    """Values as Flink has them inside: dates as days, times of day as milliseconds."""
    column = pa.repeat(value, num_rows) if isinstance(value, pa.Scalar) else value
    if kind.root in (Root.DATE, Root.TIME):
        units = column.cast(pa.int32()) if column.type.bit_width == 32 else column.cast(pa.int64())
        numbers: Sequence[object] = units.to_pylist()
        return numbers
    if kind.is_numeric or kind.is_string or kind.root is Root.BOOLEAN or kind.root is Root.NULL:
        return list(column.to_pylist())
    texts: list[str | None] = to_text(column, kind, "UTC").to_pylist()
    return [_java_time(t) if t is not None else None for t in texts] if kind.is_timestamp else texts


def _java_time(text: str) -> str:
    """A timestamp as Java's LocalDateTime writes it: seconds and fractions only where there are
    some."""
    whole, _, fraction = text.replace(" ", "T").partition(".")
    fraction = fraction.ljust(9, "0")
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{whole}.{fraction}" if fraction else whole.removesuffix(":00")


@function("PRINTF", signature=Custom(_types, always_nullable(STRING), "a format string and values"))
def printf_kernel(ctx: KernelContext, pattern: Values, *arguments: Values) -> Vector:
    """PRINTF(format, value, …): the values written by Java's format string: '%s' any value, '%d' an
    integer, '%.2f' a number with a point, '%x' hexadecimal, '%05d' with zeros, '%-5s' to the
    left, '%2$s' the second value. NULL for an invalid format, or a value that does not fit it; a
    NULL value is written as null.

    >>> PRINTF('%s-%05d', 'a', 42)
    'a-00042'
    """
    types = ctx.arg_types[1:]
    columns = [_internal(a, t, ctx.num_rows) for a, t in zip(arguments, types, strict=True)]
    rows = zip(
        range(ctx.num_rows),
        rows_of(pattern),
        zip(*columns, strict=True) if columns else repeat(()),
        strict=False,
    )
    texts: list[str | None] = []
    failures: dict[int, str] = {}
    for number, p, row in rows:
        try:
            texts.append(None if p is None else printf(str(p), row, types))
        except RowError as error:
            failures[number] = str(error)
            texts.append(None)
    return Vector(pa.array(texts, pa.string()), errors_of(failures, ctx.num_rows))
