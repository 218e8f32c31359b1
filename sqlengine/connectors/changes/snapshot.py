"""Snapshots of tables whose changes are followed: their rows as they were at a place in the log of
the database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from sqlengine.connectors.changes.followed import Followed
from sqlengine.connectors.receivers.base import Taken


class TableSnapshots(ABC):
    """A snapshot of some tables, in one transaction that only reads."""

    def __init__(self, tables: Sequence[Followed]) -> None:
        self._pieces = self._all(tables)

    def take(self) -> tuple[str, Taken] | None:
        """Returns some rows and the topic of their log; None after the last ones. Raises what the
        database's driver does."""
        return next(self._pieces, None)

    def _all(self, tables: Sequence[Followed]) -> Iterator[tuple[str, Taken]]:
        for table in tables:
            if table.initial:
                for taken in self.rows(table):
                    yield table.topic, taken
            # A row of its own: what was taken before a crash has none.
            yield table.topic, Taken([b""], [self.complete(table)])

    @abstractmethod
    def rows(self, table: Followed) -> Iterator[Taken]:
        """Yields the rows of a table."""

    @abstractmethod
    def complete(self, table: Followed) -> bytes:
        """Returns the mark of a record that has no row: all rows of the table are in its log."""

    @abstractmethod
    def close(self) -> None:
        """Ends the transaction."""
