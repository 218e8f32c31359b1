"""The sink of a query: its rows go to the session that asked."""

from __future__ import annotations

from collections.abc import Callable

from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink


class ResultSink(Sink):
    """Hands the rows of a query to `emit` once their epoch is complete, at least once."""

    def __init__(self, emit: Callable[[Batch], None]) -> None:
        self._emit = emit
        self._pending: list[Batch] = []

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        self._pending.append(batch)

    def commit(self, epoch: int) -> int:
        pending, self._pending = self._pending, []
        for batch in pending:
            self._emit(batch)
        return sum(b.num_rows for b in pending)

    def close(self) -> None: ...
