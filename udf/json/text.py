"""JSON text to Python values and back, as Flink reads and writes it: numbers with a point keep
their digits, of equal keys the last one counts, what follows the first value is not looked at, keys
are written in order."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

Json: TypeAlias = "None | bool | int | Decimal | str | list[Json] | dict[str, Json]"


class NotJson(Exception):
    """The text is no JSON, and why."""


class BadPath(Exception):
    """The path is malformed, or does not fit the document."""


class NotFound(Exception):
    """No value at a definite path."""


def _refuse(name: str) -> object:
    raise NotJson(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)


def _strict(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotJson("a key occurs twice")
    return members


_STRICT = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_strict)


def read_json(text: str, *, unique: bool = False) -> Json:
    """The first value of the text. NotJson where there is none, or (`unique`) an object has a key
    twice."""
    decoder = _STRICT if unique else _DECODER
    stripped = text.lstrip(" \t\r\n")
    value: Json
    try:
        value, end = decoder.raw_decode(stripped)
    except (ValueError, InvalidOperation, RecursionError) as error:
        raise NotJson(f"not JSON: {error}") from None
    if isinstance(value, int | Decimal) and stripped[end : end + 1].strip(" \t\r\n"):
        raise NotJson(f"not JSON: {stripped[: end + 1]} is no number")
    return value


def number_text(value: int | Decimal) -> str:
    """Formats a number as Java's BigDecimal and BigInteger do."""
    return str(value) if value else str(abs(value))  # there is no negative zero


_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\"} | {i: f"\\u{i:04X}" for i in range(32)}
_ESCAPES |= {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}


def quoted_json(text: str) -> str:
    """A text as a JSON string; only what must be escaped is."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{text.translate(_ESCAPES)}"'


def write_json(
    value: Json, number: Callable[[int | Decimal], str] = number_text, order: str = "utf-16-be"
) -> str:
    """The value as text without blanks, numbers by `number`, keys in the order of their bytes in
    the encoding `order`."""
    kind = type(value)
    if kind is str:
        return quoted_json(value)  # type: ignore[arg-type]
    if value is None or kind is bool:
        return _CONSTANTS[value]  # type: ignore[index]
    if isinstance(value, dict):
        keys = sorted(value)
        if not "".join(keys).isascii():
            keys.sort(key=lambda k: k.encode(order, "surrogatepass"))
        return (
            "{"
            + ",".join([f"{quoted_json(k)}:{write_json(value[k], number, order)}" for k in keys])
            + "}"
        )
    if isinstance(value, list):
        return f"[{','.join([write_json(v, number, order) for v in value])}]"
    return number(value)  # type: ignore[arg-type]


_CONSTANTS = {None: "null", True: "true", False: "false"}
