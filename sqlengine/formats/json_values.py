"""Conversion of one JSON value to one value of a column, by the rules of Flink 2.3.

A number keeps its digits as text, `"7"` is an INT, 1.5 for an INT is cut, a DECIMAL is rounded half
up and NULL when it does not fit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

import msgspec

from parser.errors import UnsupportedError
from parser.types import DataType, Root
from sqlengine.formats import times
from sqlengine.formats.java import (
    EXACT,
    TRIM,
    base64,
    is_decimal,
    java_double,
    java_float,
    to_decimal,
)
from udf.java.hash_maps import flink_text_hash, in_table_order

# From the text of a JSON value (bytes, without space around it) to what pyarrow takes for the
# column's Arrow type.
Convert = Callable[[bytes], object]

_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_INTEGER = re.compile(r"[+-]?[0-9]+")

_text = msgspec.json.Decoder(str)
_list = msgspec.json.Decoder(list[msgspec.Raw])
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Unreadable(Exception):
    """A value is not one of the column's type; the text says which value and type."""


@dataclass(frozen=True)
class Rules:
    """The reading rules that the format's options set.

    `standard` of timestamps; `lenient`: bad values inside arrays, maps and rows are NULL;
    `required`: rows must have all their fields; `rewritten`: a number for a STRING is written anew,
    as Flink does without its streaming parser (1.50 is then 1.5). `decimals`: the table has a
    DECIMAL, and then numbers that are written anew, or have been read that way, are no doubles (1e2
    is 1E+2 and not 100.0, -0.0 is 0.0)."""

    standard: str = times.SQL
    lenient: bool = False
    required: bool = False
    rewritten: bool = False
    decimals: bool = False

    @property
    def unsigned_zero(self) -> bool:
        """True if -0.0 is read as 0.0."""
        return self.rewritten and self.decimals


def holds_decimal(kind: DataType) -> bool:
    """True if the type is a DECIMAL or contains one."""
    return kind.root is Root.DECIMAL or any(map(holds_decimal, kind.children))


def converter(kind: DataType, rules: Rules) -> Convert:
    """The conversion for a column of `kind`. It raises Unreadable, also when `rules` are lenient
    (the caller then makes the column NULL), and never sees the JSON `null`."""
    root = kind.root
    if root in _BITS:
        return _integer(kind)
    if root in (Root.CHAR, Root.VARCHAR):
        return _string(rules)
    if kind.is_binary:
        return _binary
    if kind.is_timestamp:
        return _timestamp(kind, rules.standard)
    if root in _MAKERS:
        return _MAKERS[root](kind, rules)
    raise UnsupportedError(f"a JSON value cannot be read as {kind}")


def quoted(raw: bytes, kind: DataType) -> Unreadable:
    """Returns the error for a value, which is cut to a readable length."""
    shown = bytes(raw[:60]).decode("utf-8", "replace") + ("…" if len(raw) > 60 else "")
    return Unreadable(f"{shown} is not {'an' if str(kind)[0] in 'AI' else 'a'} {kind}")


def _string(rules: Rules) -> Convert:
    """Text as it is, numbers and booleans as they are written, arrays and objects as compact
    JSON."""
    fraction: Callable[[str], object] = Decimal if rules.decimals else _Double

    def convert(raw: bytes) -> str:
        if raw[0] == 0x22:
            return _text.decode(raw)
        if raw[0] in b"[{":
            return _compact(json.loads(raw, parse_int=int, parse_float=fraction))
        if rules.rewritten and raw[0] in b"-0123456789":
            number = json.loads(raw, parse_int=int, parse_float=fraction)
            return java_double(number) if isinstance(number, float) else _compact(number)
        return str(raw, "ascii")

    return convert


class _Double(float):
    """A number with a fraction or an exponent, written again as Java writes a double."""

    def __new__(cls, text: str) -> Self:
        return super().__new__(cls, text)


def _compact(value: object) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_quote(k)}:{_compact(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_compact, value)) + "]"
        case _Double():
            return java_double(value) if math.isfinite(value) else f'"{java_double(value)}"'
        case Decimal():
            return str(EXACT.normalize(value))
        case str():
            return _quote(value)
    return json.dumps(value)


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


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
        """Reads a BOOLEAN as Flink does: any value but true is false."""
        if raw[0] == 0x22:
            return _text.decode(raw).strip(TRIM).lower() == "true"
        return raw == b"true"

    return convert


def _floating(kind: DataType, rules: Rules) -> Convert:
    def convert(raw: bytes) -> float:
        if raw[0] in b"-0123456789":
            return float(raw) + 0.0 if rules.unsigned_zero else float(raw)
        if raw[0] != 0x22:
            raise quoted(raw, kind)
        value = java_float(_text.decode(raw))
        if value is None:
            raise quoted(raw, kind)
        return value

    return convert


def _decimal(kind: DataType, rules: Rules) -> Convert:
    def convert(raw: bytes) -> Decimal | None:
        text = _text.decode(raw).strip(TRIM) if raw[0] == 0x22 else str(raw, "ascii")
        if not is_decimal(text):
            raise quoted(raw, kind)
        return to_decimal(text, kind)

    return convert


def _binary(raw: bytes) -> bytes:
    if raw[0] != 0x22:
        raise Unreadable("only text in Base64 is BYTES")
    value = base64(_text.decode(raw))
    if value is None:
        raise Unreadable(f"{bytes(raw[:60]).decode('utf-8', 'replace')} is not Base64")
    return value


def _timestamp(kind: DataType, standard: str) -> Convert:
    def convert(raw: bytes) -> int:
        text = _text.decode(raw) if raw[0] == 0x22 else ""
        value = times.parse_timestamp(text, kind.root, standard, kind.precision)
        if value is None:
            raise Unreadable(str(quoted(raw, kind)) + _advice(text, kind, standard))
        return value

    return convert


def _advice(text: str, kind: DataType, standard: str) -> str:
    """Returns what to do about a time that is written in another way."""
    if not times.looks_like_time(text):
        return ""
    if times.parse_timestamp(text, kind.root, times.ANY, kind.precision) is None:
        return ": it has no offset from UTC" if kind.root is Root.TIMESTAMP_LTZ else ""
    return f" of the standard {standard}: set 'json.timestamp-format.standard' = 'ANY'"


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
    """Returns the `converter` with NULL for `null` and, where rules are lenient, for what cannot be
    read."""
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
        raise UnsupportedError(
            f"JSON cannot hold {kind}", detail="the keys of a JSON object are strings"
        )
    value = nullable(element if element is not None else DataType(Root.INT), rules)

    def convert(raw: bytes) -> list[tuple[str, object]]:
        if raw[0] != 0x7B:
            raise quoted(raw, kind)
        pairs = [(name, value(bytes(item))) for name, item in _object.decode(raw).items()]
        return in_table_order(pairs, flink_text_hash)

    return convert


def _row(kind: DataType, rules: Rules) -> Convert:
    fields = [(n, nullable(t, rules)) for n, t in zip(kind.names, kind.children, strict=True)]

    def convert(raw: bytes) -> dict[str, object]:
        if raw[0] != 0x7B:
            raise quoted(raw, kind)
        raw_fields = _object.decode(raw)
        if (
            rules.required
            and (missing := next((n for n, _ in fields if n not in raw_fields), None)) is not None
        ):
            raise Unreadable(f"missing field '{missing}'")
        return {
            name: field(bytes(raw_fields[name])) if name in raw_fields else None
            for name, field in fields
        }

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
