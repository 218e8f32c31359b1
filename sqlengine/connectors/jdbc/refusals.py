"""Rows that a database refuses, among others that it takes."""

from __future__ import annotations

import time
from typing import Final

from sqlengine.connectors.jdbc.dialect import Dialect, words
from sqlengine.connectors.jdbc.driver import Cursor
from sqlengine.connectors.jdbc.writer import Places, Writer
from sqlengine.system.lanes import get_on

_SAVE: Final = "SAVEPOINT sqlengine_rows"
_BACK, _KEEP = f"ROLLBACK TO {_SAVE}", f"RELEASE {_SAVE}"
# Seconds after which those that were found are enough for now: others are found the next time.
_LONGEST_S: Final = 5.0


def refused_rows(cursor: Cursor, dialect: Dialect, writer: Writer) -> dict[int, str]:
    """Returns rows of a writer that a table refuses, with the reasons; none where all are
    written, in the transaction of the cursor.

    A row that another one has to come before, as its foreign key says so, is tried again behind
    it."""
    until = time.monotonic() + _LONGEST_S
    if dialect.at_once:
        cursor.execute(dialect.at_once)
    left, found = writer.places(), dict[int, str]()
    while len(left):
        found = _among(cursor, dialect, writer, left, until)
        if len(found) in (0, len(left)) or time.monotonic() > until:
            break
        left = left[[place in found for place in left.tolist()]]
    return found


def _among(
    cursor: Cursor, dialect: Dialect, writer: Writer, places: Places, until: float
) -> dict[int, str]:
    """Writes rows by halves; returns those that were refused, the first ones at least."""
    found: dict[int, str] = {}
    waiting = [places]
    while waiting and not (found and time.monotonic() > until):
        get_on()  # the deadline is one for each statement
        part = waiting.pop()
        reason = _refusal(cursor, dialect, writer, part)
        if reason is not None and len(part) == 1:
            found[int(part[0])] = reason
        elif reason is not None:
            middle = len(part) // 2
            waiting += [part[middle:], part[:middle]]
    return found


def _refusal(cursor: Cursor, dialect: Dialect, writer: Writer, places: Places) -> str | None:
    """Writes rows, all or none; returns why not."""
    reason = None
    cursor.execute(_SAVE)
    try:
        writer.apply(cursor, places)
    except dialect.errors as error:
        if not dialect.at_fault(error):
            raise
        reason = words(error)
        cursor.execute(_BACK)
    cursor.execute(_KEEP)
    return reason
