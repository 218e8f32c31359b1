"""Counts rows in error where nobody keeps them."""

from __future__ import annotations

from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink


class RowsSetAside(Sink):
    """Counts the rows in error of a query or script, which gives the others.

    `first` says what was wrong with the first, and in which row."""

    def __init__(self) -> None:
        self.rows = 0
        self.first = ""

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        if batch.num_rows and not self.rows:
            _, _, subject, reason, payload = (c[0].as_py() for c in batch.columns[:5])
            self.first = f"{reason} in {subject}: {str(payload)[:200]}"
        self.rows += batch.num_rows

    def commit(self, epoch: int) -> int:
        return 0

    def close(self) -> None: ...
