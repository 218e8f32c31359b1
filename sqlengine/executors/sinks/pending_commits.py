"""Output that a sink has not taken when its job moves to another graph.

The other graph commits it as the writer that the job had before and under the same epochs, so that
the sink drops what it has already."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink
from sqlengine.connectors.refused_rows import RefusedRows
from sqlengine.executors.wire import decode_batch


@dataclass(frozen=True)
class PendingCommit:
    """The output of one epoch of the graph `writer` for a sink (its id), as encoded batches. There
    are none if only a file is not published yet."""

    sink: str
    writer: str
    epoch: int
    batches: tuple[bytes, ...]


class RecoveredCommit(Sink):
    """A sink opened as the writer of pending commits; they must be of one writer, oldest first. Its
    `commit` commits all of them, whatever epoch it is given; nothing can be written to it."""

    def __init__(self, sink: Sink, unsent: Iterable[PendingCommit]) -> None:
        self._sink = sink
        self._left = deque(unsent)
        self._rows = 0
        self._write()

    def _write(self) -> None:
        for data in self._left[0].batches if self._left else ():
            self._sink.write(decode_batch(data))

    def left(self) -> tuple[PendingCommit, ...]:
        """The commits that the sink has not taken."""
        return tuple(self._left)

    def redirect(self, reopened: Callable[[str], Sink]) -> None:
        """Commits what is left to another sink, opened as the writer that it is given: that of the
        same table where its options have changed."""
        if self._left:
            self._sink.close()
            self._sink = reopened(self._left[0].writer)
            self._write()

    def last_epoch(self) -> int | None:
        return self._sink.last_epoch()

    def write(self, batch: Batch) -> None:
        raise AssertionError("rows are written to the sink of the graph itself")

    def commit(self, epoch: int) -> int:
        while self._left:
            self._rows += self._sink.commit(self._left[0].epoch)
            # TryAgain leaves the epoch in front, with its rows already in the sink: the next call
            # goes on there.
            self._left.popleft()
            self._write()
        self._sink.roll(end=True)
        return self._rows

    def refused(self) -> Sequence[RefusedRows]:
        return self._sink.refused()

    def close(self) -> None:
        self._sink.close()
