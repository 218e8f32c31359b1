"""The number of elements or objects in JSON before it is read: each costs memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

_BYTES_AT_ONCE: Final = 1 << 20
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'

_Bytes = npt.NDArray[np.uint8]
_Flags = npt.NDArray[np.bool_]


def elements(body: bytes) -> int:
    """Returns how many elements the array has that a text is. Of one that is damaged it counts
    those before the damage, or more.

    >>> elements(b'[{"a": [1, 2]}, "x\\\\",y", 3]')
    3
    """
    commas = depth = 0
    for part, texts in _parts(body):
        depths = depth + np.cumsum(_steps(part, texts), dtype=np.int64)
        commas += int(np.count_nonzero((part == _COMMA) & ~texts & (depths == 1)))
        depth = int(depths[-1])
    return commas + 1


def objects(body: bytes) -> int:
    """Returns how many objects begin in a text, at any depth.

    >>> objects(b'[{"a": [{}]}, "{"]')
    2
    """
    begin = b"{"[0]
    return sum(int(np.count_nonzero((part == begin) & ~texts)) for part, texts in _parts(body))


def _parts(body: bytes) -> Iterator[tuple[_Bytes, _Flags]]:
    """Yields the bytes part by part, and which of them lie in texts."""
    backslashes, within = 0, False
    data = np.frombuffer(body, np.uint8)
    for start in range(0, len(data), _BYTES_AT_ONCE):
        part = data[start : start + _BYTES_AT_ONCE]
        quotes, backslashes = _quotes(part, backslashes)
        texts = (np.cumsum(quotes) + within) & 1 == 1
        within = bool(texts[-1])
        yield part, texts


def _quotes(part: _Bytes, before: int) -> tuple[_Flags, int]:
    """Returns where texts begin and end, and how many backslashes the part ends with; `before` it
    there were so many."""
    quotes, backslashes = part == _QUOTE, part == _BACKSLASH
    if not before and not backslashes.any():
        return quotes, 0
    places = np.arange(len(part))
    # Those that stand together up to each place.
    others = np.maximum.accumulate(np.where(backslashes, -1 - before, places))
    together = places - others
    escaped = np.concatenate(([before], together[:-1])) & 1 == 1
    return quotes & ~escaped, int(together[-1])


def _steps(part: _Bytes, texts: _Flags) -> npt.NDArray[np.int8]:
    """Returns 1 where an array or an object begins, and -1 where one ends."""
    begins, ends = (((part == a) | (part == b)) & ~texts for a, b in (b"[{", b"]}"))
    steps: npt.NDArray[np.int8] = begins.astype(np.int8) - ends.astype(np.int8)
    return steps
