"""The rows of an ad-hoc statement on their way to its client: a bounded buffer that is read page by
page.

A page has a token, the first is 0. Who asks for the next token takes the next page; who asks for
the last one again, since its answer was lost, gets the same rows. These are the rules of Flink's
gateway (`ResultFetcher`)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from parser.errors import ServiceError, SqlError
from parser.types import Schema
from sqlengine.batch import MIN_WATERMARK, Batch
from sqlengine.formats.results import Row, rows_of

# Rows that wait for the client, and their bytes, at most, besides those of the epoch that goes
# beyond it.
BUFFERED_ROWS = 5_000
BUFFERED_BYTES = 16 << 20
PAGE_ROWS = 1_000
PAGE_BYTES = 4 << 20


class TokenMissed(ServiceError):
    """A page was asked for that is gone, or that nobody can have seen."""


@dataclass(frozen=True)
class Page:
    """Some rows of a result. `next`: the token of the page behind it; None if there is none."""

    token: int
    batches: tuple[Batch, ...]
    next: int | None

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The rows, each with its kind and its values as JSON has them."""
        return tuple(row for batch in self.batches for row in rows_of(batch))


class ResultBuffer:
    """Holds rows between the thread that makes them and those that ask for pages.

    `schema`: the columns, once they are known. `changes`: rows may be updated or deleted.
    `watermark`: the last one that has come (ms). `asked_at`: when a page was last asked for
    (monotonic seconds). `message`: the answer of a statement without rows. `is_query`: the rows are
    those of a SELECT; `job`: the name of the job that an INSERT has become, `written`: the rows
    that one has written."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._changed = threading.Condition()
        self._batches: deque[Batch] = deque()
        self._rows = self._bytes = 0
        self._last: Page | None = None
        self._token = 0
        self._complete = False
        self._error: SqlError | None = None
        self._asking = 0
        self._asked_at = now()
        self.schema: Schema | None = None
        self.changes = False
        self.watermark = MIN_WATERMARK
        self.message: str | None = None
        self.is_query = False
        self.job: str | None = None
        self.written: int | None = None

    # ---- the thread that makes rows --------------------------------------------------------------

    def announce(self, schema: Schema, *, changes: bool = False) -> None:
        """Says which columns the rows have."""
        with self._changed:
            self.schema, self.changes = schema, changes
            self._changed.notify_all()

    def put(self, batch: Batch) -> None:
        """Adds rows; those that come after the end are dropped."""
        with self._changed:
            self.watermark = max(self.watermark, batch.watermark)
            if batch.num_rows and not self._complete:
                self._batches.append(batch)
                self._rows += batch.num_rows
                self._bytes += batch.nbytes
                self._changed.notify_all()

    def wait_for_space(self, seconds: float) -> bool:
        """Waits until the client has taken enough rows, `seconds` at most; True if it has."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._complete or (self._rows < BUFFERED_ROWS and self._is_small()), seconds
            )

    def wait_for_bytes(self, seconds: float) -> bool:
        """Waits until the client has taken so many rows that the bytes of the others are few,
        `seconds` at most; True if it has."""
        with self._changed:
            return self._changed.wait_for(lambda: self._complete or self._is_small(), seconds)

    def _is_small(self) -> bool:
        return self._bytes < BUFFERED_BYTES

    def complete(self, error: SqlError | None = None, message: str | None = None) -> None:
        """Says that no more rows come, and why. The first call counts."""
        with self._changed:
            if not self._complete:
                self._complete, self._error, self.message = True, error, message
                self._changed.notify_all()

    # ---- the client ------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """True if no more rows are made."""
        return self._complete

    @property
    def error(self) -> SqlError | None:
        return self._error

    def drop(self) -> None:
        """Forgets the rows that nobody has read."""
        with self._changed:
            self._batches.clear()
            self._rows = self._bytes = 0
            self._last = None
            self._changed.notify_all()

    @property
    def size(self) -> int:
        """The bytes of the rows that wait for the client."""
        return self._bytes

    def silent_for(self) -> float:
        """Returns the seconds since the client last asked; 0 while it waits for an answer."""
        with self._changed:
            return 0.0 if self._asking else self._now() - self._asked_at

    def page(self, token: int, wait_s: float, most: int = PAGE_ROWS) -> Page:
        """Returns the page with this token, of `most` rows at most, after at most `wait_s` seconds
        for its first row.

        Behind the last row raises the error with which the statement ended, if it did; TokenMissed
        for a token that is neither the next one nor the last again."""
        with self._changed:
            if self._last is not None and token == self._last.token:
                self._asked_at = self._now()
                return self._last
            if token != self._token:
                raise TokenMissed(
                    f"page {token} of the result is not to be had",
                    detail=f"the next one is {self._token}",
                )
            self._asking += 1
            try:
                self._changed.wait_for(lambda: self._batches or self._complete, wait_s)
            finally:
                self._asking -= 1
                self._asked_at = self._now()
            return self._next_page(most)

    def _next_page(self, most: int) -> Page:
        if not self._batches and self._error is not None:
            raise self._error
        batches = tuple(self._take(most))
        over = self._complete and not self._batches and self._error is None
        if batches or over:
            self._token += 1
            self._last = Page(self._token - 1, batches, None if over else self._token)
            return self._last
        return Page(self._token, (), self._token)

    def _take(self, most: int) -> list[Batch]:
        taken: list[Batch] = []
        rows = size = 0
        while self._batches and rows < most and size < PAGE_BYTES:
            batch = self._batches.popleft()
            self._bytes -= batch.nbytes
            each = max(1, batch.nbytes // batch.num_rows)
            count = min(most - rows, max(1, (PAGE_BYTES - size) // each))
            if count < batch.num_rows:
                rest = batch.slice(count, batch.num_rows - count)
                self._batches.appendleft(rest)
                self._bytes += rest.nbytes
                batch = batch.slice(0, count)
            taken.append(batch)
            rows += batch.num_rows
            size += each * batch.num_rows
        self._rows -= rows
        self._changed.notify_all()
        return taken

    def wait_ready(self, wait_s: float) -> None:
        """Waits until the columns are known or the statement has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._complete or self.schema is not None, wait_s)
