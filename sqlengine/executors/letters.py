"""The dead-letter topic: a sink of the same epoch as all others."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from sqlengine.batch import Batch
from sqlengine.broker.base import Broker

DEAD_LETTERS = "_dead_letters"


class LetterSink:
    """Rows that could not be processed, one JSON object each: time, job, table or expression, place, reason, payload."""

    guarantee: ClassVar[str] = "exactly-once"

    def __init__(self, broker: Broker, writer: str) -> None:
        broker.create_topic(DEAD_LETTERS, retention_bytes=1 << 30, if_not_exists=True)
        self._broker = broker
        self._writer = writer
        self._pending: list[bytes] = []
        self._time = 0

    def last_epoch(self) -> int | None:
        return self._broker.last_epoch(DEAD_LETTERS, 0, self._writer)

    def write(self, batch: Batch) -> None:
        self._time = batch.proctime
        names = ("job", "place", "subject", "reason", "payload")
        for values in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            letter = {"time": batch.proctime, **dict(zip(names, values, strict=True))}
            self._pending.append(msgspec.json.encode(letter))

    def commit(self, epoch: int) -> int:
        rows = self._pending
        done = self._broker.append(DEAD_LETTERS, 0, rows, timestamp_ms=self._time, writer=self._writer, epoch=epoch)
        self._pending = []
        return 0 if done.duplicate else len(rows)

    def close(self) -> None: ...
