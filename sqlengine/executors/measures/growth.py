"""Numbers that rise, and by how much they have."""

from __future__ import annotations


class Growth:
    """The last values of numbers by name."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def of(self, name: str, value: float) -> float:
        """Returns by how much a number has grown since it was last asked for; 0 if it is less."""
        more = value - self._last.get(name, 0.0)
        self._last[name] = value
        return max(0.0, more)
