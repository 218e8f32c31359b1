"""CSV's fields to values, by the rules of Flink 2.3."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from parser.errors import UnsupportedError
from parser.types import DataType, Root
from sqlengine.formats import times
from sqlengine.formats.java import TRIM, base64, is_decimal, java_float, to_decimal
from sqlengine.formats.json_values import Unreadable

FromText = Callable[[str], object]

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_SHORT_TIME = re.compile(r"[0-9]{2}:[0-9]{2}")


@dataclass(frozen=True)
class Dialect:
    """The characters that separate fields, and how values are written.

    '' for `quote` and `escape` means none, `null` None that no text is NULL; `scientific`: a
    DECIMAL may have an exponent."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    null: str | None = None
    elements: str = ";"
    comments: bool = False
    lenient: bool = False
    scientific: bool = True


def columns_at_once(
    texts: list[list[str | None]], kinds: list[DataType]
) -> tuple[pa.Array, ...] | None:
    """Reads all columns by Arrow's casts, where those read what Flink reads; None when a value
    needs a closer look."""
    columns: list[pa.Array] = []
    for values, kind in zip(texts, kinds, strict=True):
        column = pa.array(values, pa.string())
        if kind.root in _BITS:
            try:
                column = column.cast(kind.arrow)
            except pa.ArrowInvalid:
                return None
        elif kind.is_timestamp:
            column, doubtful = times.parse_timestamps(column, kind, times.SQL)
            if doubtful.any():
                return None
        elif not kind.is_string:
            return None
        columns.append(column)
    return tuple(columns)


def from_text(kind: DataType, dialect: Dialect) -> FromText:
    """The conversion of one field; it raises Unreadable for a text that is not of `kind`."""
    root = kind.root
    if kind.is_string:
        return str
    if root in (Root.ARRAY, Root.ROW):
        return _nested(kind, dialect)
    parse = _parser(kind)
    if parse is None:
        raise UnsupportedError(f"CSV cannot hold {kind}")

    def convert(text: str) -> object:
        value = parse(text)
        if value is _BAD:
            raise Unreadable(f"'{text[:60]}' is not {'an' if str(kind)[0] in 'AI' else 'a'} {kind}")
        return value

    return convert


_BAD = object()


def _or_bad(value: object) -> object:
    return _BAD if value is None else value


def _parser(kind: DataType) -> FromText | None:
    """Gives _BAD for what is not of `kind`."""
    if kind.root in _BITS:
        return _integer(_BITS[kind.root])
    if kind.is_binary:
        return lambda text: _or_bad(base64(text))
    if kind.is_timestamp:
        return lambda text: _or_bad(
            times.parse_timestamp(text.strip(TRIM), kind.root, times.SQL, kind.precision)
        )
    match kind.root:
        case Root.BOOLEAN:
            return lambda text: text.strip(TRIM).lower() == "true"
        case Root.FLOAT | Root.DOUBLE:
            return lambda text: _or_bad(java_float(text))
        case Root.DECIMAL:
            return lambda text: to_decimal(text, kind) if is_decimal(text) else _BAD
        case Root.DATE:
            return lambda text: _or_bad(_date(text))
        case Root.TIME:
            return lambda text: _or_bad(_time(text, kind))
    return None


def _integer(bits: int) -> FromText:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def parse(text: str) -> object:
        trimmed = text.strip(TRIM)
        return int(trimmed) if _INTEGER.fullmatch(trimmed) and low <= int(trimmed) <= high else _BAD

    return parse


def _date(text: str) -> int | None:
    """Days; 2020-1-2 is one, and 30 February is 1 March, as java.sql.Date has it."""
    matched = _DATE.fullmatch(text)
    if not matched:
        return None
    year, month, day = map(int, matched.groups())
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    try:
        return (date(year, month, 1) - date(1970, 1, 1)).days + day - 1
    except OverflowError:
        return None


def _time(text: str, kind: DataType) -> int | None:
    """Units of the Arrow type; seconds may be missing, and a fraction beyond the precision is
    cut."""
    nanos = times.parse_time(text + ":00" if _SHORT_TIME.fullmatch(text) else text)
    if nanos is None or text.startswith("24"):
        return None
    step = 10 ** (9 - kind.precision)
    return int(nanos // step * step // times.NANOS[kind.arrow.unit])


def _nested(kind: DataType, dialect: Dialect) -> FromText:
    """ARRAY and ROW: elements behind each other, separated by `dialect.elements`."""
    children = [_element(child, dialect) for child in kind.children]

    def split(text: str) -> list[str]:
        return text.split(dialect.elements)

    def array(text: str) -> list[object]:
        return [children[0](item) for item in split(text)] if text.strip(TRIM) else []

    def row(text: str) -> dict[str, object] | None:
        """Reads a ROW: no field is NULL; items beyond the fields are left out."""
        if not text:
            return None
        items = split(text)
        if len(items) < len(children) and not dialect.lenient:
            raise Unreadable(f"'{text[:60]}' has {len(items)} fields, not {len(children)}")
        given = [*items, *[None] * len(children)]
        pairs = zip(kind.names, children, given, strict=False)
        return {name: None if item is None else child(item) for name, child, item in pairs}

    return array if kind.root is Root.ARRAY else row


def _element(kind: DataType, dialect: Dialect) -> FromText:
    convert = from_text(kind, dialect)

    def inner(text: str) -> object:
        if text == dialect.null:
            return None
        try:
            return convert(text)
        except Unreadable:
            if dialect.lenient:
                return None
            raise

    return inner
