"""The thread of a receiver: it connects, takes messages, appends them and acknowledges."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from parser.errors import ServiceError, SqlError, TryAgain
from sqlengine.connectors.receivers.base import Batch, Receiver, Stream, Taken
from sqlengine.connectors.receivers.log import ReceivedLog
from sqlengine.system.back_off import BackOff
from sqlengine.system.threads import Background

log = logging.getLogger("sqlengine")

# Seconds for which a connection is kept after its last reader has gone: another may come at once.
_LINGER_S: Final = 2.0
_WAIT_S: Final = 0.2  # for messages
_TIDY_S: Final = 10.0  # between two looks for what can go
_REST_S: Final = 0.05  # while nothing can be appended
_SAID_S: Final = 60.0  # until the same is said again in the log


@dataclass(frozen=True)
class ReceiverView:
    """The state of a receiver for people, with its counts since the process began.

    `place`: where it takes messages; `connected`, and `trouble`: why it takes none now; `streams`:
    how many logs it fills, and `asked`: for how many of them the place knows that; `repeated`:
    messages whose key was seen before; `unwanted`: those that no stream asks for; `unread`: those
    that the slowest reader of each log has not read."""

    place: str
    connected: bool
    trouble: str | None
    streams: int
    asked: int
    messages: int
    bytes: int
    repeated: int
    unwanted: int
    connections: int
    failures: int
    unread: int
    unread_bytes: int


class ReceiverThread(Background):
    """Runs one receiver while somebody reads, and some moments longer.

    `retire` is asked before it ends by itself: False where a reader has come meanwhile. `expired`
    is told the logs that nobody has read for so long that no more is taken for them."""

    patience_s = 15

    def __init__(
        self,
        place: str,
        receiver: Receiver,
        clock: Callable[[], int],
        retire: Callable[[ReceiverThread], bool],
        expired: Callable[[ReceivedLog], None],
    ) -> None:
        super().__init__(f"receiver {place}"[:100])
        self.place = place
        self.receiver = receiver
        self.logs: dict[str, ReceivedLog] = {}
        self.connected = False
        self._clock = clock
        self._retire = retire
        self._expired = expired
        self._gone: list[Stream] = []
        self._changed = False
        self._renewed = False
        self._woken = threading.Event()
        self._trouble: str | None = None
        self._told = "", 0.0  # the last line in the log, and when
        self._idle_since: float | None = None
        self._tidied = time.monotonic()
        self._connections = self._failures = self._asked = 0

    # ---- other threads ---------------------------------------------------------------------------

    def add(self, added: ReceivedLog) -> None:
        """Takes messages for one more log. Any thread, one at a time."""
        self.logs = {**self.logs, added.topic: added}
        self._gone = [s for s in self._gone if s.topic != added.topic]
        self._changed = True

    def drop(self, stream: Stream) -> None:
        """Asks for no more messages of a stream. Any thread, one at a time."""
        self.logs = {topic: one for topic, one in self.logs.items() if topic != stream.topic}
        self._gone = [*self._gone, stream]
        self._changed = True

    def renew(self, *, at_once: bool) -> None:
        """Tries at once to connect, if it waits to do so; `at_once`: also where it is connected, as
        that is to be done in another way now. Any thread."""
        self._renewed = self._renewed or at_once
        self._woken.set()

    def stop(self) -> None:
        """See `Background`."""
        self._stopping.set()
        self._woken.set()
        super().stop()

    @property
    def alive(self) -> bool:
        """True until it has ended."""
        return self._thread.is_alive()

    def view(self) -> ReceiverView:
        """Returns what it has done. Any thread."""
        logs = list(self.logs.values())
        return ReceiverView(
            self.place,
            self.connected,
            self._trouble,
            len(logs),
            self._asked if self.connected else 0,
            sum(one.received for one in logs),
            sum(one.bytes for one in logs),
            sum(one.repeated for one in logs),
            self.receiver.unwanted,
            self._connections,
            self._failures,
            sum(one.unread() for one in logs),
            sum(one.unread_bytes for one in logs),
        )

    # ---- its own thread --------------------------------------------------------------------------

    def _run(self) -> None:
        pauses = BackOff()
        try:
            while not self._stopping.is_set() and self._attempt(pauses):
                pass
        finally:
            self.connected = False
            self.receiver.close()

    def _attempt(self, pauses: BackOff) -> bool:
        """Connects and takes messages until something is in the way, and pauses then; returns False
        once the thread is to end."""
        self._woken.clear()
        try:
            if self._done():
                return False
            self._connect()
            pauses.works()
            self._receive()
        except SqlError as error:
            self._lost(" ".join(str(error).split()))
        except Exception as error:  # it may pass, and nobody else would try again
            log.exception("receiver of %s: a fault of its own", self.place)
            kind = type(error).__name__
            self._lost(f"a fault of its own, see the log of the server: {kind}: {error}")
        else:
            return True
        if not self._stopping.is_set():
            self._woken.wait(pauses.failed(time.monotonic()))
        return True

    def _done(self) -> bool:
        """True if the thread is to end: it was stopped, or nobody has read for some moments."""
        if self._stopping.is_set():
            return True
        if any(one.readers for one in self.logs.values()):
            self._idle_since = None
            return False
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        return now - self._idle_since >= _LINGER_S and self._retire(self)

    def _connect(self) -> None:
        self._renewed = False
        logs = self._prepared()
        self.receiver.connect([one.stream for one in logs], self._gone, self._tail)
        self.connected = True
        self._connections += 1
        self._works()

    def _prepared(self) -> list[ReceivedLog]:
        """Returns the logs of the streams that are asked for from now on."""
        self._changed = False
        logs = list(self.logs.values())
        for one in logs:
            if not one.prepared:
                one.prepare(self.receiver.key_of(one.stream))
        return logs

    def _receive(self) -> None:
        while not self._done() and not self._renewed:
            if self._changed:
                self.receiver.follow([one.stream for one in self._prepared()], self._gone)
                self._gone = []
                self._works()
            if any(one.full for one in self.logs.values()):
                self._rest("messages wait to be read, and no more are taken (receive.max-unread)")
            else:
                batch = self.receiver.take(_WAIT_S)
                if batch:
                    self._append(batch)
                    self.receiver.acknowledge()
                self._rested()
            self._tidy()

    def _append(self, batch: Batch) -> None:
        """Appends what was taken; waits while there is no space."""
        for topic, taken in batch.items():
            appended = False
            while not appended and not self._stopping.is_set():
                try:
                    self.logs[topic].append(taken)
                    appended = True
                except ServiceError as error:
                    if not isinstance(error, TryAgain):
                        raise
                    self._rest(str(error))
            if not appended:
                raise ServiceError("the server stops")  # and what was taken is not acknowledged

    def _rest(self, why: str) -> None:
        self._in_trouble(why)
        self.receiver.rest()
        self._stopping.wait(_REST_S)

    def _lost(self, why: str) -> None:
        self.connected = False
        self.receiver.close()
        if not self._stopping.is_set():
            self._failures += 1
            for one in list(self.logs.values()):
                one.health.errors += 1
                one.health.retries += 1
            self._in_trouble(why)

    def _rested(self) -> None:
        """Notes that a rest is over, where there was one: that is no new connection."""
        if self._trouble is not None:
            self._trouble = None
            for one in list(self.logs.values()):
                one.health.trouble = self.receiver.refused(one.stream)

    def _in_trouble(self, what: str) -> None:
        if self._trouble == what:
            return
        self._trouble = what
        for one in list(self.logs.values()):
            one.health.trouble = what
        told, now = self._told, time.monotonic()
        if what != told[0] or now - told[1] > _SAID_S:
            log.warning("receiver of %s: %s", self.place, what)
            self._told = what, now

    def _works(self) -> None:
        """Notes that messages may come now: all that was in the way is gone."""
        self._trouble = None
        self._asked = len(self.logs)
        self._tell_refusals()

    def _tell_refusals(self) -> None:
        for one in list(self.logs.values()):
            if (reason := self.receiver.refused(one.stream)) is not None:
                one.health.trouble = reason
            else:
                one.health.works()

    def _tail(self, topic: str, count: int) -> Taken:
        return self.logs[topic].tail(count)

    def _tidy(self) -> None:
        now = time.monotonic()
        if now - self._tidied < _TIDY_S:
            return
        self._tidied = now
        if self._trouble is None:
            self._tell_refusals()
        for one in list(self.logs.values()):
            one.tidy()
            refused = self.receiver.refused(one.stream) is not None
            if one.expired(self._clock(), refused=refused):
                self._expired(one)
