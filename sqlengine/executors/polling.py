"""Decides what the next epoch of a graph does: which rows it reads, and which operators fire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sqlengine.connectors.chunks import Chunk
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epoch_writer import EpochWriter
from sqlengine.executors.epochs import EpochRecord, OffsetRange, Resumption
from sqlengine.executors.inputs import Inputs, upstream_scans
from sqlengine.executors.storage import RunnerOptions
from sqlengine.executors.subtask import SubtaskContext

# Rows by source.
Chunks = list[tuple[str, Chunk]]


class Polling:
    """Reads the sources of one graph for its epochs, in its thread.

    `caught_up`: the last epoch has read all rows that there were. `backpressured_by`: subtasks with
    so many unread bytes of this one that it reads no sources for now."""

    def __init__(
        self,
        executor: EmbeddedExecutor,
        inputs: Inputs,
        epochs: EpochWriter,
        options: RunnerOptions,
        clock: Callable[[], int],
        subtask: SubtaskContext | None,
    ) -> None:
        self.caught_up = False
        self.backpressured_by: Mapping[int, int] = {}
        self._executor = executor
        self._inputs = inputs
        self._epochs = epochs
        self._options = options
        self._clock = clock
        self._subtask = subtask
        self._reads_beside = False

    def poll(self, version: int, *, paused: bool) -> tuple[EpochRecord | None, Chunks]:
        """Reads the sources. Returns the record of the next epoch, of this version of the graph,
        and the rows; None if nothing has happened. While the graph is `paused` nothing fires."""
        inputs, most = self._inputs, self._options.rows_per_read
        self._executor.guard.tell("reads its sources")
        if self._subtask is not None:
            self.backpressured_by = self._subtask.shuffle.unread.over_limit()
        may_fire = not (paused or inputs.bounds or self.backpressured_by)
        self.caught_up = False
        if may_fire and (resumed := self._executor.firing.resumptions()):
            return self._poll_beside(version, resumed)
        chunks, opened = inputs.poll(most, shuffle_only=bool(self.backpressured_by))
        self.caught_up = bool(chunks) and inputs.all_read(chunks, most)
        ended = inputs.ended(chunks)
        # Sources that are not read are not idle, so no tick says that they are.
        tick = not self.backpressured_by and not paused and self._timer_is_due()
        tick |= may_fire and self._executor.firing.take_unknown()
        if not chunks and not opened and not ended and not tick:
            return None, chunks
        record = self._epochs.next(
            version,
            ranges=tuple(OffsetRange(n, c.shard, c.start, c.end, c.digest) for n, c in chunks),
            opened=tuple(opened),
            ended=tuple(ended),
            tick=tick,
            closed=inputs.closed(chunks),
        )
        return record, chunks

    def _poll_beside(
        self, version: int, resumed: tuple[Resumption, ...]
    ) -> tuple[EpochRecord, Chunks]:
        """Returns an epoch that lets operators fire more of what is due, and every other time one
        that reads the sources that these operators do not depend on."""
        self._reads_beside = not self._reads_beside and self._subtask is None
        if self._reads_beside:
            firing = upstream_scans(self._executor.plan, [r.node for r in resumed])
            chunks, opened = self._inputs.poll(self._options.rows_per_read, except_for=firing)
            if chunks or opened:
                ranges = tuple(OffsetRange(name, c.shard, c.start, c.end) for name, c in chunks)
                return self._epochs.next(version, ranges=ranges, opened=tuple(opened)), chunks
        return self._epochs.next(version, resumed=resumed), []

    def set_pace(self, chunks: Iterable[tuple[str, Chunk]]) -> None:
        """Lets the next epochs read more or fewer rows, by the time that these have taken."""
        if self._options.paced:
            read = ((name, chunk.num_rows) for name, chunk in chunks)
            seconds = self._executor.guard.operator_seconds
            self._inputs.pace.note(read, seconds, self._options.rows_per_read)

    def _timer_is_due(self) -> bool:
        """True if an operator waits for a processing time that has come."""
        timer = self._executor.next_timer()
        return timer is not None and timer <= self._clock()
