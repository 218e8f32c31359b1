"""Tables that a database does not let us follow: they hold up no other of their connection."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from parser.errors import ServiceError
from sqlengine.connectors.changes.followed import Followed

log = logging.getLogger("sqlengine.connectors")

# Seconds until a table that was refused is looked at again.
_AGAIN_S: Final = 10.0
# Returns why a table cannot be followed, for people; None where it can. Unreachable where the
# database is away.
Look: TypeAlias = Callable[[Followed], str | None]


class Refusals:
    """The tables of one connection that are not followed, with the reasons: those that cannot be
    when it is made, and those that have ended since.

    Read by any thread, written by that of the receiver."""

    def __init__(self) -> None:
        self._reasons: Mapping[str, str] = {}
        self._ended: Mapping[str, str] = {}
        self._tables: Sequence[Followed] = ()
        self._again = 0.0

    def reason(self, topic: str) -> str | None:
        """Returns why the table of this log is not followed; None where it is."""
        return self._reasons.get(topic) or self._ended.get(topic)

    def followed(
        self, tables: Sequence[Followed], look: Look, *, known: bool = False
    ) -> list[Followed]:
        """Looks at new tables, with `known` at all, as the connection is made, and returns those
        that can be followed. Of others changes would be missing. ServiceError with the reasons
        where none can."""
        looked = [table for table in tables if known or not table.snapshot]
        found = {t.topic: why for t in looked if (why := look(t)) is not None}
        for why in set(found.values()) - set(self._reasons.values()):
            log.warning("%s", why)
        self._ended = {}
        self._reasons, self._tables = found, [t for t in tables if t.topic in found]
        self._again = time.monotonic() + _AGAIN_S
        if tables and len(found) == len(tables):
            raise ServiceError("; ".join(dict.fromkeys(found.values())))
        return [t for t in tables if t.topic not in found]

    def end(self, tables: Sequence[Followed], why: str) -> None:
        """Notes that tables cannot be followed any more, until the connection is made anew."""
        log.warning("%s", why)
        self._ended = {**self._ended, **dict.fromkeys((t.topic for t in tables), why)}

    @property
    def due(self) -> bool:
        """True if tables were refused, and it is time to look at them again."""
        return bool(self._tables) and time.monotonic() >= self._again

    def changed(self, look: Look) -> bool:
        """Looks at the refused tables again; True if one of them can be followed now."""
        self._again = time.monotonic() + _AGAIN_S
        found = {t.topic: why for t in self._tables if (why := look(t)) is not None}
        fewer = len(found) < len(self._reasons)
        if not fewer:
            self._reasons = found
        return fewer
