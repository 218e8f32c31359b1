"""Reads the sources of a graph once more as logged epochs have read them, in its recovery."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from parser.errors import ExecutionError, ServiceError, SqlError
from planner.logical import ShuffleScan
from sqlengine.broker.errors import BrokerAway, BrokerError
from sqlengine.broker.rocketmq.errors import RocketError
from sqlengine.connectors.base import Source
from sqlengine.connectors.boundary.calls import ConnectorSilent
from sqlengine.connectors.boundary.openings import StillOpening
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.registry import declared_capabilities
from sqlengine.executors.epochs import OffsetRange
from sqlengine.executors.failures import UnavailableSource
from sqlengine.executors.inputs import Inputs
from sqlengine.executors.sources import RunningSource


class RangeAway(Exception):
    """Raised for a range that its `source` may give later; `error` says why it does not now."""

    def __init__(self, source: str, error: SqlError) -> None:
        super().__init__(str(error))
        self.source, self.error = source, error


class RepeatedRanges:
    """Reads what one recovery repeats. A source that does not give it has failed, and nothing of it
    is read behind that; RangeAway is raised where it may give it later.

    `tolerates_lost`: a power loss may have taken records of logged ranges."""

    def __init__(self, inputs: Inputs, *, tolerates_lost: bool) -> None:
        self._inputs = inputs
        self._tolerates_lost = tolerates_lost
        # Of these a range is missing: what comes behind it is not read.
        self._incomplete: set[str] = set()

    def open_shard(self, name: str, shard: str) -> None:
        """Begins a shard that had appeared in the epoch."""
        running = self._inputs.running[name]
        running.positions[shard] = 0
        try:
            running.source.resume({shard: 0}, {})
        except SqlError as error:
            self._missed(name, shard, 0, error)

    def read(self, part: OffsetRange) -> Iterator[tuple[str, Chunk]]:
        """Yields the rows of a range by source: none where they are gone, after a power loss those
        that are left."""
        if part.source not in self._inputs.running or part.source in self._incomplete:
            return
        running = self._inputs.running[part.source]
        try:
            end = part.end
            if self._tolerates_lost:
                end = min(end, _end(running, part.shard))
            # All of the range is lost.
            if end <= part.start:
                return
            if part.digest:
                running.source.expect(part.shard, part.start, part.end, part.digest)
            max_rows = end - part.start
            chunk = running.source.read(part.shard, part.start, max_rows=max_rows, until=end)
        except SqlError as error:
            self._missed(part.source, part.shard, part.start, error)
            return
        if chunk is not None and chunk.digest and not part.digest:
            self._inputs.failed[part.source] = _unknown(running.scan.table.display)
        elif chunk is not None:
            yield part.source, chunk

    def _missed(self, name: str, shard: str, offset: int, error: SqlError) -> None:
        """Marks a source as failed that does not give what is repeated, unless that may come."""
        if _is_away(self._inputs.running[name].source, shard, offset, error):
            raise RangeAway(name, error)
        self._incomplete.add(name)
        self._inputs.failed[name] = error

    def require(self, name: str) -> None:
        """RangeAway for a source that is away since it should have been opened."""
        away = sources_away(self._inputs)
        if name in away:
            raise RangeAway(name, away[name])


def sources_away(inputs: Inputs) -> dict[str, SqlError]:
    """Returns the sources that could not be opened, and perhaps can later, with their errors."""
    sources = ((n, s.source) for n, s in inputs.running.items())
    errors = {n: s.error for n, s in sources if isinstance(s, UnavailableSource)}
    return {name: error for name, error in errors.items() if _may_pass(error)}


def rewind_to_ends(inputs: Inputs) -> None:
    """Moves positions back to the ends of shards whose last records a power loss took."""
    for running in inputs.running.values():
        for shard, offset in running.positions.items():
            running.positions[shard] = min(offset, _end(running, shard))


def _is_away(source: Source, shard: str, offset: int, error: SqlError) -> bool:
    """True if what a source did not give may be there once its system is."""
    if isinstance(source, UnavailableSource) or not _may_pass(error):
        return _may_pass(error)
    try:
        return source.expired(shard, offset) is None
    except SqlError:
        return True


def _may_pass(error: SqlError) -> bool:
    """True for an error of a system that may not be there yet; what our own broker does not have
    does not come."""
    if isinstance(error, BrokerError):
        return isinstance(error, BrokerAway | RocketError)
    return isinstance(error, ServiceError | ConnectorSilent | StillOpening)


def _unknown(table: str) -> ExecutionError:
    """Returns the error for rows of which it is not known whether they are those of before."""
    return ExecutionError(
        f"table '{table}' cannot be read again here",
        detail="tasks of Spark have read it, and they alone know whether it has changed",
        hint="start the server with the target of before, or remove the job and submit it again",
    )


def _end(running: RunningSource, shard: str) -> int:
    """The end offset of a topic's shard. A power loss takes records of the broker alone, so other
    sources have an end that limits nothing."""
    scan = running.scan
    on_broker = isinstance(scan, ShuffleScan) or declared_capabilities(scan.table).reads_topics
    if on_broker and not isinstance(running.source, UnavailableSource):
        end = running.source.end(shard)
        return sys.maxsize if end is None else end
    return sys.maxsize
