"""The formats 'cef' and 'leef': events of security devices, alone or as the message of syslog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

import pyarrow as pa

from sqlengine.formats.base import Option
from sqlengine.formats.logs.base import BadLine, Dicts, LogFormat, Parse, Parsed
from sqlengine.formats.logs.syslog import OPTIONS, OldTimes, parse_syslog
from udf.text.security_events import NoEvent, parse_cef, parse_leef

_OF_SYSLOG: Final = ("timestamp", "host", "facility", "severity", "app")
_BEFORE: Final = "syslog_"


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
        except (BadLine, NoEvent) as error:
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
