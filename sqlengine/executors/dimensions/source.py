"""The source of a table that rows are looked up in: its versions, one offset each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from parser.errors import ExecutionError, ServiceError, SqlError
from planner.logical import MappedScan
from planner.scalar import digest_of
from planner.settings import RELOAD_OPTION
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import Environment, is_rehearsal
from sqlengine.connectors.full_cache import CacheStatus, FullCache
from sqlengine.connectors.registry import options_of
from sqlengine.dimensions.versions import SourceVersions, read_info
from sqlengine.executors.dimensions.reloading import Stopped, VersionBuilder
from sqlengine.operators.joins.mapped import VersionRecord

log = logging.getLogger("sqlengine")

_SHARD: Final = "0"
# Seconds that a reader waits for work that it has stopped.
_STOP_S: Final = 10.0


class MappedSource(Source, FullCache):
    """Reads a table by its versions: one shard, whose offsets count them. It is bounded: it never
    keeps other sources from their end.

    With `load` the first version is there once the source is open: a job begins with it, and
    nobody else waits for it. Later ones are built in a thread of their own, where the server has
    such (`Openings.lanes`)."""

    bounded: ClassVar[bool] = True
    quick: ClassVar[bool] = True

    def __init__(self, scan: MappedScan, environment: Environment, *, load: bool) -> None:
        table = scan.table
        if environment.dimensions is None:
            raise ServiceError(
                f"table '{table.display}' has versions, and there is no place for them"
            )
        interval = options_of(table).get(RELOAD_OPTION)
        assert interval is None or isinstance(interval, int)
        self._display, self._interval, self._clock = table.display, interval, environment.clock
        source = digest_of(environment.writer, scan.digest)
        self._versions = SourceVersions(environment.dimensions, source)
        self._builder = VersionBuilder(scan, environment, self._versions)
        self._beside = environment.openings.lanes is not None
        if is_rehearsal():
            self._builder.check()
        elif load and not self._versions.next:
            self._builder.build()
        self._available = self._versions.next
        self._loaded = self._available > 0
        self.topic = f"versions/{source}"
        self.full_cache = self
        self._looked: int | None = None
        self._work: _Work | None = None
        self._requested = threading.Event()
        last = self._builder.last
        self._status = CacheStatus(0 if last is None else last.num_rows, self._available)

    # ---- versions --------------------------------------------------------------------------------

    @property
    def loaded(self) -> bool:
        """See `FullCache`."""
        return self._loaded

    @property
    def status(self) -> CacheStatus:
        """See `FullCache`."""
        return self._status

    def reload(self) -> bool:
        """See `FullCache`."""
        if self._work is None:
            now = self._clock()
            if not self._is_due(now):
                return False
            self._looked = now
            self._work = _Work(self._builder.build, beside=self._beside)
        if not self._work.done:
            return False
        work, self._work = self._work, None
        return self._take(work)

    def wait(self, seconds: float) -> bool:
        """See `FullCache`."""
        if self._work is None:
            return False
        self._work.wait(seconds)
        return True

    def request(self) -> bool:
        """See `FullCache`."""
        self._requested.set()
        return True

    def _is_due(self, now: int) -> bool:
        if self._requested.is_set():
            self._requested.clear()
            return True
        if self._looked is None:
            return not self._loaded or self._interval is not None
        return self._interval is not None and now - self._looked >= self._interval

    def _take(self, work: _Work) -> bool:
        """Returns True if the work has made a version. Where it has failed, the last one stays."""
        try:
            found = work.result()
        except Exception as raised:  # noqa: BLE001  a connector may raise anything
            error = _unreadable(self._display, raised)
            if not self._loaded:
                raise error from None
            status = self._status
            if not status.error:
                log.warning("table %s keeps its rows: %s", self._display, error)
            self._status = replace(status, failures=status.failures + 1, error=str(error))
            return False
        found = found or not self._loaded
        self._available, self._loaded = self._versions.next, True
        last, status = self._builder.last, self._status
        assert last is not None
        self._status = replace(status, rows=last.num_rows, versions=self._available, error="")
        return found

    def lines_at(self, offset: int) -> pa.Array:
        """See `FullCache`."""
        folder = self._versions.folder(offset - 1)
        return pa.array(self._builder.lines(folder) if offset else [], pa.binary())

    def restore(self, lines: pa.Array, *, exclusive: bool) -> int | None:
        """See `FullCache`. What is restored is read as the next version. Where that cannot be, the
        table is read as it is now."""
        if not len(lines) or not self._builder.take(lines.to_pylist()):
            return max(self._versions.next - 1, 0)
        self._available, self._loaded = self._versions.next, True
        return self._available - 1

    def discard_before(self, offset: int) -> None:
        """See `FullCache`. The version before the offset is the one in use there."""
        if self._versions.discard_before(offset - 1):
            self._builder.remove_unused()

    # ---- reading ---------------------------------------------------------------------------------

    def shards(self) -> list[str]:
        return [_SHARD]

    def start(self, shard: str) -> int:
        return max(self._available - 1, 0)

    def end(self, shard: str) -> int | None:
        return self._available

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`. Of several versions the last one alone matters."""
        end = self._available if until is None else min(until, self._available)
        if offset >= end:
            return None
        records = [r.encode() for r in self._records(end - 1)]
        offsets = np.full(len(records), end - 1)
        return Chunk(
            shard, offset, end, len(records), pa.array(records, pa.binary()), offsets=offsets
        )

    def _records(self, number: int) -> Iterator[VersionRecord]:
        try:
            info = read_info(self._versions.folder(number))
        except OSError as error:
            raise _unreadable(self._display, error) from None
        yield from (VersionRecord(letter=letter) for letter in info.letters)
        if info.failed > len(info.letters):
            log.warning(
                "table %s: %d rows are not in its version, %d of them are dead letters",
                self._display, info.failed, len(info.letters),
            )  # fmt: skip
        yield VersionRecord(self._versions.name(number))

    def close(self) -> None:
        """Ends the work on a version."""
        self._builder.stop()
        if self._work is not None:
            self._work.wait(_STOP_S)


def _unreadable(table: str, error: Exception) -> SqlError:
    if isinstance(error, SqlError):
        return error
    return ExecutionError(f"table '{table}' cannot be read", detail=f"{error}")


class _Work:
    """Work that is done here and now, or in a thread of its own."""

    def __init__(self, work: Callable[[], bool], *, beside: bool) -> None:
        self._work, self._found = work, False
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None
        if beside:
            self._thread = threading.Thread(target=self._run, name="versions", daemon=True)
            self._thread.start()
        else:
            self._run()

    def _run(self) -> None:
        try:
            self._found = self._work()
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001  handed to who waits
            self._error = error if isinstance(error, Exception) else RuntimeError(repr(error))

    @property
    def done(self) -> bool:
        """True if the work has ended."""
        return self._thread is None or not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Waits until it has ended, at most so long."""
        if self._thread is not None:
            self._thread.join(seconds)

    def result(self) -> bool:
        """Returns what the work has returned, or raises what it has raised."""
        if self._error is not None:
            raise self._error
        return self._found
