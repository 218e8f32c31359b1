"""Waits until sockets are ready, at the same cost for ten and for a thousand of them: the kernel
keeps what it was asked of each, and is told of what changes."""

from __future__ import annotations

import select
import time
from collections import deque
from contextlib import suppress
from typing import Any, Final

from waitress import wasyncore

_READ: Final = select.EPOLLIN | select.EPOLLPRI
# What the kernel tells of a socket whatever it was asked.
_TROUBLE: Final = select.EPOLLERR | select.EPOLLHUP
# What a channel wants depends on the clock, too: all are looked at once in so many seconds.
_SWEEP_S: Final = 1.0


class Channels(dict[int, Any]):
    """The channels of a server by their descriptors: waitress puts them here, and takes them away.

    A channel with a request at work does not want to be read. The kernel is told so only if
    something comes all the same, which is seldom: most calls leave it as it was."""

    def __init__(self) -> None:
        super().__init__()
        self._epoll = select.epoll()
        self._asked: dict[int, int] = {}
        self._unsure: deque[int] = deque()
        self._next_sweep = 0.0

    def __setitem__(self, descriptor: int, channel: Any) -> None:
        super().__setitem__(descriptor, channel)
        self._asked[descriptor] = 0
        self._unsure.append(descriptor)  # what it wants it does not know before it is complete

    def __delitem__(self, descriptor: int) -> None:
        super().__delitem__(descriptor)
        if self._asked.pop(descriptor, 0):
            with suppress(OSError, ValueError):
                self._epoll.unregister(descriptor)

    def look_at(self, descriptor: int | None) -> None:
        """Has the thread that waits ask a channel what it wants, when it is awake. Any thread."""
        if descriptor is not None:
            self._unsure.append(descriptor)

    def is_read(self, descriptor: int | None) -> bool:
        """True if the kernel tells of what comes for a channel. Any thread."""
        return bool(self._asked.get(-1 if descriptor is None else descriptor, 0) & _READ)

    def wait(self, seconds: float) -> None:
        """Handles what channels are ready for; waits for it at most so long."""
        now = time.monotonic()
        if now >= self._next_sweep:
            self._next_sweep = now + _SWEEP_S
            self._unsure.extend(self)
        while self._unsure:
            descriptor = self._unsure.popleft()
            if (channel := self.get(descriptor)) is not None:
                self._ask(descriptor, self._asked.get(descriptor, 0) | _wanted(channel))
        for descriptor, ready in self._epoll.poll(seconds):
            self._handle(descriptor, ready)

    def close(self) -> None:
        """Waits no more."""
        self._epoll.close()

    def _handle(self, descriptor: int, ready: int) -> None:
        channel = self.get(descriptor)
        if channel is None:
            return
        wanted = _wanted(channel)
        # Last: a thread that has just answered is to find either that it is not read, or a look
        # that is still to come.
        self._unsure.append(descriptor)
        if wanted and ready & (wanted | _TROUBLE):
            wasyncore.readwrite(channel, ready & (wanted | _TROUBLE))
        else:
            self._ask(descriptor, wanted)

    def _ask(self, descriptor: int, wanted: int) -> None:
        asked = self._asked.get(descriptor, 0)
        if wanted == asked:
            return
        with suppress(OSError):  # another thread has closed it
            if not wanted:
                self._epoll.unregister(descriptor)
            elif asked:
                self._epoll.modify(descriptor, wanted)
            else:
                self._epoll.register(descriptor, wanted)
        self._asked[descriptor] = wanted


def _wanted(channel: Any) -> int:
    # A socket that listens is not to be written to.
    writes = channel.writable() and not channel.accepting
    return (_READ if channel.readable() else 0) | (select.EPOLLOUT if writes else 0)
