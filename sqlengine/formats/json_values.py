"""One JSON value to one value of a column, by the rules of Flink 2.3: a number keeps its digits as text, `"7"` is an
INT, 1.5 for an INT is cut, a DECIMAL is rounded half up and NULL when it does not fit."""

from __future__ import annotations

import binascii
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

import msgspec
import numpy as np

from parser.errors import UnsupportedError
from parser.types import DataType, Root
from sqlengine.formats import times

# From the text of a JSON value (bytes, without space around it) to what pyarrow takes for the column's Arrow type.
Convert = Callable[[bytes], object]

_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_INTEGER = re.compile(r"[+-]?[0-9]+")
# What Java's Double.parseDouble takes besides Infinity, NaN and hexadecimal numbers.
_FLOATING = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEX_FLOATING = re.compile(r"[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+[fFdD]?")
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_ROUND = Context(prec=100, rounding=ROUND_HALF_UP, Emax=MAX_EMAX, Emin=MIN_EMIN)
# Java's String.trim takes everything up to the space, Python's strip takes more.
TRIM = "".join(map(chr, range(33)))

_text = msgspec.json.Decoder(str)
_list = msgspec.json.Decoder(list[msgspec.Raw])
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Unreadable(Exception):
    """A value is not one of the column's type; the text says which value and type."""


@dataclass(frozen=True)
class Rules:
    """What the format's options change: `standard` of timestamps, and whether bad values inside arrays, maps and rows
    are NULL."""

    standard: str = times.SQL
    lenient: bool = False


def converter(kind: DataType, rules: Rules) -> Convert:
    """The conversion for a column of `kind`. It raises Unreadable, also when `rules` are lenient (the caller then makes
    the column NULL), and never sees the JSON `null`."""
    root = kind.root
    if root in _BITS:
        return _integer(kind)
    if root in (Root.CHAR, Root.VARCHAR):
        return string
    if kind.is_binary:
        return _binary
    if kind.is_timestamp:
        return _timestamp(kind, rules.standard)
    if root in _MAKERS:
        return _MAKERS[root](kind, rules)
    raise UnsupportedError(f"a JSON value cannot be read as {kind}")


def quoted(raw: bytes, kind: DataType) -> Unreadable:
    """What is wrong, with the value cut to a readable length."""
    shown = bytes(raw[:60]).decode("utf-8", "replace") + ("…" if len(raw) > 60 else "")
    return Unreadable(f"{shown} is not {'an' if str(kind)[0] in 'AI' else 'a'} {kind}")


def string(raw: bytes) -> str:
    """Text as it is, numbers and booleans as they are written, arrays and objects as compact JSON."""
    if raw[0] == 0x22:
        return _text.decode(raw)
    if raw[0] in b"[{":
        return _compact(json.loads(raw, parse_int=int, parse_float=_Double))
    return str(raw, "ascii")


class _Double(float):
    """A number with a fraction or an exponent, written again as Java writes a double."""

    def __new__(cls, text: str) -> _Double:
        return super().__new__(cls, text)


def _compact(value: object) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_quote(k)}:{_compact(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_compact, value)) + "]"
        case _Double():
            return java_double(value) if math.isfinite(value) else f'"{java_double(value)}"'
        case str():
            return _quote(value)
    return json.dumps(value)


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


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


def _integer(kind: DataType) -> Convert:
    bits = _BITS[kind.root]
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    cuts = bits >= 32  # Flink cuts 1.5 for an INT but refuses it for a SMALLINT

    def convert(raw: bytes) -> int:
        if raw[0] in b"-0123456789":
            text = str(raw, "ascii")
            if not text.lstrip("-").isdigit():
                return cut(float(text), raw)
        elif raw[0] == 0x22:
            text = _text.decode(raw).strip(TRIM)
        else:
            raise quoted(raw, kind)
        if not _INTEGER.fullmatch(text) or len(text) > 4000 or not low <= int(text) <= high:
            raise quoted(raw, kind)
        return int(text)

    def cut(value: float, raw: bytes) -> int:
        if not cuts or not low <= value <= high:
            raise quoted(raw, kind)
        return min(max(int(value), low), high)

    return convert


def _boolean(kind: DataType, rules: Rules) -> Convert:
    def convert(raw: bytes) -> bool:
        """As Flink: everything that is not true is false."""
        if raw[0] == 0x22:
            return _text.decode(raw).strip(TRIM).lower() == "true"
        return raw == b"true"

    return convert


def _floating(kind: DataType, rules: Rules) -> Convert:
    def convert(raw: bytes) -> float:
        if raw[0] in b"-0123456789":
            return float(raw)
        if raw[0] != 0x22:
            raise quoted(raw, kind)
        value = java_float(_text.decode(raw))
        if value is None:
            raise quoted(raw, kind)
        return value

    return convert


def java_float(text: str) -> float | None:
    """What Java's Double.parseDouble makes of `text`; None where it refuses."""
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


def _decimal(kind: DataType, rules: Rules) -> Convert:
    def convert(raw: bytes) -> Decimal | None:
        text = _text.decode(raw).strip(TRIM) if raw[0] == 0x22 else str(raw, "ascii")
        if not is_decimal(text):
            raise quoted(raw, kind)
        return to_decimal(text, kind)

    return convert


def is_decimal(text: str) -> bool:
    """Whether Java's BigDecimal reads the text."""
    return _DECIMAL.fullmatch(text) is not None


def to_decimal(text: str, kind: DataType) -> Decimal | None:
    """The number rounded half up; None when it has more digits than `kind`, as in Flink. `text` is a number's."""
    value = Decimal(text)
    if value and value.adjusted() >= kind.precision - kind.scale:
        return None
    try:
        rounded = value.quantize(Decimal(1).scaleb(-kind.scale), context=_ROUND)
    except InvalidOperation:
        return None
    return rounded if rounded.adjusted() < kind.precision - kind.scale or not rounded else None


def _binary(raw: bytes) -> bytes:
    if raw[0] != 0x22:
        raise Unreadable("only text in Base64 is BYTES")
    value = base64(_text.decode(raw))
    if value is None:
        raise Unreadable(f"{bytes(raw[:60]).decode('utf-8', 'replace')} is not Base64")
    return value


def base64(text: str) -> bytes | None:
    """Base64 with padding, space ignored; None where `text` is none."""
    try:
        return binascii.a2b_base64("".join(text.split()).encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        return None


def _timestamp(kind: DataType, standard: str) -> Convert:
    def convert(raw: bytes) -> int:
        value = None
        if raw[0] == 0x22:
            value = times.parse_timestamp(_text.decode(raw), kind.root, standard, kind.precision)
        if value is None:
            raise quoted(raw, kind)
        return value

    return convert


def _date(kind: DataType, rules: Rules) -> Convert:
    def convert(raw: bytes) -> int:
        value = times.parse_date(_text.decode(raw)) if raw[0] == 0x22 else None
        if value is None or not -(2**31) <= value < 2**31:
            raise quoted(raw, kind)
        return value

    return convert


def _time(kind: DataType, rules: Rules) -> Convert:
    unit = times.NANOS["ms" if kind.precision <= 3 else kind.arrow.unit]

    def convert(raw: bytes) -> int:
        value = times.parse_time(_text.decode(raw)) if raw[0] == 0x22 else None
        if value is None:
            raise quoted(raw, kind)
        return value // unit

    return convert


def nullable(kind: DataType, rules: Rules) -> Convert:
    """As `converter`, with NULL for `null` and, where rules are lenient, for what cannot be read."""
    convert = converter(kind, rules)

    def inner(raw: bytes) -> object:
        if raw == b"null":
            return None
        try:
            return convert(raw)
        except Unreadable:
            if rules.lenient:
                return None
            raise

    return inner


def _array(kind: DataType, rules: Rules) -> Convert:
    element = nullable(kind.children[0], rules)

    def convert(raw: bytes) -> list[object]:
        if raw[0] != 0x5B:
            raise quoted(raw, kind)
        return [element(bytes(item)) for item in _list.decode(raw)]

    return convert


def _map(kind: DataType, rules: Rules) -> Convert:
    key, element = kind.children[0], kind.children[-1] if kind.root is Root.MAP else None
    if not key.is_string:
        raise UnsupportedError(f"JSON cannot hold {kind}", detail="the keys of a JSON object are strings")
    value = nullable(element if element is not None else DataType(Root.INT), rules)

    def convert(raw: bytes) -> list[tuple[str, object]]:
        if raw[0] != 0x7B:
            raise quoted(raw, kind)
        return [(name, value(bytes(item))) for name, item in _object.decode(raw).items()]

    return convert


def _row(kind: DataType, rules: Rules) -> Convert:
    fields = [(n, nullable(t, rules)) for n, t in zip(kind.names, kind.children, strict=True)]

    def convert(raw: bytes) -> dict[str, object]:
        if raw[0] != 0x7B:
            raise quoted(raw, kind)
        held = _object.decode(raw)
        return {name: field(bytes(held[name])) if name in held else None for name, field in fields}

    return convert


_MAKERS: dict[Root, Callable[[DataType, Rules], Convert]] = {
    Root.BOOLEAN: _boolean,
    Root.FLOAT: _floating,
    Root.DOUBLE: _floating,
    Root.DECIMAL: _decimal,
    Root.DATE: _date,
    Root.TIME: _time,
    Root.ARRAY: _array,
    Root.MAP: _map,
    Root.MULTISET: _map,
    Root.ROW: _row,
}
