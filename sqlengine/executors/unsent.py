"""Rows of the last epoch that a sink has no space for. They go with their job to another graph, which owes them: it writes
them as the graph that the job left, under the epoch in which they were, so that what the sink has of them is not doubled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlengine.batch import Batch
from sqlengine.connectors.base import Rolling, Sink
from sqlengine.executors.wire import decode_batch


@dataclass(frozen=True)
class Unsent:
    """Encoded batches for a sink (its id) of the graph `writer`; none where only a file is not complete."""

    sink: str
    writer: str
    epoch: int
    batches: tuple[bytes, ...]


class Owed:
    """A sink opened as the writer of these rows. It has done its work with its first commit."""

    guarantee: ClassVar[str] = "exactly-once"

    def __init__(self, sink: Sink, unsent: Unsent) -> None:
        self._sink = sink
        self._epoch = unsent.epoch
        for data in unsent.batches:
            sink.write(decode_batch(data))

    def last_epoch(self) -> int | None:
        return self._sink.last_epoch()

    def write(self, batch: Batch) -> None:
        raise AssertionError("rows are written to the sink of the graph itself")

    def commit(self, epoch: int) -> int:
        written = self._sink.commit(self._epoch)
        if isinstance(self._sink, Rolling):
            self._sink.roll(end=True)
        return written

    def close(self) -> None:
        self._sink.close()
