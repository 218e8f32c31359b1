"""What happens to files between two system calls of a reader of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import DirEntry
from types import FrameType
from typing import Any, Final

_CALLS: Final = {"stat", "lstat", "fstat", "readlink", "scandir", "listdir", "open", "pread"}


@dataclass
class Calls:
    """Counts the calls that ask the file system for something. `events`: what happens just before
    a call, by its number."""

    events: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    count: int = 0

    def _profile(self, _: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and _asks(called):
            number, self.count = self.count, self.count + 1
            if number in self.events:
                self.events[number]()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts within a block; what was to happen and has not happens at its end."""
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)
        for number in sorted(self.events):
            if number >= self.count:
                self.events[number]()


def _asks(called: Any) -> bool:
    if called.__module__ == "posix":
        return called.__name__ in _CALLS
    return isinstance(getattr(called, "__self__", None), DirEntry)
