"""Stands for a source that a connector has opened."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from planner.logical import Scan
from planner.scalar import Scalar
from sqlengine.connectors.base import Source
from sqlengine.connectors.boundary import answers
from sqlengine.connectors.boundary.cache import WalledCache
from sqlengine.connectors.boundary.calls import Calls
from sqlengine.connectors.boundary.naming import naming
from sqlengine.connectors.chunks import Chunk, Part
from sqlengine.formats.registry import key_preparation_of, preparation_of
from sqlengine.system.lanes import Call

T = TypeVar("T")

# Seconds that a graph waits for the answer of a source, then it goes on with others; the second
# number is for a source that was late the last time.
_PATIENCE_S: Final = (0.1, 0.001)
# Seconds between two questions for the ends of shards that nothing but a view needs.
_ENDS_S: Final = 1.0


@dataclass(frozen=True)
class Findings:
    """The answer of a source to one poll: shards that have appeared, rows, shards that are gone,
    the ends of shards where they were asked for, and how many shards have lost rows."""

    opened: list[str] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    ends: Mapping[str, int | None] = field(default_factory=dict)
    bounded: bool = False
    lost: int = 0

    def within(
        self, positions: Mapping[str, int], bounds: Mapping[str, int] | None
    ) -> tuple[list[str], list[Chunk]]:
        """Returns new shards, and the chunks that go on at these positions and end at these bounds
        at the latest: both may have changed since the source was asked."""
        opened = [] if bounds is not None else [s for s in self.opened if s not in positions]
        at = {**positions, **dict.fromkeys(opened, 0)}
        chunks = [c for c in self.chunks if at.get(c.shard) == c.start]
        if bounds is not None:
            chunks = [c for c in chunks if c.end <= bounds.get(c.shard, c.start)]
        return opened, chunks


class WalledSource(Source):
    """Asks the source of a connector. What it raises becomes an SqlError that names the table, and
    an answer that cannot be as well.

    Methods that may raise do so with SqlError. The others answer what was last known, and the next
    `poll` raises. The graph does not wait long for a poll: it gets the answer in a later one."""

    def __init__(
        self,
        source: Source,
        scan: Scan,
        calls: Calls,
        *,
        bounded: bool,
        full_cache: WalledCache | None,
        filters: bool = False,
    ) -> None:
        self._source = source
        self._table = scan.table
        self._calls = calls
        self._check = answers.ChunkCheck(scan)
        self._prepares = preparation_of(scan.table), key_preparation_of(scan.table)
        self._polling: Call[Findings] | None = None
        self._patience_s = _PATIENCE_S[0]
        self._ends: dict[str, int | None] = {}
        self._ends_due = 0.0
        self._closed: list[str] = []
        self._marks: dict[str, str] = {}
        self._lost = 0
        self._bounded = bounded
        self.full_cache = full_cache
        self.filters = filters
        self.health = source.health
        self._where: Scalar | None = None
        self._told: Scalar | None = None
        self._outdated: Call[Findings] | None = None

    @property
    def late(self) -> bool:
        """True while the source owes an answer, or one has not been taken."""
        return self._calls.sound and (self._polling is not None or self._calls.busy)

    @property
    def silent_s(self) -> float:
        """The seconds for which an answer has been missing. Any thread."""
        polling = self._polling
        return 0.0 if polling is None or polling.done else polling.silent_s

    def wait(self, seconds: float) -> None:
        """Waits until the source owes no answer, at most so long."""
        if self._polling is not None:
            self._polling.wait(seconds)

    def drop_answer(self) -> None:
        """Forgets an answer that nobody has taken: its rows are read again."""
        if self._polling is not None and self._polling.done:
            self._polling = None

    # ---- polls -----------------------------------------------------------------------------------

    def poll(
        self,
        positions: Mapping[str, int],
        max_rows: int,
        bounds: Mapping[str, int] | None = None,
    ) -> tuple[list[str], list[Chunk]]:
        """Returns the shards that have appeared, without bounds, and one chunk of each shard that
        has rows now. With `bounds` no row at or after them, and nothing of shards without one."""
        if not self._calls.beside:
            self._calls.require_sound()
            found = self._polled(dict(positions), max_rows, bounds, self._where)
            return found.within(positions, bounds)
        answer = self._answer(positions, max_rows, bounds)
        if answer is None:
            return [], []
        found = answer
        opened, chunks = found.within(positions, bounds)
        dropped = {c.shard for c in found.chunks} - {c.shard for c in chunks}
        self._closed = [s for s in found.closed if s not in dropped]
        self._bounded, self._lost = found.bounded, found.lost
        self._ends.update(found.ends)
        return opened, chunks

    def _answer(
        self, positions: Mapping[str, int], max_rows: int, bounds: Mapping[str, int] | None
    ) -> Findings | None:
        """Returns the answer to this poll, or to one before that was late; None while there is
        none."""
        calls = self._calls
        if self._polling is None:
            calls.require_sound()
            asked = None if bounds is None else dict(bounds)
            work = partial(self._polled, dict(positions), max_rows, asked, self._where)
            self._polling = calls.begin("read", work)
            if self._polling is None:
                calls.require_in_time()
                return None
            in_time = self._polling.wait(min(self._patience_s, calls.opened.timeout_s))
            self._patience_s = _PATIENCE_S[0 if in_time else 1]
        polling = self._polling
        if not polling.done:
            calls.require_in_time()
            return None
        self._polling = None
        # Rows that are wanted now may have been left out.
        return None if polling is self._outdated else polling.result()

    def _polled(
        self,
        positions: dict[str, int],
        max_rows: int,
        bounds: Mapping[str, int] | None,
        where: Scalar | None,
    ) -> Findings:
        """Polls the source (in its lane, where it has one)."""
        opened: list[str] = []
        if bounds is None:
            opened = [s for s in self._shards() if s not in positions]
            positions |= dict.fromkeys(opened, 0)
        rows = self._calls.guarded("rows_per_poll", lambda: self._rows_per_poll(max_rows))
        chunks = []
        for shard, offset in positions.items():
            until = None if bounds is None else bounds.get(shard, offset)
            # Nothing is read at a bound, so that the position stays exactly there.
            if until is not None and until <= offset:
                continue
            chunk = self._read(shard, offset, rows, until, where)
            if chunk is not None:
                chunks.append(chunk)
        if not self._calls.beside:
            return Findings(opened, chunks)
        return self._with_state(positions, opened, chunks)

    def _with_state(
        self, positions: Mapping[str, int], opened: list[str], chunks: list[Chunk]
    ) -> Findings:
        """Adds what the graph asks next, so that it need not come back for it."""
        call, source = self._calls.guarded, self._source
        bounded = call("bounded", lambda: answers.truth(source.bounded))
        ends: dict[str, int | None] = {}
        if (bounded and not chunks) or time.monotonic() >= self._ends_due:
            self._ends_due = time.monotonic() + _ENDS_S
            ends = {s: self._end(s) for s in positions}
        closed = call("closed", lambda: answers.names(source.closed()))
        return Findings(opened, chunks, closed, ends, bounded, call("lost", self._lost_now))

    def _read(
        self, shard: str, offset: int, max_rows: int, until: int | None, where: Scalar | None
    ) -> Chunk | None:
        def work() -> Chunk | None:
            self._filter(where)
            answer = self._source.read(shard, offset, max_rows=max_rows, until=until)
            chunk = self._check(answer, shard, offset, until)
            if chunk is not None:
                self._prepare(chunk)
            return chunk

        chunk = self._calls.guarded("read", work)
        self._calls.touch()
        return chunk

    def _prepare(self, chunk: Chunk) -> None:
        """Lets formats fetch what decoders of the chunk's records need."""
        for prepare, records in zip(self._prepares, (chunk.records, chunk.keys), strict=True):
            if prepare is not None and records is not None:
                prepare(records)

    def _shards(self) -> list[str]:
        shards = self._calls.guarded("shards", lambda: answers.names(self._source.shards()))
        self._calls.touch()
        return shards

    def _end(self, shard: str) -> int | None:
        return self._calls.guarded("end", lambda: answers.whole_or_none(self._source.end(shard)))

    # ---- calls that may raise --------------------------------------------------------------------

    def shards(self) -> list[str]:
        with naming(self._table):
            return self._calls.need("shards", self._shards)

    def start(self, shard: str) -> int:
        with naming(self._table):
            return self._calls.need("start", lambda: answers.whole(self._source.start(shard)))

    def check_start(self) -> None:
        with naming(self._table):
            self._calls.need("check_start", self._source.check_start)

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        where = self._where
        return self._calls.need("read", lambda: self._read(shard, offset, max_rows, until, where))

    def required_end(self, shard: str) -> int | None:
        """Returns the end of a shard, as `end`, for who cannot do without; raises as `read`."""
        self._ends[shard] = self._calls.need("end", lambda: self._end(shard))
        return self._ends[shard]

    def resume(self, positions: Mapping[str, int], marks: Mapping[str, str]) -> None:
        self._marks |= marks
        self._calls.need("resume", lambda: self._source.resume(positions, marks))

    def expect(self, shard: str, start: int, end: int, digest: str) -> None:
        self._calls.need("expect", lambda: self._source.expect(shard, start, end, digest))

    def expired(self, shard: str, offset: int) -> str | None:
        return self._calls.need(
            "expired", lambda: answers.text_or_none(self._source.expired(shard, offset))
        )

    def first(self, shard: str) -> int | None:
        return self._calls.need("first", lambda: answers.whole_or_none(self._source.first(shard)))

    def at(self, shard: str, place: str | int) -> int | None:
        return self._calls.need("at", lambda: answers.whole_or_none(self._source.at(shard, place)))

    def apply_partitions(self, where: Scalar) -> None:
        self._calls.need("apply_partitions", lambda: self._source.apply_partitions(where))

    def apply_query(self, where: Scalar | None, limit: int) -> None:
        self._calls.need("apply_query", lambda: self._source.apply_query(where, limit))

    def widen(self, times: int, size: int) -> None:
        if not self._calls.beside:  # others are slower than what a poll costs
            self._calls.need("widen", lambda: self._source.widen(times, size))

    def link(self, folder: Path, rows: int) -> None:
        if not self._calls.beside:  # who answers late is not asked for more
            self._calls.need("link", lambda: self._source.link(folder, rows))

    def rows_per_poll(self, most: int) -> int:
        """See `Source`. Polls ask the source itself, where they read it."""
        return self._calls.need("rows_per_poll", lambda: self._rows_per_poll(most))

    def _rows_per_poll(self, most: int) -> int:
        return answers.whole(self._source.rows_per_poll(most))

    def apply_filter(self, where: Scalar | None) -> None:
        """See `Source`. The source is told before its next read, where it is read; an answer that
        is missing is not taken."""
        if self.filters and _digest(where) != _digest(self._where):
            self._where, self._outdated = where, self._polling

    def _filter(self, where: Scalar | None) -> None:
        """Tells the source the condition, where it is another one (in its lane)."""
        if self.filters and where is not self._told:
            self._source.apply_filter(where)
            self._told = where

    def parts(self, shard: str) -> Sequence[Part] | None:
        where = self._where

        def work() -> Sequence[Part] | None:
            self._filter(where)
            return answers.parts(self._source.parts(shard))

        return self._calls.need("parts", lambda: self._calls.guarded("parts", work))

    # ---- calls that never raise ------------------------------------------------------------------

    @property
    def bounded(self) -> bool:
        if not self._calls.beside:
            self._bounded = self._ask(
                "bounded", lambda: answers.truth(self._source.bounded), self._bounded
            )
        return self._bounded

    def end(self, shard: str) -> int | None:
        """See `Source`. Any thread: of a source in a lane it is what the last poll has told."""
        if not self._calls.beside:
            self._ends[shard] = self._ask("end", lambda: self._end(shard), self._ends.get(shard))
        elif shard not in self._ends and not self._calls.busy:
            self._ask("end", partial(self._note_end, shard), None)
        return self._ends.get(shard)

    def _note_end(self, shard: str) -> None:
        # Here and not where it is asked for: an answer that is missing is no end.
        self._ends[shard] = self._end(shard)

    def exhausted(self, positions: Mapping[str, int]) -> bool:
        """True if bounded input is read to its end now; never while an answer is missing."""
        if not self.bounded or self.late or not self._calls.sound:
            return False
        ends = {shard: self.end(shard) for shard in positions}
        at_end = all(at >= (ends[s] or 0) for s, at in positions.items())
        answered = positions.keys() <= self._ends.keys()
        return at_end and answered and self._calls.failure is None

    def marks(self) -> Mapping[str, str]:
        known = self._marks
        self._marks = self._ask("marks", lambda: answers.texts(self._source.marks()), known)
        return self._marks

    def lost(self) -> int:
        """See `Source`. Any thread: of a source in a lane it is what the last poll has told."""
        if not self._calls.beside:
            self._lost = self._ask("lost", self._lost_now, self._lost)
        return self._lost

    def _lost_now(self) -> int:
        return answers.whole(self._source.lost())

    def closed(self) -> list[str]:
        if self._calls.beside:
            return self._closed
        return self._ask("closed", lambda: answers.names(self._source.closed()), [])

    def forget(self, shards: Iterable[str]) -> None:
        gone = list(shards)
        for shard in gone:
            self._ends.pop(shard, None)
        self._closed = [s for s in self._closed if s not in gone]
        self._ask("forget", lambda: self._source.forget(gone), None)

    def notify_checkpoint(self, positions: Mapping[str, int]) -> None:
        copied = dict(positions)
        self._ask("notify_checkpoint", lambda: self._source.notify_checkpoint(copied), None)

    def _ask(self, call: str, work: Callable[[], T], otherwise: T) -> T:
        return self._calls.ask(call, work, otherwise, _PATIENCE_S[0])

    def close(self) -> None:
        self._calls.close(self._source.close)


def _digest(where: Scalar | None) -> str | None:
    """Returns what two equal conditions have in common."""
    return None if where is None else where.digest


def walled(source: Source, scan: Scan, calls: Calls) -> WalledSource:
    """Returns what stands for a source that has just been opened, as a part of that call."""
    cache, walled_cache = source.full_cache, None
    if cache is not None:
        walled_cache = WalledCache(cache, answers.text(cache.topic), calls, _PATIENCE_S[0])
    return WalledSource(
        source,
        scan,
        calls,
        bounded=answers.truth(source.bounded),
        full_cache=walled_cache,
        filters=answers.truth(source.filters),
    )
