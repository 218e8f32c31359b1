"""The formats 'cef' and 'leef': events of security devices, alone or as the message of syslog."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

import pyarrow as pa

from sqlengine.formats.base import Option
from sqlengine.formats.logs.base import BadLine, Dicts, LogFormat, Parse, Parsed
from sqlengine.formats.logs.syslog import OPTIONS, OldTimes, parse_syslog

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
_OF_SYSLOG: Final = ("timestamp", "host", "facility", "severity", "app")
_BEFORE: Final = "syslog_"


def parse_cef(text: str) -> dict[str, str]:
    """Returns the fields of an event that begins with 'CEF:'. BadLine where it is none."""
    parts = _head(text.removeprefix("CEF:"), len(_CEF_HEAD))
    if len(parts) <= len(_CEF_HEAD):
        raise BadLine(f"CEF has seven fields before its extension, and this one {len(parts)}")
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
    """Returns the fields of an event that begins with 'LEEF:'. BadLine where it is none."""
    parts = text.removeprefix("LEEF:").split("|", len(_LEEF_HEAD))
    if len(parts) <= len(_LEEF_HEAD):
        raise BadLine(f"LEEF has five fields before its attributes, and this one {len(parts)}")
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
        raise BadLine(f"'{told[:20]}' is no sign between the attributes of LEEF")
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


class _EventFormat(LogFormat):
    """The base of both: an event stands where its mark does, behind what syslog writes."""

    mark: ClassVar[str]
    options: ClassVar[Mapping[str, Option]]
    event: ClassVar[Callable[[str], dict[str, str]]]

    def parse(self, values: Mapping[str, object]) -> Parse:
        """See `LogFormat`."""
        rules, mark, event = OldTimes.of(values), self.mark, type(self).event

        def parsed(texts: pa.Array) -> Parsed:
            return _parsed(texts, mark, event, rules)

        return parsed


def _parsed(
    texts: pa.Array, mark: str, event: Callable[[str], dict[str, str]], rules: OldTimes
) -> Parsed:
    found = Dicts([])
    lines: list[str | None] = texts.to_pylist()
    places = [(line or "").find(mark) for line in lines]
    around = _of_syslog({i: (lines[i] or "")[:at] for i, at in enumerate(places) if at > 0}, rules)
    for row, (line, at) in enumerate(zip(lines, places, strict=True)):
        try:
            if at < 0:
                raise BadLine(f"there is no '{mark}' in it")
            found.fields.append({**around.get(row, {}), **event((line or "")[at:])})
        except BadLine as error:
            found.fields.append({})
            found.bad[row] = str(error)
    return found


def _of_syslog(heads: Mapping[int, str], rules: OldTimes) -> dict[int, dict[str, str]]:
    """Returns the fields of what syslog writes before events, by row."""
    if not heads:
        return {}
    lines = parse_syslog(pa.array(heads.values(), pa.string()), rules)
    columns = {n: lines.columns[n].to_pylist() for n in _OF_SYSLOG}
    return {
        row: {_BEFORE + n: v[i] for n, v in columns.items() if v[i] is not None}
        for i, row in enumerate(heads)
    }


class CefFormat(_EventFormat):
    """An extension: ArcSight's Common Event Format."""

    name: ClassVar[str] = "cef"
    rest: ClassVar[str] = "extension"
    mark: ClassVar[str] = "CEF:"
    options: ClassVar[Mapping[str, Option]] = OPTIONS
    event: ClassVar[Callable[[str], dict[str, str]]] = staticmethod(parse_cef)


class LeefFormat(_EventFormat):
    """An extension: IBM's Log Event Extended Format, 1.0 and 2.0."""

    name: ClassVar[str] = "leef"
    rest: ClassVar[str] = "attributes"
    mark: ClassVar[str] = "LEEF:"
    options: ClassVar[Mapping[str, Option]] = OPTIONS
    event: ClassVar[Callable[[str], dict[str, str]]] = staticmethod(parse_leef)
