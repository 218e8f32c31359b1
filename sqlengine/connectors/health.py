"""The health of a table that is open: how its connector does with the system behind it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlengine.system.hidden import hidden


@dataclass
class Health:
    """The connection of an open table, as its connector knows it; written by that, read by any
    thread.

    `trouble`: why no rows come or go now, for people; None while they do. The others count since
    the table was opened: `errors` that the other side or its client told, `retries` of what had
    failed, `reconnects`: rows went on after an error, and `conditions` by which the other side left
    rows out."""

    trouble: str | None = None
    errors: int = 0
    retries: int = 0
    reconnects: int = 0
    conditions: int = 0

    def failed(self, what: str) -> None:
        """Notes an error that may pass, without secrets that the other side gives back."""
        self.errors += 1
        self.trouble = hidden(what)

    def works(self) -> None:
        """Notes that rows came or went: what was in the way is gone."""
        if self.trouble is not None:
            self.trouble = None
            self.reconnects += 1
