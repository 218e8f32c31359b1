"""The receivers of one process: one for each place, however many tables read what it takes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from parser.errors import OptionError
from sqlengine.broker.base import Broker
from sqlengine.connectors.folder_name import folder_name
from sqlengine.connectors.health import Health
from sqlengine.connectors.receivers.base import Receiver, Stream
from sqlengine.connectors.receivers.log import Position, ReceivedLog
from sqlengine.connectors.receivers.store import Known, StreamStore
from sqlengine.connectors.receivers.worker import ReceiverThread, ReceiverView


@dataclass(frozen=True)
class Wanted:
    """The stream that a table wants. `settings`: options on which all who share the place agree;
    `make` returns a receiver for it; `apart`: the option that gives a table a connection of its
    own."""

    table: str
    stream: Stream
    settings: Mapping[str, str]
    make: Callable[[], Receiver]
    apart: str | None = None


class Reading:
    """One reader of a log, from its opening to `close`."""

    def __init__(self, owner: Receivers, log: ReceivedLog, position: Position) -> None:
        self._owner = owner
        self._log = log
        self._position = position

    @property
    def opened(self) -> int:
        """The end of the log when reading was opened: what has come since was asked for by it."""
        return self._position.opened

    def begins(self, offset: int) -> None:
        """Tells where reading begins, or goes on: nothing from here on may go."""
        self._position.begin(offset)

    def moved(self, offset: int) -> None:
        """Tells that all before this offset was read."""
        self._position.read = offset

    def checkpointed(self, offset: int) -> None:
        """Tells that a checkpoint was begun at this offset."""
        self._position.checkpointed(offset)

    @property
    def health(self) -> Health:
        """The health of the connection that brings the messages."""
        return self._log.health

    def close(self) -> None:
        """Ends reading."""
        self._owner.release(self._log, self._position)


class Receivers:
    """Starts a receiver with the first reader of a place, and ends it after the last. Any thread.

    `lasting`: False in a process whose topics go with it, so that no place need remember it."""

    def __init__(self, broker: Broker, clock: Callable[[], int], *, lasting: bool = True) -> None:
        self.lasting = lasting
        self._broker = broker
        self._clock = clock
        self._store = StreamStore(broker, clock)
        self._threads: dict[str, ReceiverThread] = {}
        self._settings: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._lock = threading.RLock()
        self._stopped = False

    def identity(self) -> str:
        """Returns a name that no other server has, the same after a restart."""
        with self._lock:
            return folder_name(self._broker)

    def open(self, wanted: Wanted) -> Reading:
        """Adds a reader of a stream. OptionError where another table says otherwise how its place
        is reached; BrokerError where there can be no log."""
        stream = wanted.stream
        with self._lock:
            thread = self._thread_of(wanted)
            log = thread.logs.get(stream.topic)
            if log is None:
                log = ReceivedLog(self._broker, self._clock, stream)
                self._store.put(Known(stream))
            elif log.released_ms is not None:
                self._store.put(Known(stream))
            position = log.open()
            if stream.topic not in thread.logs:
                thread.add(log)
            if not thread.alive:
                thread.start()
                self._sweep()
            return Reading(self, log, position)

    def _thread_of(self, wanted: Wanted) -> ReceiverThread:
        """Returns the thread of a place, which is started once it has a reader."""
        place = wanted.stream.place
        thread = self._threads.get(place)
        if thread is not None and thread.alive:
            same = self._agrees(wanted)
            self._settings[place] = wanted.table, wanted.settings
            thread.receiver.adopt(wanted.make())
            thread.renew(at_once=not same)
            return thread
        ended = {} if thread is None else thread.logs
        thread = ReceiverThread(place, wanted.make(), self._clock, self._retire, self._expire)
        for log in ended.values():
            thread.add(log)
        self._settings[place] = wanted.table, wanted.settings
        for known in self._store.streams():
            stream = known.stream
            if stream.place == place and stream.lasting_ms and stream.topic not in ended:
                log = ReceivedLog(self._broker, self._clock, stream)
                log.released_ms = self._released_ms(known)
                thread.add(log)
        self._threads[place] = thread
        return thread

    def _agrees(self, wanted: Wanted) -> bool:
        """Returns False where the place is to be reached in another way: for a new version of the
        table, or as nobody reads it now. OptionError where another table says otherwise how that
        is."""
        place = wanted.stream.place
        table, settings = self._settings[place]
        options = sorted(settings.keys() | wanted.settings.keys())
        differing = [o for o in options if settings.get(o) != wanted.settings.get(o)]
        read = any(log.readers for log in self._threads[place].logs.values())
        if differing and table != wanted.table and read:
            raise OptionError(
                f"table '{wanted.table}' shares a connection to {place} with '{table}', and differs"
                f" in '{differing[0]}'",
                hint=f"give both the same '{differing[0]}'"
                + (f", or one of them another '{wanted.apart}'" if wanted.apart else ""),
                subject=differing[0],
            )
        return not differing

    def at(self, place: str) -> Receiver | None:
        """Returns what receives at a place; None where nobody reads that."""
        with self._lock:
            thread = self._threads.get(place)
            return None if thread is None or not thread.alive else thread.receiver

    def release(self, log: ReceivedLog, position: Position) -> None:
        """Removes a reader."""
        with self._lock:
            if log.close(position) and not self._stopped:
                self._store.put(Known(log.stream, log.released_ms))

    def _retire(self, thread: ReceiverThread) -> bool:
        """Lets a thread end that has no reader; False where one has come."""
        with self._lock:
            if any(log.readers for log in thread.logs.values()):
                return False
            if self._threads.get(thread.place) is thread:
                del self._threads[thread.place]
            self._sweep()
            return True

    def _expire(self, log: ReceivedLog) -> None:
        """Takes no more for a log that nobody has read for long."""
        with self._lock:
            thread = self._threads.get(log.stream.place)
            if log.readers or thread is None:
                return
            thread.drop(log.stream)
            if not log.expired(self._clock()):  # a refused one: a new log begins anew
                self._store.forget(log.stream)
            self._sweep()

    def _sweep(self) -> None:
        """Deletes logs that nobody has read for as long as they are taken and kept."""
        now = self._clock()
        filled = {topic for thread in self._threads.values() for topic in thread.logs}
        for known in self._store.streams():
            stream = known.stream
            kept_ms = stream.lasting_ms + stream.retention_ms
            if stream.topic not in filled and now - self._released_ms(known) >= kept_ms:
                self._store.forget(stream)

    def _released_ms(self, known: Known) -> int:
        """Returns when the last reader of a stream went that has none now. One that went with the
        process before this one may come back: its time begins now."""
        if known.released_ms is not None:
            return known.released_ms
        now = self._clock()
        self._store.put(Known(known.stream, now))
        return now

    def views(self) -> list[ReceiverView]:
        """Returns what each receiver has done, by place."""
        with self._lock:
            threads = dict(self._threads)
        return [threads[place].view() for place in sorted(threads)]

    def stop(self) -> None:
        """Ends all receivers. What was taken and not acknowledged is taken again."""
        with self._lock:
            self._stopped = True
            threads, self._threads = list(self._threads.values()), {}
        for thread in threads:
            thread.stop()
