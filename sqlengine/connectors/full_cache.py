"""Tables that lookup joins hold as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa


@dataclass(frozen=True)
class CacheStatus:
    """The content of a full cache: how many `versions` there have been, and the rows of the last
    one. `failures` to make one; `error`: why the last attempt failed, '' where it did not."""

    rows: int = 0
    versions: int = 0
    failures: int = 0
    error: str = ""


class FullCache(ABC):
    """Rows of a lookup table kept as a whole and reloaded when they change.

    It is Flink's `FullCachingLookupProvider`. Each version is an offset of `topic`, which several
    sources of a graph may share. `quick`: `reload` returns at once, since the work is done
    elsewhere. Graph thread only."""

    topic: str
    quick: ClassVar[bool] = False

    @property
    def loaded(self) -> bool:
        """True if there is a version; until then no row may be looked up."""
        return True

    @property
    def status(self) -> CacheStatus:
        """The content of the cache. Any thread."""
        return CacheStatus()

    @abstractmethod
    def reload(self) -> bool:
        """Looks for a new version now and then; True if there is one to read."""

    def request(self) -> bool:
        """Asks for a look at the table at the next `reload`, whenever that was due; returns False
        where there is none. Any thread."""
        return False

    def wait(self, seconds: float) -> bool:
        """Waits for the end of the work on a version, at most so long; returns False where there is
        none."""
        return False

    @abstractmethod
    def lines_at(self, offset: int) -> pa.Array:
        """Returns the lines of a reader that has read up to `offset`: binary, each line as often
        as it occurs, in any order."""

    @abstractmethod
    def restore(self, lines: pa.Array, *, exclusive: bool) -> int | None:
        """Returns the offset at which a reader goes on that has these lines from another topic.

        None where the last version differs and other sources read this topic. A reader that has
        the topic to itself (`exclusive`) gets its lines as a new version instead."""

    @abstractmethod
    def discard_before(self, offset: int) -> None:
        """Removes versions that end before `offset`: no source and no recovery reads them."""
