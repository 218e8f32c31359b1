"""Rows that a sink has no space for. They go with their job to another graph, which owes them: it
writes them as the graph that the job left, under the epochs in which they were, so that what the
sink has of them is not doubled."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink
from sqlengine.executors.wire import decode_batch


@dataclass(frozen=True)
class PendingCommit:
    """Encoded batches of one epoch for a sink (its id) of the graph `writer`; none where only a
    file is not complete."""

    sink: str
    writer: str
    epoch: int
    batches: tuple[bytes, ...]


class RecoveredCommit(Sink):
    """A sink opened as the writer of these rows, which are of it and in the order of their epochs.
    It has done its work once `commit` returns."""

    def __init__(self, sink: Sink, unsent: Iterable[PendingCommit]) -> None:
        self._sink = sink
        self._left = deque(unsent)
        self._rows = 0
        self._write()

    def _write(self) -> None:
        for data in self._left[0].batches if self._left else ():
            self._sink.write(decode_batch(data))

    def last_epoch(self) -> int | None:
        return self._sink.last_epoch()

    def write(self, batch: Batch) -> None:
        raise AssertionError("rows are written to the sink of the graph itself")

    def commit(self, epoch: int) -> int:
        while self._left:
            self._rows += self._sink.commit(self._left[0].epoch)
            self._left.popleft()
            self._write()
        self._sink.roll(end=True)
        return self._rows

    def close(self) -> None:
        self._sink.close()
