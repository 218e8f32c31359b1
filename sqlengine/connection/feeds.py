"""Rows of iterators and generators on their way into a topic."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from typing import Final

# Rows that are written at once, and that wait at most: then the generator does.
_AT_ONCE: Final = 1000
_WAITING: Final = 4000


class Feed:
    """Writes the rows of an iterable, perhaps one without end, from threads of its own.

    `rows`: those that are written. Rows wait in a bounded queue; when it is full, the iterable
    does. Its end, an error of it and `close` end the feed."""

    def __init__(
        self,
        name: str,
        rows: Iterable[object] | AsyncIterable[object],
        write: Callable[[Sequence[object], int], int],
    ) -> None:
        """`write` takes some items of the iterable, and the number of their first row, from 1 on;
        it returns their number of rows."""
        self.name = name
        self.rows = 0
        self._source, self._write = rows, write
        self._queue: queue.Queue[object] = queue.Queue(_WAITING)
        self._end = object()
        self._error: BaseException | None = None
        self._closing, self._done = threading.Event(), threading.Event()
        for part, work in (("reads", self._read), ("writes", self._write_all)):
            threading.Thread(target=work, name=f"{name}-{part}", daemon=True).start()

    def __repr__(self) -> str:
        return f"Feed({self.name!r}, rows={self.rows}, ended={self.ended})"

    @property
    def ended(self) -> bool:
        """True once no more rows come."""
        return self._done.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until all rows are written; False if they are not in time. Raises what the
        iterable has raised, or ServiceError for a row that does not fit; those before it are
        written."""
        done = self._done.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return done

    def close(self, timeout_s: float = 5.0) -> None:
        """Ends the feed, once the rows that wait are written. An iterable that waits itself for its
        next row is left to do so."""
        self._closing.set()
        self._put(self._end)
        self._done.wait(timeout_s)

    def _read(self) -> None:
        try:
            if isinstance(self._source, AsyncIterable):
                asyncio.run(self._read_async(self._source))
            else:
                for row in self._source:
                    if not self._put(row):
                        break
        except Exception as error:  # noqa: BLE001 - `wait` raises it
            self._error = error
        self._put(self._end)

    async def _read_async(self, rows: AsyncIterable[object]) -> None:
        async for row in rows:
            if not self._put(row):
                break

    def _put(self, row: object) -> bool:
        """Puts a row into the queue once there is room; False where the feed has ended."""
        while not self._done.is_set() and not (self._closing.is_set() and row is not self._end):
            try:
                self._queue.put(row, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def _write_all(self) -> None:
        ended = False
        try:
            while not ended:
                rows, ended = self._next_rows()
                if rows:
                    self.rows += self._write(rows, self.rows + 1)
        except Exception as error:  # noqa: BLE001 - `wait` raises it
            self._error = error
        self._done.set()

    def _next_rows(self) -> tuple[list[object], bool]:
        """Returns the rows that wait, after the first has come, and whether they are the last."""
        rows = [self._queue.get()]
        while rows[-1] is not self._end and len(rows) < _AT_ONCE:
            try:
                rows.append(self._queue.get_nowait())
            except queue.Empty:
                break
        ended = rows[-1] is self._end
        return rows[:-1] if ended else rows, ended
