"""The rows of an epoch on their way to a table of a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from planner.catalog import Table
from sqlengine.batch import Batch, RowKind
from sqlengine.connectors.jdbc.driver import Cursor
from sqlengine.connectors.jdbc.statements import Statements
from sqlengine.connectors.refused_rows import RefusedRows

# Rows by columns.
Columns: TypeAlias = Mapping[str, pa.ChunkedArray]
# Numbers of rows among those of an epoch.
Places: TypeAlias = npt.NDArray[np.int64]
_GOING: Final = np.array([RowKind.DELETE, RowKind.UPDATE_BEFORE], np.int8)


class Writer(ABC):
    """Keeps the rows of an epoch, of which with a key the last one of each is written."""

    def __init__(self, table: Table, statements: Statements) -> None:
        self._schema = table.physical
        self._key = table.primary_key
        self._statements = statements
        self._batches: list[Batch] = []
        self._refused: list[int] = []

    def add(self, batch: Batch) -> None:
        """Takes rows, with the changes that they are."""
        self._batches.append(batch)

    def __len__(self) -> int:
        """Returns the number of rows taken."""
        return sum(batch.num_rows for batch in self._batches)

    @property
    def accepted(self) -> int:
        """The number of rows taken, without those that were refused."""
        return len(self) - len(self._refused)

    def clear(self) -> None:
        """Drops all rows: they are written."""
        self._batches, self._refused = [], []

    def refuse(self, reasons: Mapping[int, str]) -> Iterator[RefusedRows]:
        """Leaves out rows from now on, with all others of their keys; yields them as they were
        added."""
        self._refused += reasons
        at = 0
        for batch in self._batches:
            mine = {row - at: reason for row, reason in reasons.items() if row >= at}
            mine = {row: reason for row, reason in mine.items() if row < batch.num_rows}
            if mine:
                yield RefusedRows(batch, mine)
            at += batch.num_rows

    def places(self) -> Places:
        """Returns which rows are written."""
        found = np.arange(len(self))
        if self._key:
            columns = self._columns(self._key)
            keys = [columns[name].to_pylist() for name in self._key]
            named = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
            found = np.fromiter(dict(zip(named, found.tolist(), strict=True)).values(), np.int64)
        return np.setdiff1d(found, self._refused, assume_unique=True) if self._refused else found

    def apply(self, cursor: Cursor, places: Places) -> None:
        """Writes rows, as a part of the transaction of the cursor."""
        goes = np.isin(self._kinds()[places], _GOING) if self._key else np.zeros(len(places), bool)
        if goes.any():
            keys = self._columns(self._key)
            self._delete(cursor, {n: c.take(pa.array(places[goes])) for n, c in keys.items()})
        if not goes.all():
            rows = self._columns(self._schema.names)
            self._insert(cursor, {n: c.take(pa.array(places[~goes])) for n, c in rows.items()})

    def _columns(self, names: tuple[str, ...]) -> Columns:
        return {
            c.name: pa.chunked_array([b.column(c.name) for b in self._batches], c.type.arrow)
            for c in self._schema
            if c.name in names
        }

    def _kinds(self) -> npt.NDArray[np.int8]:
        none = np.int8(RowKind.INSERT)
        return np.concatenate(
            [np.full(b.num_rows, none) if b.kinds is None else b.kinds for b in self._batches]
        )

    @abstractmethod
    def _insert(self, cursor: Cursor, rows: Columns) -> None:
        """Adds rows; with a key they replace those of theirs."""

    @abstractmethod
    def _delete(self, cursor: Cursor, keys: Columns) -> None:
        """Removes the rows with these keys."""
