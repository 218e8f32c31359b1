"""Sizes as users write them."""

from __future__ import annotations

import re

_SIZE = re.compile(r"\s*([0-9]+)\s*(b|bytes|[kmgt]b?)?\s*")
_POWERS = {"k": 10, "m": 20, "g": 30, "t": 40}


def size(text: str) -> int:
    """Bytes of `512 mb`, `1g`, `100 kb`, as Flink counts them: 1 kb is 1024. A bare number counts
    bytes."""
    match = _SIZE.fullmatch(text.lower())
    if not match or int(match[1]) == 0:
        raise ValueError("expected a size such as '512 mb'")
    return int(match[1]) << _POWERS.get((match[2] or "b")[0], 0)
