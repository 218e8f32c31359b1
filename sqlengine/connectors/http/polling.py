"""Asking a host again and again: what is new goes into the log of a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parser.errors import ExecutionError
from sqlengine.connectors.http.reading import BadAnswer, Reader, at_pointer, text_of
from sqlengine.connectors.receivers.base import Batch, Receiver, Stream, Tail, Taken, Unreachable


@dataclass(frozen=True)
class Polls:
    """The way in which a host is asked. `interval_s`: from one time to the next; `cursor`: the
    pointer to the value of a record that the next request has as the parameter `parameter`, None
    where each gives all; `initial`: its value before there is a record."""

    interval_s: float
    cursor: str | None
    parameter: str
    initial: str | None


class PollReceiver(Receiver):
    """Asks a host at an interval.

    With a cursor it asks for what follows the last record of the log, also after a restart; without
    one it takes all records whenever the host says that they have changed, or does not say."""

    def __init__(self, make: Callable[[], Reader], polls: Polls) -> None:
        self._make = make
        self._polls = polls
        self._reader: Reader | None = None
        self._topics: Sequence[str] = ()
        self._cursor: str | None = None
        self._known: dict[str, str] = {}  # headers by which the host tells whether there is more
        self._told: dict[str, str] = {}  # of what was taken and is not in the log yet
        self._taken_cursor: str | None = None
        self._due = 0.0
        self.now: Callable[[], float] = time.monotonic

    def adopt(self, other: Receiver) -> None:
        """See `Receiver`."""
        if isinstance(other, PollReceiver):
            self._make, self._polls = other._make, other._polls

    def connect(self, streams: Sequence[Stream], gone: Sequence[Stream], tail: Tail) -> None:
        """See `Receiver`."""
        try:
            self._reader = self._make()
        except ExecutionError as error:
            raise Unreachable(error.message, detail=error.detail) from None
        self.follow(streams, gone)
        self._cursor = self._polls.initial
        if self._polls.cursor is None:
            return
        for topic in self._topics:
            for record in reversed(tail(topic, 100).values):
                found = self._cursor_of(record)
                if found is not None:
                    self._cursor = found
                    return

    def follow(self, streams: Sequence[Stream], gone: Sequence[Stream]) -> None:
        """See `Receiver`."""
        self._topics = [stream.topic for stream in streams]

    def take(self, wait_s: float) -> Batch:
        """See `Receiver`. Unreachable where the host is away, or answers what is no rows."""
        left = self._due - self.now()
        if left > 0:
            time.sleep(min(left, wait_s))
            return {}
        try:
            records = self._poll()
        except ExecutionError as error:
            raise Unreachable(error.message, detail=error.detail) from None
        self._due = self.now() + self._polls.interval_s
        if not records:
            self.acknowledge()
            return {}
        return dict.fromkeys(self._topics, Taken(records, [b""] * len(records)))

    def _poll(self) -> list[bytes]:
        assert self._reader is not None
        polls, parameters = self._polls, dict[str, str]()
        if polls.cursor is not None and self._cursor is not None:
            parameters = {polls.parameter: self._cursor}
        records: list[bytes] = []
        self._told, self._taken_cursor = {}, self._cursor
        for number, (answer, page) in enumerate(self._reader.pages(parameters, self._known)):
            records += page
            if answer.status == 304:
                self._told = self._known
            elif not number and self._reader.asked.pagination == "none":
                self._told = {
                    name: answer.headers[told]
                    for name, told in (
                        ("If-None-Match", "etag"),
                        ("If-Modified-Since", "last-modified"),
                    )
                    if told in answer.headers
                }
        if polls.cursor is not None and records:
            self._taken_cursor = self._last_cursor(polls.cursor, records)
        return records

    def _last_cursor(self, cursor: str, records: Sequence[bytes]) -> str:
        """Returns the value of the last record that has one. BadAnswer where none has: the same
        rows would come again and again."""
        for record in reversed(records):
            if (found := self._cursor_of(record)) is not None:
                return found
        begin = records[-1][:200].decode("utf-8", "replace")
        raise BadAnswer(
            f"no row has a value at '{cursor}', which is 'scan.cursor.pointer'",
            detail=f"the last one is {begin}",
        )

    def _cursor_of(self, record: bytes) -> str | None:
        if self._polls.cursor is None:
            return None
        try:
            found = at_pointer(record, self._polls.cursor)
        except ExecutionError:  # it will be a dead letter
            return None
        return None if found is None else text_of(found)

    def acknowledge(self) -> None:
        """See `Receiver`. What was taken is not asked for again."""
        self._cursor = self._taken_cursor
        # Another cursor makes another address, to which these headers do not belong.
        self._known = self._told if self._polls.cursor is None else {}

    def rest(self) -> None:
        """See `Receiver`. Nobody is asked meanwhile."""

    def close(self) -> None:
        """See `Receiver`."""
        self._reader = None
