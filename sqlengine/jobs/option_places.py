"""Places in a text of the options that errors are about."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from parser.definitions import CreateTable
from parser.errors import Position, SqlError
from parser.parsing import parse_pieces


def placed(error: SqlError, text: str) -> SqlError:
    """Returns an error of a table that was found when the table was opened, with its place in the
    text that defines the table: that of the option, or of the definition where the option is
    missing. Any other error is returned as it is.

    The table is known by the message, which has its name in quotes, or the value of an option: a
    file, a URL, the name of a table elsewhere. The error itself may be shared with other texts, and
    stays as it is.

    >>> from parser.errors import OptionError
    >>> text = "CREATE TABLE t (a INT) WITH ('connector' = 'mqtt', 'topic' = '+a')"
    >>> wrong = OptionError("option 'topic' of table 't' is wrong", subject="topic")
    >>> print(placed(wrong, text))
    1:52: option 'topic' of table 't' is wrong
    >>> print(placed(OptionError("there is no connector 'mqtt'"), text))
    1:30: there is no connector 'mqtt'
    """
    if error.position is not None:
        return error
    place = _place(error, text)
    return error if place is None else copy(error).at(place)


def _place(error: SqlError, text: str) -> Position | None:
    option = error.subject or ""
    tables = [s for s in parse_pieces(text) if isinstance(s, CreateTable)]
    named = [t for t in tables if f"table '{t.name[-1]}'" in error.message]
    # What a client says of its settings has no name of a table.
    for table in named or [t for t in tables if option in t.option_places]:
        return table.option_places.get(option, table.position)
    return _place_of_value(error.message, tables)


def _place_of_value(message: str, tables: Iterable[CreateTable]) -> Position | None:
    """Returns the place of the option whose value a message has in quotes, the longest of them."""
    found = [
        (len(value), table.option_places[option])
        for table in tables
        for option, value in table.options.items()
        if value and option in table.option_places and f"'{value}'" in message
    ]
    return max(found, key=lambda one: one[0])[1] if found else None
