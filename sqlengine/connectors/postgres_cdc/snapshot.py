"""Snapshots of tables: their rows as they were at a place in the log of the database, without
locks.

A slot that lasts as long as its connection tells the place, and gives the snapshot to a transaction
that only reads. Changes before that place are in it, later ones are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from planner.logical.change_kinds import RowKind
from sqlengine.connectors.changes.followed import Followed
from sqlengine.connectors.changes.positions import COMPLETE, Mark
from sqlengine.connectors.changes.snapshot import TableSnapshots
from sqlengine.connectors.postgres_cdc.database import Place, command, lsn_of, quoted, unreachable
from sqlengine.connectors.receivers.base import Taken

_ROWS: Final = 20_000  # that are handed on at a time
_BYTES: Final = 4 << 20


class Snapshot(TableSnapshots):
    """Snapshots of tables of PostgreSQL, by a slot that ends with its connection."""

    def __init__(self, place: Place, tables: Sequence[Followed]) -> None:
        slot = place.connect(replication=True)
        try:
            name = f"sqlengine_snapshot_{slot.info.backend_pid}"
            said = f"CREATE_REPLICATION_SLOT {name} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"
            _, at, exported, _ = command(slot, said)
            self._reading = place.connect()
            with unreachable():
                self._reading.execute(
                    "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;"
                    f" SET TRANSACTION SNAPSHOT '{exported}'".encode()
                )
        finally:
            slot.close()
        for table in tables:
            table.snapshot, table.last = lsn_of(at), (0, 0)
        super().__init__(tables)

    def take(self) -> tuple[str, Taken] | None:
        """See `TableSnapshots`. Unreachable where the server is gone."""
        with unreachable():
            return super().take()

    def complete(self, table: Followed) -> bytes:
        """See `TableSnapshots`."""
        return Mark(COMPLETE, table.snapshot).encoded()

    def rows(self, table: Followed) -> Iterator[Taken]:
        """See `TableSnapshots`."""
        columns = ", ".join(quoted(c) for c in table.columns)
        text = f"COPY (SELECT {columns} FROM {quoted(*table.name)}) TO STDOUT WITH (FORMAT csv)"
        mark = Mark(RowKind.INSERT, table.snapshot).encoded()
        taken, size = Taken(), 0
        with self._reading.cursor() as cursor, cursor.copy(text.encode()) as copy:
            for row in copy:
                taken.values.append(bytes(row).removesuffix(b"\n"))
                size += len(row)
                if len(taken.values) >= _ROWS or size >= _BYTES:
                    taken.metadata = [mark] * len(taken.values)
                    yield taken
                    taken, size = Taken(), 0
        taken.metadata = [mark] * len(taken.values)
        yield taken

    def close(self) -> None:
        """See `TableSnapshots`."""
        self._reading.close()
