"""Values of job versions: limits and policies, which a recovery asks for by version."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

T = TypeVar("T")


class ByVersion(Generic[T]):
    """A value for each job version that has one. Changed by the thread that makes changes, read by
    any."""

    def __init__(self) -> None:
        self._values: dict[str, dict[int, T]] = {}

    def set(self, job: str, version: int, value: T) -> None:
        """Sets the value of a version."""
        self._values[job] = {**self._values.get(job, {}), version: value}

    def get(self, job: str, version: int, default: T) -> T:
        """Returns the value of a version; `default` if it has none."""
        return self._values.get(job, {}).get(version, default)

    def retain(self, job: str, versions: Collection[int]) -> None:
        """Drops the values of the job's other versions."""
        if job in self._values:
            kept = {v: value for v, value in self._values[job].items() if v in versions}
            if kept:
                self._values[job] = kept
            else:
                del self._values[job]

    def values(self) -> list[T]:
        """Returns all values."""
        return [value for versions in list(self._values.values()) for value in versions.values()]

    def __len__(self) -> int:
        return len(self._values)
