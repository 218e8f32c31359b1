"""A sink whose table has no space to begin: it is opened when there is some."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink
from sqlengine.connectors.refused_rows import RefusedRows


class WaitingSink(Sink):
    """Keeps the rows of the epoch until its table can be opened. Each `commit` tries that, and
    raises TryAgain like any sink without space."""

    def __init__(self, opener: Callable[[], Sink]) -> None:
        self._opener = opener
        self._sink: Sink | None = None
        self._pending: list[Batch] = []

    @property
    def waits(self) -> bool:
        """True until the table is open."""
        return self._sink is None

    def last_epoch(self) -> int | None:
        """See `Sink`. Tries to open the table, as `commit` does."""
        return self._opened().last_epoch()

    def write(self, batch: Batch) -> None:
        if self._sink is None:
            self._pending.append(batch)
        else:
            self._sink.write(batch)

    def commit(self, epoch: int) -> int:
        return self._opened().commit(epoch)

    def refused(self) -> Sequence[RefusedRows]:
        return () if self._sink is None else self._sink.refused()

    def roll(self, *, end: bool = False) -> None:
        if self._sink is not None:
            self._sink.roll(end=end)

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()

    def _opened(self) -> Sink:
        if self._sink is None:
            self._sink = self._opener()
            pending, self._pending = self._pending, []
            for batch in pending:
                self._sink.write(batch)
        return self._sink
