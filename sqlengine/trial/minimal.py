"""Reduces what is given to what is needed: by leaving out parts, and looking whether it matters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sqlengine.batch import IntArray


def minimal(
    number: int, suffices: Callable[[IntArray], bool], goes_on: Callable[[int], bool]
) -> tuple[IntArray, bool]:
    """Returns which of so many things, all of which suffice together, suffice without any that
    could be left out; False where it stopped before that was sure.

    Halves are left out first, then smaller parts, the first things before the last: of several
    possible answers it is the one of the latest. `goes_on` is asked before each try, with how many
    are left.

    >>> minimal(9, lambda some: {2, 5, 6} <= set(some.tolist()), lambda left: True)
    (array([2, 5, 6]), True)
    """
    kept, size = np.arange(number), max(number // 2, 1)
    while len(kept):
        at, before = 0, len(kept)
        while at < len(kept):
            if not goes_on(len(kept)):
                return kept, False
            rest = np.delete(kept, slice(at, at + size))
            if suffices(rest):
                kept = rest
            else:
                at += size
        if size == 1 and len(kept) == before:
            break
        size = max(min(size, len(kept)) // 2, 1)
    return kept, True
