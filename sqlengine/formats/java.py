"""Java's rules for numbers: how it prints a double, what it parses as one, how Flink rounds a
decimal."""

from __future__ import annotations

import binascii
import math
import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

import numpy as np

from parser.types import DataType

# What Java's Double.parseDouble takes besides Infinity, NaN and hexadecimal numbers.
_FLOATING = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEX_FLOATING = re.compile(r"[+-]?0[xX][0-9a-fA-F]*(?:\.[0-9a-fA-F]*)?[pP][+-]?[0-9]+[fFdD]?")
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
# Wide enough for every DECIMAL.
EXACT = Context(prec=100, rounding=ROUND_HALF_UP, Emax=MAX_EMAX, Emin=MIN_EMIN)

# Java's String.trim takes everything up to the space, Python's strip takes more.
TRIM = "".join(map(chr, range(33)))


def java_double(value: float) -> str:
    """A double as Java's Double.toString writes it: 1.0E10, 0.001, NaN."""
    return _java_number(value, repr(value))


def java_float32(value: np.float32) -> str:
    """A FLOAT as Java's Float.toString writes it."""
    return _java_number(float(value), np.format_float_scientific(value, unique=True))


def _java_number(value: float, shortest: str) -> str:
    if not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    minus = "-" if sign else ""
    if value == 0:
        return minus + "0.0"
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + exponent  # the value is 0.text * 10 ** point
    if -2 <= point <= 7:
        padded = "0" * max(1 - point, 0) + text.ljust(max(point, 0), "0")
        whole = max(point, 1)
        return f"{minus}{padded[:whole]}.{padded[whole:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def java_float(text: str) -> float | None:
    """Parses `text` as Java's Double.parseDouble does; None where it refuses."""
    text = text.strip(TRIM)
    if _FLOATING.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if text in _SPECIAL:
        return _SPECIAL[text]
    if _HEX_FLOATING.fullmatch(text):
        try:
            return float.fromhex(text.rstrip("fFdD"))
        except (ValueError, OverflowError):
            return None
    return None


def is_decimal(text: str) -> bool:
    """True if Java's BigDecimal parses the text."""
    return _DECIMAL.fullmatch(text) is not None


def to_decimal(text: str, kind: DataType) -> Decimal | None:
    """The number rounded half up; None when it has more digits than `kind`, as in Flink. `text` is
    a number's."""
    value = Decimal(text)
    if value and value.adjusted() >= kind.precision - kind.scale:
        return None
    try:
        rounded = value.quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)
    except InvalidOperation:
        return None
    return rounded if rounded.adjusted() < kind.precision - kind.scale or not rounded else None


def base64(text: str) -> bytes | None:
    """Base64 with padding, space ignored; None where `text` is none."""
    try:
        return binascii.a2b_base64("".join(text.split()).encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
