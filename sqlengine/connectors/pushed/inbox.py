"""The inbox of a place: requests wait in it until their messages are in the log."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from parser.errors import ServiceError
from sqlengine.connectors.pushed.metadata import decode_metadata
from sqlengine.connectors.receivers.base import Batch, Receiver, Stream, Tail, Taken

# Bytes that wait to be appended, and bytes of one append.
_MOST_WAITING: Final = 64 << 20
_MOST_TAKEN: Final = 16 << 20
# Keys of requests that are remembered, and messages of a log that are searched for them.
_MOST_KEYS: Final = 20_000
_SEARCHED: Final = 200_000
# Seconds after which a client may try again.
RETRY_S: Final = 1


class NotTaken(ServiceError):
    """Messages are not taken now: the client sends them again later."""


@dataclass
class Push:
    """The messages of one request: payloads, and what comes with each. `key` knows it from others,
    None where the client gives none. `done` is set once it is safe, or `failure` says why not; of a
    repeated one the first one's say it, as long as that is on its way."""

    values: Sequence[bytes] = field(repr=False)
    metadata: Sequence[bytes] = field(repr=False)
    key: str | None = None
    repeated: bool = False
    first: Push | None = None
    failure: str | None = None
    done: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def size(self) -> int:
        return sum(map(len, self.values)) + sum(map(len, self.metadata))

    def wait(self, timeout_s: float) -> None:
        """Waits until it is safe. NotTaken where it is not in time: it may be so later, and who has
        given a key can send it again without harm."""
        told = self if self.first is None else self.first
        if not told.done.wait(timeout_s):
            raise NotTaken("the rows are not safe yet", hint="send them again, with the same key")
        if told.failure is not None:
            raise NotTaken("the rows are not taken", detail=told.failure)


class Inbox(Receiver):
    """A receiver to which clients come. `offer` may be called from any thread.

    A request is appended as a whole or not at all. One whose key was seen is answered as the first
    one was, without a second append: keys are read from the end of the log after a restart."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._topics: Sequence[str] = ()
        self._waiting: deque[Push] = deque()
        self._size = 0
        self._taken: list[Push] = []
        self._keys: OrderedDict[str, Push | None] = OrderedDict()
        self._rests: str | None = "it is not open yet"

    # ---- clients ---------------------------------------------------------------------------------

    def offer(self, push: Push) -> Push:
        """Puts messages into the inbox; returns what to wait for. NotTaken where there is no room,
        or nothing is taken."""
        with self._changed:
            if self._rests is not None:
                raise NotTaken("rows are not taken now", detail=self._rests)
            if push.key is not None and push.key in self._keys:
                return self._again(push.key)
            if self._waiting and self._size + push.size > _MOST_WAITING:
                raise NotTaken("rows are not taken now", detail="too many wait to be written")
            self._waiting.append(push)
            self._size += push.size
            if push.key is not None:
                self._keys[push.key] = push
            self._changed.notify()
        return push

    def _again(self, key: str) -> Push:
        """Returns what a request with a known key has to wait for."""
        first = self._keys[key]
        self._keys.move_to_end(key)
        repeated = Push((), (), key, repeated=True, first=first)
        if first is None:  # it was in the log when that was opened
            repeated.done.set()
        return repeated

    # ---- its thread ------------------------------------------------------------------------------

    def connect(self, streams: Sequence[Stream], gone: Sequence[Stream], tail: Tail) -> None:
        """See `Receiver`. There is one stream: all who read a place read the same."""
        topics = [stream.topic for stream in streams]
        keys: OrderedDict[str, Push | None] = OrderedDict()
        for topic in topics:
            for data in tail(topic, _SEARCHED).metadata:
                if (key := decode_metadata(data).key) is not None:
                    keys[key] = None
        while len(keys) > _MOST_KEYS:
            keys.popitem(last=False)
        with self._changed:
            self._topics, self._keys, self._rests = topics, keys, None

    def follow(self, streams: Sequence[Stream], gone: Sequence[Stream]) -> None:
        """See `Receiver`."""
        with self._changed:
            self._topics = [stream.topic for stream in streams]

    def take(self, wait_s: float) -> Batch:
        """See `Receiver`."""
        with self._changed:
            self._rests = None
            self._changed.wait_for(lambda: bool(self._waiting), wait_s)
            taken, size = Taken(), 0
            while self._waiting and size < _MOST_TAKEN:
                push = self._waiting.popleft()
                size += push.size
                taken.values += push.values
                taken.metadata += push.metadata
                self._taken.append(push)
            self._size -= size
            return dict.fromkeys(self._topics, taken) if self._taken else {}

    def acknowledge(self) -> None:
        """See `Receiver`. Answers the clients."""
        with self._changed:
            taken, self._taken = self._taken, []
            for push in taken:
                push.done.set()
            while len(self._keys) > _MOST_KEYS:
                self._keys.popitem(last=False)

    def rest(self) -> None:
        """See `Receiver`. New requests are refused meanwhile, those that wait go on waiting."""
        with self._changed:
            self._rests = "what was taken before is not read yet, or there is no space"

    def close(self) -> None:
        """See `Receiver`. Requests that wait are refused: their clients send them again."""
        with self._changed:
            self._rests = "nobody reads them now"
            refused, self._taken = [*self._taken, *self._waiting], []
            self._waiting.clear()
            self._size = 0
            for push in refused:
                push.failure = "the server stops, or reads them no more"
                if push.key is not None:
                    self._keys.pop(push.key, None)
                push.done.set()
