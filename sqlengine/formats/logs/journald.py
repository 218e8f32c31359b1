"""The format 'journald': entries of systemd's journal, as `journalctl -o json` or `-o export` write
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec
import numpy as np
import pyarrow as pa

from parser.types import DataType
from sqlengine.formats.base import Option
from sqlengine.formats.lines import Framed, Framing, LineFraming
from sqlengine.formats.logs.base import LENIENT, BadLine, Dicts, LogFormat, Parse, Parsed
from sqlengine.formats.options import choice

_JSON: Final = "json"
_SIZE: Final = 8
_REALTIME: Final = "__REALTIME_TIMESTAMP"

_object = msgspec.json.Decoder(dict[str, object])


def parse_json(record: bytes) -> dict[str, str]:
    """Returns the fields of an entry in JSON. Of a field that stands several times the values are
    lines; one that was too large is missing. BadLine for what is no entry."""
    try:
        found = _object.decode(record)
        return {k: text for k, v in found.items() if (text := _text(v)) is not None}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLine(f"it is no JSON object: {error}") from None


def _text(value: object) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, list):
        if all(isinstance(v, int) and 0 <= v < 256 for v in value):
            return bytes(value).decode("utf-8", "replace")
        return "\n".join(filter(None, map(_text, value)))
    return msgspec.json.encode(value).decode()


def parse_export(record: bytes) -> dict[str, str]:
    """Returns the fields of an entry in the export format: lines NAME=text, and a line NAME before
    the length of a value, and this. BadLine for what is no entry."""
    fields: dict[str, list[str]] = {}
    at = 0
    while at < len(record):
        end = record.find(b"\n", at)
        end = len(record) if end < 0 else end
        name, equal, value = record[at:end].partition(b"=")
        at = end + 1
        if not name:
            continue
        if not equal:
            size = _size(record, at)
            value = record[at + _SIZE : at + _SIZE + size]
            at += _SIZE + size + 1
        key = name.decode("utf-8", "replace")
        fields.setdefault(key, []).append(value.decode("utf-8", "replace"))
    if not fields:
        raise BadLine("it has no fields")
    return {key: "\n".join(texts) for key, texts in fields.items()}


def _size(record: bytes, at: int) -> int:
    size = int.from_bytes(record[at : at + _SIZE], "little")
    if len(record) - at < _SIZE or size > len(record) - at - _SIZE:
        raise BadLine("a value is longer than its entry")
    return size


def with_time(fields: dict[str, str]) -> dict[str, str]:
    """Adds `timestamp`, the time at which the entry was received."""
    micros = fields.get(_REALTIME, "")
    if micros.isascii() and micros.isdigit() and len(micros) < 18:
        told = np.datetime64(int(micros), "us")
        fields["timestamp"] = f"{told}Z"
    return fields


class JournaldFormat(LogFormat):
    """An extension. Columns are fields in any case of letters, with or without the _ in front."""

    name: ClassVar[str] = "journald"
    rest: ClassVar[str] = "fields"
    binary: ClassVar[bool] = True
    options: ClassVar[Mapping[str, Option]] = {
        "encoding": Option(
            choice(_JSON, "export"), default=_JSON, doc="of files; records may be of either"
        ),
        "rest-column": Option(default="fields", doc="a MAP of what is no column"),
        "ignore-parse-errors": LENIENT,
    }

    def parse(self, values: Mapping[str, object]) -> Parse:
        """See `LogFormat`."""
        return _parse

    def framing(self, options: Mapping[str, str]) -> Framing:
        """See `Format`. Entries of the export format end with an empty line."""
        return LineFraming() if options.get("encoding", _JSON) == _JSON else ExportFraming()


def _parse(records: pa.Array) -> Parsed:
    found = _Entries([])
    for row, record in enumerate(records.to_pylist()):
        try:
            text = record.strip()
            fields = parse_json(text) if text.startswith(b"{") else parse_export(record)
            found.fields.append(with_time(fields))
        except BadLine as error:
            found.fields.append({})
            found.bad[row] = str(error)
    return found


class _Entries(Dicts):
    """Fields by names in any case of letters, with or without the _ in front."""

    def column(self, name: str, kind: DataType) -> pa.Array | None:
        return pa.array([_named(f, name) for f in self.fields], pa.string())

    def rest(self, known: frozenset[str]) -> list[list[tuple[str, str]]]:
        names = {n.lower().lstrip("_") for n in known}
        return [
            [
                (k, v)
                for k, v in f.items()
                if k.lower().lstrip("_") not in names and k != "timestamp"
            ]
            for f in self.fields
        ]


def _named(fields: Mapping[str, str], name: str) -> str | None:
    upper = name.upper()
    for key in (name, upper, f"_{upper}", f"__{upper}"):
        if key in fields:
            return fields[key]
    return None


class ExportFraming:
    """An entry is all up to an empty line that is not within a value."""

    def split(self, data: bytes, *, complete: bool) -> Framed:
        """See `Framing`."""
        records: list[bytes] = []
        starts: list[int] = []
        ends: list[int] = []
        start = at = 0
        while at < len(data):
            line, end = at, data.find(b"\n", at)
            if end < 0:
                break
            if end == at:  # an empty line
                if at > start:
                    records.append(data[start:at])
                    starts.append(start)
                    ends.append(end + 1)
                start = at = end + 1
                continue
            at = end + 1
            if b"=" not in data[line:end]:
                at += _SIZE + int.from_bytes(data[at : at + _SIZE], "little") + 1
        if complete and start < len(data):
            records.append(data[start:].rstrip(b"\n"))
            starts.append(start)
            ends.append(len(data))
        return Framed(
            pa.array(records, pa.binary()), np.array(starts, np.int64), np.array(ends, np.int64)
        )
