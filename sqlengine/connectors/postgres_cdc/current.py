"""Values of rows as they are now, which the stream of a slot has left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlengine.connectors.changes.change import Values
from sqlengine.connectors.changes.followed import Followed
from sqlengine.connectors.postgres_cdc.database import Place, quoted, unreachable

if TYPE_CHECKING:
    import psycopg


class CurrentRows:
    """Asks a database by the keys of rows, over one connection that it keeps."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None

    def values(self, table: Followed, places: Sequence[int], key: Values) -> Values | None:
        """Returns the values in these columns of the row with a key; None where it is gone.
        Unreachable where the server is."""
        columns = ", ".join(f"{_plain(table.columns[i])}::text" for i in places)
        # Of the texts the server makes values of the columns' types, so that an index finds them.
        same = " AND ".join(f"{_plain(name)} = %s" for name in table.key)
        text = f"SELECT {columns} FROM {_plain(*table.name)} WHERE {same}"
        with unreachable():
            if self._connection is None:
                self._connection = self._place.connect()
            told = [None if v is None else v.decode() for v in key]
            row = self._connection.execute(text.encode(), told).fetchone()
        return None if row is None else [None if v is None else str(v).encode() for v in row]

    def close(self) -> None:
        """Ends the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _plain(*names: str) -> str:
    """Returns a name for a statement with parameters, in which % is a mark."""
    return quoted(*names).replace("%", "%%")
