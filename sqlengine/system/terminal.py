"""Shows on a terminal what is printed there, so that it is never obeyed.

A record, a job's name or an error may hold escape sequences, which could recolour or retitle a
terminal, wipe what stands above, or make it send answers. Pipes and files get every byte as it
is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TextIO, cast

# Controls but tab and line end, and what turns the direction of writing or ends a line unseen.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def visible(text: str) -> str:
    r"""Returns the text with controls spelt out, but for tabs and line ends.

    >>> print(visible("a\x1b[2Jb\u202ec"))
    a\x1b[2Jb\u202ec
    """
    return _UNSEEN.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class VisibleStream:
    """The stream of a terminal, to which `write` sends visible text; all else is the stream's."""

    def __init__(self, terminal: IO[str]) -> None:
        self.terminal = terminal

    def write(self, text: str) -> int:
        """Writes the text as `visible` returns it; returns its length as it was given."""
        self.terminal.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Writes the lines as `write` does."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.terminal, name)


def obeying(stream: IO[str]) -> IO[str]:
    """Returns the stream that obeys controls, for those that the command itself writes."""
    return stream.terminal if isinstance(stream, VisibleStream) else stream


@contextmanager
def visible_output() -> Iterator[None]:
    """Lets standard output and standard error show controls meanwhile, each if it is a
    terminal."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _guarded(sys.stdout), _guarded(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _guarded(stream: TextIO) -> TextIO:
    # None where a process has no such stream.
    is_terminal: Callable[[], bool] = getattr(stream, "isatty", bool)
    return cast("TextIO", VisibleStream(stream)) if is_terminal() else stream
