"""Messages of Flight SQL: commands, which come with their names, and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlengine.api.flight.wire import BadMessage, Message, field

_PREFIX: Final = "type.googleapis.com/arrow.flight.protocol.sql."
# What CommandStatementIngest says of a table that is not there, and of one that is.
CREATE: Final = 1
FAILS: Final = 1
REPLACE: Final = 3


def read_any(data: bytes) -> tuple[str, Message]:
    """Returns the name and the message of an Any. BadMessage for what is none of Flight SQL."""
    outer = Message(data)
    kind = outer.text(1) or ""
    if not kind.startswith(_PREFIX):
        raise BadMessage("this is no command of Flight SQL", detail=kind[:100] or None)
    return kind.removeprefix(_PREFIX), Message(outer.data(2) or b"")


def write_any(name: str, message: bytes) -> bytes:
    """Returns a message with its name."""
    return field(1, _PREFIX + name) + field(2, message)


def ticket(query: str) -> bytes:
    """Returns the ticket for the rows of a query."""
    return write_any("TicketStatementQuery", field(1, query))


def prepared_result(handle: str, rows: bytes, parameters: bytes) -> bytes:
    """Returns ActionCreatePreparedStatementResult; the schemas are those of Arrow's IPC."""
    return write_any(
        "ActionCreatePreparedStatementResult",
        field(1, handle) + field(2, rows) + field(3, parameters),
    )


def update_result(rows: int) -> bytes:
    """Returns DoPutUpdateResult."""
    return field(1, rows)


@dataclass(frozen=True)
class Ingest:
    """CommandStatementIngest: the table that rows go to. `creates`: it may be made; `appends`: it
    may be there already."""

    name: tuple[str, ...]
    creates: bool = False
    appends: bool = True
    replaces: bool = False
    temporary: bool = False

    @staticmethod
    def of(message: Message) -> Ingest:
        """Reads a command. BadMessage where it names no table."""
        table = message.text(2)
        if not table:
            raise BadMessage("the rows are for no table")
        options = Message(message.data(1) or b"")
        parts = (message.text(4), message.text(3), table)
        exists = options.number(2)
        return Ingest(
            tuple(part for part in parts if part),
            options.number(1) == CREATE,
            exists not in (FAILS, REPLACE),
            exists == REPLACE,
            bool(message.number(5)),
        )
