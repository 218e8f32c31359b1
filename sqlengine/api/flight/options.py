"""Options of sessions: the settings of SET, and the catalog and schema that names are in."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from parser.errors import SqlError
from parser.writer.names import backticked, quoted
from sqlengine.api.flight.wire import BadMessage, Message, field

SET: Final = "SetSessionOptions"
GET: Final = "GetSessionOptions"
CLOSE: Final = "CloseSession"
_CATALOG, _SCHEMA = "catalog", "schema"
_BAD_VALUE: Final = 2
_CLOSED: Final = 1


def set_options(body: bytes, run: Callable[[str], object]) -> bytes:
    """Sets what the request names; the answer has the options that were refused."""
    errors = b""
    for entry in Message(body).parts(1):
        name = entry.text(1) or ""
        try:
            run(_statement(name, _value(Message(entry.data(2) or b""))))
        except SqlError:
            errors += field(1, field(1, name) + field(2, field(1, _BAD_VALUE)))
    return errors


def _statement(name: str, value: str | None) -> str:
    if name == _CATALOG and value:
        return f"USE CATALOG {backticked(value)}"
    if name == _SCHEMA and value:
        return f"USE {backticked(value)}"
    return f"RESET {quoted(name)}" if value is None else f"SET {quoted(name)} = {quoted(value)}"


def _value(value: Message) -> str | None:
    """Returns the value of an option as SET has it; None for one without."""
    if value.has(1):
        return value.text(1)
    if value.has(2):
        return "true" if value.number(2) else "false"
    for number, code in ((3, "<q"), (4, "<d")):
        if value.has(number):
            data = value.data(number) or b""
            if len(data) != 8:
                raise BadMessage("a number has not eight bytes")
            return str(struct.unpack(code, data)[0])
    if value.has(5):
        return ";".join(Message(value.data(5) or b"").texts(1))
    return None


def options(settings: Mapping[str, str], catalog: str, database: str) -> bytes:
    """Returns GetSessionOptionsResult."""
    found = {**settings, _CATALOG: catalog, _SCHEMA: database}
    return b"".join(field(1, field(1, k) + field(2, field(1, v))) for k, v in found.items())


def closed() -> bytes:
    """Returns CloseSessionResult."""
    return field(1, _CLOSED)
