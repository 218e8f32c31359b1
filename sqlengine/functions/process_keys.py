"""The memories of keys, while a worker has them for a request to a process function."""

from __future__ import annotations

import datetime as dt
import heapq
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from typing import Any

import msgspec

from sqlengine.functions.hints import fields_of
from sqlengine.functions.process_views import Views

_EPOCH = dt.datetime(1970, 1, 1)
_UTC_EPOCH = _EPOCH.replace(tzinfo=dt.UTC)
_MS = dt.timedelta(milliseconds=1)
MIN_WATERMARK, NEVER = -(2**63), 2**63

# A timer by its name, or by its time (ms) where it has none.
Timer = str | int
Due = tuple[int, int, str, Timer]


@dataclass(slots=True)
class Key:
    """The memory of one key. `before`: as it came, its first timer at `first` (ms); `number`: its
    place in the request; `events`: those that went well, to be repeated where one fails."""

    before: tuple[bytes | None, bytes | None]
    first: int | None = None
    number: int = 0
    state: Any = None
    loaded: bool = False
    timers: dict[Timer, int] | None = None
    events: list[tuple[Any, ...]] = field(default_factory=list)


class Memory:
    """Reads and writes memories. `due`: two heaps of timers of all keys (time, key, name, timer),
    of those without a name and of those with one; one that its key does not have any more means
    nothing."""

    def __init__(self, state: type | None, views: Views) -> None:
        self._state = state
        self._views = views
        self._plain = _plain(state, views)
        self._decoder: Any = None if state is None else msgspec.msgpack.Decoder(self._plain)
        self._encoder = msgspec.msgpack.Encoder()
        self._fields = [] if self._plain is state else [f.name for f in fields(self._plain)]
        self.due: tuple[list[Due], list[Due]] = ([], [])

    def state_of(self, key: Key) -> Any:
        if not key.loaded:
            data = key.before[0]
            key.loaded = True
            if self._state is None:
                raise AttributeError("the function has no class State")
            key.state = self._state() if data is None else self._decoded(self._state, data)
            self._views.attach(key.state, key.number)
        elif key.state is None and self._state is not None:  # forgotten
            key.state = self._state()
            self._views.attach(key.state, key.number)
        return key.state

    def _decoded(self, state: type, data: bytes) -> Any:
        found = self._decoder.decode(data)
        if self._plain is state:
            return found
        made = state()
        for name in self._fields:
            setattr(made, name, getattr(found, name))
        return made

    def replace(self, key: Key, state: Any) -> None:
        """Gives a key another state; the entries of its views stay."""
        self.state_of(key)
        self._views.attach(state, key.number)
        key.state = state

    def forget(self, key: Key) -> None:
        """Forgets the state of a key, and the entries of its views."""
        key.state, key.loaded = None, True
        self._views.clear(key.number)

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
        name = timer if isinstance(timer, str) else ""
        heapq.heappush(self.due[isinstance(timer, str)], (time, number, name, timer))

    def first_due(self) -> int:
        """The time of the first timer (ms), NEVER where there is none."""
        return min((heap[0][0] for heap in self.due if heap), default=NEVER)

    def reset(self, key: Key) -> None:
        """Makes the key what it was before the request."""
        key.state, key.loaded, key.timers = None, False, None
        self._views.reset(key.number)

    def _encoded_state(self, state: Any) -> bytes | None:
        if self._plain is self._state:
            return self._encoder.encode(state)
        if not self._fields:
            return None
        return self._encoder.encode({name: getattr(state, name) for name in self._fields})

    def encoded(self, key: Key) -> tuple[bytes | None, bytes | None, int | None]:
        """The state, the timers, and the time of the first one."""
        state = key.before[0]
        if key.loaded:
            state = None if key.state is None else self._encoded_state(key.state)
        if key.timers is None:
            return state, key.before[1], key.first
        if not key.timers:
            return state, None, None
        known = [(t, n if isinstance(n, str) else None) for n, t in key.timers.items()]
        known.sort(key=lambda pair: (pair[0], pair[1] or ""))
        return state, self._encoder.encode(known), known[0][0]


def _plain(state: type | None, views: Views) -> Any:
    """The class of a state without its views: the state itself where there are none."""
    if state is None or not views.fields:
        return state
    hidden = {view.name for view in views.fields}
    hints = dict(fields_of(state))
    kept = [f for f in fields(state) if f.name not in hidden]
    given = [
        (f.name, hints[f.name], field(default_factory=f.default_factory))
        if f.default is MISSING
        else (f.name, hints[f.name], field(default=f.default))
        for f in kept
    ]
    return make_dataclass(state.__name__, given)


def milliseconds_of(at: object, *, zoned: bool) -> int:
    """A time as a number. ValueError for one of the other kind."""
    if not isinstance(at, dt.datetime) or (at.tzinfo is not None) is not zoned:
        kind = "with a time zone" if zoned else "without a time zone"
        raise ValueError(f"{at!r} is no datetime {kind}, as those of the table are")
    return (at - (_UTC_EPOCH if zoned else _EPOCH)) // _MS


def datetime_of(ms: int, *, zoned: bool) -> dt.datetime:
    """OverflowError where Python has no such time."""
    return (_UTC_EPOCH if zoned else _EPOCH) + ms * _MS
