"""Events of security devices taken apart: PARSE_CEF and PARSE_LEEF. Both are extensions: Flink has
no such functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from parser.types import STRING, map_of
from udf.arrays.arrays import row_errors
from udf.registry import KernelContext, Values, function
from udf.signatures import always_nullable, takes, text
from udf.vector import Vector

_MAP: Final = map_of(STRING, STRING)
_CEF_KEY: Final = re.compile(r"(?:^|\s)([A-Za-z0-9_.\[\]-]+)=")
_CEF_HEAD: Final = (
    "version",
    "device_vendor",
    "device_product",
    "device_version",
    "signature_id",
    "name",
    "severity",
)
_LEEF_HEAD: Final = ("version", "vendor", "product", "product_version", "event_id")
_BAR: Final = re.compile(r"\\.|\|", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_BREAKS: Final = {"n": "\n", "r": "\r"}


class NoEvent(Exception):
    """A text that is no event; it says why."""


def parse_cef(text: str) -> dict[str, str]:
    """Returns the fields of an event that begins with 'CEF:'. NoEvent where it is none."""
    parts = _head(text.removeprefix("CEF:"), len(_CEF_HEAD))
    if len(parts) <= len(_CEF_HEAD):
        raise NoEvent(f"CEF has seven fields before its extension, and this one {len(parts)}")
    fields = dict(zip(_CEF_HEAD, parts, strict=False))
    extension = parts[-1].strip(" \r\n")
    keys = list(_CEF_KEY.finditer(extension))
    ends = [*(k.start() for k in keys[1:]), len(extension)][: len(keys)]
    pairs = {
        key[1]: _plain(extension[key.end() : end].rstrip(" "))
        for key, end in zip(keys, ends, strict=True)
    }
    return {**pairs, **fields}


def parse_leef(text: str) -> dict[str, str]:
    """Returns the fields of an event that begins with 'LEEF:'. NoEvent where it is none."""
    parts = text.removeprefix("LEEF:").split("|", len(_LEEF_HEAD))
    if len(parts) <= len(_LEEF_HEAD):
        raise NoEvent(f"LEEF has five fields before its attributes, and this one {len(parts)}")
    fields = dict(zip(_LEEF_HEAD, parts, strict=False))
    attributes, delimiter = parts[-1], "\t"
    if fields["version"] == "2.0":
        told, bar, behind = attributes.partition("|")
        if bar and "=" not in told:
            attributes, delimiter = behind, _delimiter(told)
    pairs: dict[str, str] = {}
    for pair in attributes.strip("\r\n").split(delimiter):
        key, equal, value = pair.partition("=")
        if equal:
            pairs[key.strip()] = value
    return {**pairs, **fields}


def _delimiter(told: str) -> str:
    """Returns the sign between attributes: itself, or its code (x09, 0x09)."""
    code = re.fullmatch(r"(?:0?[xX])([0-9A-Fa-f]{2,4})", told)
    if code:
        return chr(int(code[1], 16))
    if len(told) > 1:
        raise NoEvent(f"'{told[:20]}' is no sign between the attributes of LEEF")
    return told or "\t"


def _head(text: str, count: int) -> list[str]:
    """Splits at the first so many bars that are not escaped."""
    parts = text.split("|", count)
    if "\\" not in "".join(parts[:count]):
        return parts
    parts = []
    start = 0
    for bar in _BAR.finditer(text):
        if bar[0] == "|":
            parts.append(_plain(text[start : bar.start()]))
            start = bar.end()
            if len(parts) == count:
                break
    return [*parts, text[start:]]


def _plain(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda m: _BREAKS.get(m[1], m[1]), text)


def _cef(value: str) -> list[tuple[str, str]] | None:
    return _pairs(value, "CEF:", parse_cef)


def _leef(value: str) -> list[tuple[str, str]] | None:
    return _pairs(value, "LEEF:", parse_leef)


def _pairs(
    value: str, mark: str, parse: Callable[[str], dict[str, str]]
) -> list[tuple[str, str]] | None:
    at = value.find(mark)
    try:
        return None if at < 0 else list(parse(value[at:]).items())
    except NoEvent:
        return None


@function("PARSE_CEF", signature=takes(text, result=always_nullable(_MAP)))
def cef_kernel(ctx: KernelContext, value: Values) -> Vector:
    """PARSE_CEF(text): the fields of an event in ArcSight's Common Event Format, alone or behind
    what syslog writes, as a map: `version`, `device_vendor`, `device_product`, `device_version`,
    `signature_id`, `name`, `severity` and the keys of its extension; NULL for a text that is none.
    The format `cef` reads them as columns. An extension.

    >>> PARSE_CEF('CEF:0|Vendor|Wall|1.0|100|denied|10|src=10.0.0.1 msg=not allowed')['msg']
    'not allowed'
    """
    return Vector(*row_errors(ctx.num_rows, _cef, _MAP.arrow, value))


@function("PARSE_LEEF", signature=takes(text, result=always_nullable(_MAP)))
def leef_kernel(ctx: KernelContext, value: Values) -> Vector:
    """PARSE_LEEF(text): the fields of an event in IBM's Log Event Extended Format (1.0 and 2.0),
    alone or behind what syslog writes, as a map: `version`, `vendor`, `product`, `product_version`,
    `event_id` and the keys of its attributes; NULL for a text that is none. The format `leef` reads
    them as columns. An extension.

    >>> PARSE_LEEF('LEEF:2.0|Vendor|Wall|1.0|denied|^|src=10.0.0.1^usr=ann')['usr']
    'ann'
    """
    return Vector(*row_errors(ctx.num_rows, _leef, _MAP.arrow, value))
