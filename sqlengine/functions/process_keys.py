"""The memories of keys, while a worker has them for a request to a process function."""

from __future__ import annotations

import datetime as dt
import heapq
from dataclasses import dataclass, field
from typing import Any

import msgspec

_EPOCH = dt.datetime(1970, 1, 1)
_UTC_EPOCH = _EPOCH.replace(tzinfo=dt.UTC)
_MS = dt.timedelta(milliseconds=1)
MIN_WATERMARK = -(2**63)

# A timer by its name, or by its time (ms) where it has none.
Timer = str | int


@dataclass(slots=True)
class Key:
    """The memory of one key. `before`: as it came, its first timer at `first` (ms); `events`: those
    that went well, to be repeated where one fails."""

    before: tuple[bytes | None, bytes | None]
    first: int | None = None
    state: Any = None
    loaded: bool = False
    timers: dict[Timer, int] | None = None
    events: list[tuple[Any, ...]] = field(default_factory=list)


class Memory:
    """Reads and writes memories. `due`: a heap of timers of all keys (time, key, name, timer); one
    that its key does not have any more means nothing."""

    def __init__(self, state: type | None) -> None:
        self._state = state
        self._decoder: Any = None if state is None else msgspec.msgpack.Decoder(state)
        self._encoder = msgspec.msgpack.Encoder()
        self.due: list[tuple[int, int, str, Timer]] = []

    def state_of(self, key: Key) -> Any:
        if not key.loaded:
            data = key.before[0]
            key.loaded = True
            if self._state is None:
                raise AttributeError("the function has no class State")
            key.state = self._state() if data is None else self._decoder.decode(data)
        elif key.state is None and self._state is not None:  # forgotten
            key.state = self._state()
        return key.state

    def timers_of(self, key: Key) -> dict[Timer, int]:
        if key.timers is None:
            data = key.before[1]
            known = [] if data is None else msgspec.msgpack.decode(data)
            key.timers = {time if name is None else name: time for time, name in known}
        return key.timers

    def file(self, number: int, key: Key) -> None:
        """Puts the timers of a key into the heap."""
        for timer, time in self.timers_of(key).items():
            self.push(number, timer, time)

    def push(self, number: int, timer: Timer, time: int) -> None:
        heapq.heappush(self.due, (time, number, timer if isinstance(timer, str) else "", timer))

    def reset(self, key: Key) -> None:
        """Makes the key what it was before the request."""
        key.state, key.loaded, key.timers = None, False, None

    def encoded(self, key: Key) -> tuple[bytes | None, bytes | None, int | None]:
        """The state, the timers, and the time of the first one."""
        state = key.before[0]
        if key.loaded:
            state = None if key.state is None else self._encoder.encode(key.state)
        if key.timers is None:
            return state, key.before[1], key.first
        if not key.timers:
            return state, None, None
        known = [(t, n if isinstance(n, str) else None) for n, t in key.timers.items()]
        known.sort(key=lambda pair: (pair[0], pair[1] or ""))
        return state, self._encoder.encode(known), known[0][0]


def milliseconds_of(at: object, *, zoned: bool) -> int:
    """A time as a number. ValueError for one of the other kind."""
    if not isinstance(at, dt.datetime) or (at.tzinfo is not None) is not zoned:
        kind = "with a time zone" if zoned else "without a time zone"
        raise ValueError(f"{at!r} is no datetime {kind}, as those of the table are")
    return (at - (_UTC_EPOCH if zoned else _EPOCH)) // _MS


def datetime_of(ms: int, *, zoned: bool) -> dt.datetime:
    """OverflowError where Python has no such time."""
    return (_UTC_EPOCH if zoned else _EPOCH) + ms * _MS
