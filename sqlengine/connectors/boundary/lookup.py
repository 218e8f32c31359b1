"""The wall around tables that are asked for the rows of keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa

from planner.logical import Scan
from sqlengine.connectors.base import Busy
from sqlengine.connectors.boundary.answers import ChunkCheck, Nonsense, shown, whole
from sqlengine.connectors.boundary.calls import Calls
from sqlengine.connectors.row_lookup import Found, RowLookup

T = TypeVar("T")
# Seconds between two looks whether whoever asks may still wait.
_LOOK_S: Final = 0.05


class WalledLookup:
    """Asks a table as `RowLookup` does, in a lane where its connector may block. It is opened by
    the first question. One thread at a time.

    What it raises is SqlError, or what `proceed` raises, which is called while an answer is awaited
    and then leaves the call to itself."""

    def __init__(self, opening: Callable[[], RowLookup], scan: Scan, calls: Calls) -> None:
        self._opening = opening
        self._calls = calls
        self._check = ChunkCheck(scan)
        self._opened: RowLookup | None = None

    def open(self, proceed: Callable[[], None]) -> None:
        """Connects, unless it is connected."""
        if self._opened is None:
            self._opened = self._need("open", self._opening, proceed)

    def rows_of(self, keys: Sequence[pa.Array], proceed: Callable[[], None]) -> Sequence[Found]:
        """Returns all rows of distinct keys, see `RowLookup`."""
        self.open(proceed)
        assert self._opened is not None
        asking = partial(self._opened.rows_of, keys)
        return self._need("rows_of", lambda: self._looked_at(asking(), len(keys[0])), proceed)

    def close(self) -> None:
        """Closes the connection, after a call that still runs. Never raises."""
        opened, self._opened = self._opened, None
        if opened is not None:
            self._calls.close(opened.close)

    def _need(self, name: str, work: Callable[[], T], proceed: Callable[[], None]) -> T:
        self._calls.require_sound()
        if not self._calls.beside:
            return self._calls.guarded(name, work)
        call = self._calls.begin(name, work)
        if call is None:  # one that was left to itself has not come back
            raise Busy(f"table '{self._calls.opened.table}' has not answered yet")
        while not call.wait(_LOOK_S):
            proceed()
            self._calls.require_in_time()
        return call.result()

    def _looked_at(self, answer: object, keys: int) -> Sequence[Found]:
        if not isinstance(answer, list | tuple) or not all(isinstance(f, Found) for f in answer):
            raise Nonsense(f"returned {shown(answer)}, not found rows")
        for found in answer:
            if found.key is not None and whole(found.key) >= keys:
                raise Nonsense(f"returned rows of key {found.key}, of {keys}")
            if found.problem and (found.key is None or found.chunk.num_rows):
                raise Nonsense("returned a problem that is none of a key without rows")
            self._check(found.chunk, found.chunk.shard, found.chunk.start, None)
        return answer
