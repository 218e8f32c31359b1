"""The format 'windows-event-xml': an event of Windows as XML, as its event log and its forwarders
give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final
from xml.parsers import expat

from sqlengine.formats.base import Option
from sqlengine.formats.logs.base import LENIENT, BadLine, LogFormat, Parse, each_line

_DEEPEST: Final = 32
_MOST_NAMES: Final = 10_000
# The fields of System: element, attribute ('' for its text) -> name.
_SYSTEM: Final = {
    ("Provider", "Name"): "provider",
    ("Provider", "Guid"): "provider_guid",
    ("EventID", ""): "event_id",
    ("Version", ""): "version",
    ("Level", ""): "level",
    ("Task", ""): "task",
    ("Opcode", ""): "opcode",
    ("Keywords", ""): "keywords",
    ("TimeCreated", "SystemTime"): "time_created",
    ("EventRecordID", ""): "event_record_id",
    ("Correlation", "ActivityID"): "activity_id",
    ("Correlation", "RelatedActivityID"): "related_activity_id",
    ("Execution", "ProcessID"): "process_id",
    ("Execution", "ThreadID"): "thread_id",
    ("Channel", ""): "channel",
    ("Computer", ""): "computer",
    ("Security", "UserID"): "user_id",
}
_RENDERED: Final = {
    "Message": "message",
    "Level": "level_name",
    "Task": "task_name",
    "Opcode": "opcode_name",
}


class _Refused(Exception):
    """XML that is not read, with the reason in words."""


@dataclass
class _Event:
    """The fields of an event, collected as its elements come."""

    fields: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    name: str | None = None
    text: list[str] = field(default_factory=list)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self.path) >= _DEEPEST:
            raise _Refused("it is nested too deeply")
        tag = tag.rpartition(":")[2]
        self.path.append(tag)
        if self.path[1:2] == ["System"]:
            for attribute, value in attributes.items():
                if (tag, attribute) in _SYSTEM:
                    self.fields[_SYSTEM[tag, attribute]] = value
        self.name = attributes.get("Name")
        self.text.clear()

    def characters(self, text: str) -> None:
        self.text.append(text)

    def end(self, tag: str) -> None:
        text = "".join(self.text)
        self.text.clear()
        part, tag = self.path[1:2], self.path[-1]
        if part == ["System"] and (tag, "") in _SYSTEM:
            self.fields[_SYSTEM[tag, ""]] = text
        elif part == ["RenderingInfo"] and tag in _RENDERED:
            self.fields[_RENDERED[tag]] = text
        elif part == ["EventData"] and len(self.path) == 3:
            self._note(self.name or f"param{len(self.data) + 1}", text)
        elif part == ["UserData"] and text.strip():
            self._note(tag, text)
        self.path.pop()
        self.name = None

    def _note(self, name: str, text: str) -> None:
        if len(self.data) >= _MOST_NAMES:
            raise _Refused(f"it has more than {_MOST_NAMES} fields")
        self.data[name] = text


def _refuse(*_: object) -> None:
    raise _Refused("it declares a document type, which may name entities")


def parse_event(text: str) -> dict[str, str]:
    """Returns the fields of System and EventData. BadLine for what is no event; entities that XML
    does not have by itself are never expanded."""
    event = _Event()
    parser = expat.ParserCreate()
    parser.StartElementHandler = event.start
    parser.EndElementHandler = event.end
    parser.CharacterDataHandler = event.characters
    parser.StartDoctypeDeclHandler = _refuse
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(text.strip().lstrip("\ufeff"), True)
    except (expat.ExpatError, _Refused, ValueError) as error:
        raise BadLine(f"it is no XML of an event: {error}") from None
    if "event_id" not in event.fields:
        raise BadLine("it has no Event/System/EventID")
    return {**event.data, **event.fields}


class WindowsEventFormat(LogFormat):
    """An extension."""

    name: ClassVar[str] = "windows-event-xml"
    rest: ClassVar[str] = "event_data"
    options: ClassVar[Mapping[str, Option]] = {"ignore-parse-errors": LENIENT}

    def parse(self, values: Mapping[str, object]) -> Parse:
        """See `LogFormat`."""
        return each_line(parse_event)
