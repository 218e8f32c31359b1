"""The `ctx` of process functions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from sqlengine.functions.process_keys import (
    MIN_WATERMARK,
    Key,
    Memory,
    Timer,
    datetime_of,
    milliseconds_of,
)


class CallContext:
    """The `ctx` of a function: the key at work, and the time."""

    def __init__(self, memory: Memory, zoned: bool) -> None:
        self._memory = memory
        self._zoned = zoned
        self._number = 0
        self._key = Key((None, None))
        self._ms: int | None = None
        self._watermark_ms = MIN_WATERMARK
        self._keys: Callable[[int], tuple[object, ...]] = lambda number: ()

    @property
    def state(self) -> Any:
        key = self._key
        return key.state if key.state is not None else self._memory.state_of(key)

    @state.setter
    def state(self, value: Any) -> None:
        self._memory.replace(self._key, value)

    @property
    def key(self) -> tuple[object, ...]:
        return self._keys(self._number)

    @property
    def time(self) -> dt.datetime | None:
        return None if self._ms is None else datetime_of(self._ms, zoned=self._zoned)

    @property
    def watermark(self) -> dt.datetime | None:
        if self._watermark_ms == MIN_WATERMARK:
            return None
        try:
            return datetime_of(self._watermark_ms, zoned=self._zoned)
        except OverflowError:  # all rows have come
            return dt.datetime.max.replace(tzinfo=dt.UTC if self._zoned else None)

    def set_timer(self, at: dt.datetime, name: str | None = None) -> None:
        if self._ms is None:
            raise ValueError("timers need a time: call the function with on_time => DESCRIPTOR(…)")
        ms = milliseconds_of(at, zoned=self._zoned)
        timer: Timer = ms if name is None else name
        self._memory.timers_of(self._key)[timer] = ms
        self._memory.push(self._number, timer, ms)

    def clear_timer(self, timer: str | dt.datetime) -> None:
        known = timer if isinstance(timer, str) else milliseconds_of(timer, zoned=self._zoned)
        self._memory.timers_of(self._key).pop(known, None)

    def clear_timers(self) -> None:
        self._memory.timers_of(self._key).clear()

    def clear_state(self) -> None:
        self._memory.forget(self._key)

    def clear(self) -> None:
        self.clear_state()
        self.clear_timers()
