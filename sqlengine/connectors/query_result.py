"""The sink of a query: its rows go to the session that asked."""

from __future__ import annotations

import math
from collections.abc import Callable

from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink


class ResultSink(Sink):
    """Hands the rows of a query to `emit` once their epoch is complete, at least once; those of one
    with more than `most_bytes` as they come."""

    def __init__(self, emit: Callable[[Batch], None], most_bytes: float = math.inf) -> None:
        self._emit = emit
        self._most_bytes = most_bytes
        self._bytes = 0
        self._given = 0
        self._pending: list[Batch] = []

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        self._pending.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._most_bytes:
            self._give()

    def commit(self, epoch: int) -> int:
        self._give()
        given, self._given = self._given, 0
        return given

    def _give(self) -> None:
        pending, self._pending, self._bytes = self._pending, [], 0
        for batch in pending:
            self._emit(batch)
            self._given += batch.num_rows

    def close(self) -> None: ...
