"""Finds where errors of tables belong in the text that defines these: at an option, a column, or
the name of the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

from parser.alterations import Alter, SetOptions
from parser.definitions import CreateTable, Name
from parser.errors import ColumnError, Position, SqlError
from parser.parsing import parse_pieces
from parser.statements import Statement

T = TypeVar("T")


@dataclass
class Definitions:
    """The statements of one text that say what its tables are, in their order, by the name of the
    table: as it is written, or in full."""

    _tables: list[tuple[Name, CreateTable]] = field(default_factory=list)
    _altered: list[tuple[Name, Mapping[str, Position]]] = field(default_factory=list)

    def add(self, statement: Statement | SqlError, name: Name | None = None) -> None:
        """Notes a statement if it defines or alters a table, under its full `name` if that is
        known."""
        if isinstance(statement, CreateTable):
            self._tables.append((name or statement.name, statement))
        elif isinstance(statement, Alter) and isinstance(statement.action, SetOptions):
            self._altered.append((name or statement.name, statement.action.places))

    def clear(self) -> None:
        """Forgets all: another text begins."""
        self._tables.clear()
        self._altered.clear()

    def place(self, error: SqlError) -> Position | None:
        """Returns where the text says what the error is about; None where its table is none of
        these."""
        if error.table is None:
            return None
        if error.subject:
            for places in _named(error.table, self._altered):
                if error.subject in places:
                    return places[error.subject]
        table = next(_named(error.table, self._tables), None)
        if table is None:
            return None
        return self._within(error, table, []) or table.subject or table.position

    def _within(
        self, error: SqlError, table: CreateTable, seen: list[CreateTable]
    ) -> Position | None:
        """Returns the place of what the error is about in a definition, or in those that it is
        LIKE."""
        found = _place(error, table)
        if found is not None or table.like is None:
            return found
        seen.append(table)
        bases = (b for b in _named(table.like.table, self._tables) if b not in seen)
        base = next(bases, None)
        return None if base is None else self._within(error, base, seen)


def _place(error: SqlError, table: CreateTable) -> Position | None:
    """Returns where a definition has the column or the option that an error is about; of a missing
    option, None."""
    if isinstance(error, ColumnError):
        return next((c.position for c in table.columns if c.name == error.subject), None)
    names = [error.subject, *(("type",) if error.subject == "connector" else ())]
    found = next((p for k, p in table.option_places.items() if k in names), None)
    return found or (None if error.subject else _place_of_value(error.message, table))


def _place_of_value(message: str, table: CreateTable) -> Position | None:
    """Returns the place of the option whose value a message has in quotes, as a file or a URL: the
    longest of them."""
    values = (k for k in table.option_places if table.options.get(k))
    named = [k for k in values if f"'{table.options[k]}'" in message]
    longest = max(named, key=lambda k: len(table.options[k]), default=None)
    return None if longest is None else table.option_places[longest]


def _named(table: Name, defined: Iterable[tuple[Name, T]]) -> Iterator[T]:
    """Yields what is noted under the name of a table, the newest first. Of two names one may be
    shorter."""
    for name, item in reversed(list(defined)):
        parts = min(len(name), len(table))
        if name[-parts:] == table[-parts:]:
            yield item


def placed(error: SqlError, text: str) -> SqlError:
    """Returns an error of a table that was found when the table was opened, with its place in the
    text that defines the table. Any other error is returned as it is.

    The error itself may be shared with other texts, and stays as it is.

    >>> from parser.errors import OptionError
    >>> text = "CREATE TABLE t (a INT) WITH ('connector' = 'mqtt', 'topic' = '+a')"
    >>> wrong = OptionError("option 'topic' is wrong", subject="topic").about_table(("t",))
    >>> print(placed(wrong, text))
    1:52: table 't': option 'topic' is wrong
    """
    if error.table is None or error.position is not None:
        return error
    definitions = Definitions()
    for piece in parse_pieces(text):
        definitions.add(piece)
    place = definitions.place(error)
    return error if place is None else copy(error).at(place)
