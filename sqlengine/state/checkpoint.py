"""Asynchronous checkpoints: changed rows are copied between two epochs, and written while the next
epochs run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from time import perf_counter
from typing import Final

from sqlengine.state.store import CheckpointStore, Position
from sqlengine.state.table import KeyedTable, TableDelta

# The counters in `Checkpointer.counters`; the stream waits for the pause only.
CHECKPOINTS: Final = "checkpoints"
CHECKPOINT_ROWS: Final = "checkpoint_rows"
CHECKPOINT_PAUSE_US: Final = "checkpoint_pause_us"
CHECKPOINT_WRITE_US: Final = "checkpoint_write_us"


class Checkpointer:
    """Writes the tables of one graph into one store; at most one write is in flight.

    Graph thread only. `writer` runs the writes; None: they run in the calling thread (simulated
    runs). A failed write raises its error once, from the next call; its changes become part of the
    next checkpoint. `before` runs before each write, in the writer's thread.
    """

    def __init__(
        self,
        store: CheckpointStore,
        writer: Executor | None = None,
        clock: Callable[[], float] = perf_counter,
        before: Callable[[], None] | None = None,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.stored: Position | None = None  # of the last checkpoint that is in the store
        self._store = store
        self._writer = writer
        self._clock = clock
        self._before = before
        self._since: dict[str, int] = {}  # table -> the version that the store holds
        self._writes: dict[str, int] = {}  # table -> rows written when that version was copied
        self._flight: tuple[Future[None], Position, dict[str, TableDelta]] | None = None

    def adopt(
        self,
        position: Position,
        tables: Mapping[str, KeyedTable],
        known: Collection[str] | None = None,
    ) -> None:
        """Takes the tables that the store knows (all, unless names are given) as equal to what it
        holds, after a recovery."""
        names = tables.keys() if known is None else known
        self.stored = position
        self._since = {name: tables[name].version if name in tables else 0 for name in names}
        self._writes = {name: table.writes for name, table in tables.items()}

    def changed_rows(self, tables: Mapping[str, KeyedTable]) -> int:
        """The number of row writes since the last checkpoint began; a row written twice counts
        twice."""
        return sum(table.writes - self._writes.get(name, 0) for name, table in tables.items())

    def begin(self, position: Position, tables: Mapping[str, KeyedTable]) -> bool:
        """Copies the changes and starts to write them with `position`; tables not given are
        dropped.

        Returns False, and does nothing, while another write is in flight.
        """
        if not self.finished():
            return False
        started = self._clock()
        changes = {name: table.changes(self._since.get(name, 0)) for name, table in tables.items()}
        self._writes = {name: table.writes for name, table in tables.items()}
        dropped = self._since.keys() - tables.keys()
        self.counters[CHECKPOINT_PAUSE_US] += int((self._clock() - started) * 1e6)
        self.counters[CHECKPOINT_ROWS] += sum(
            c.puts.num_rows + c.removed.num_rows for c in changes.values()
        )
        # The copies are the only pause of the stream; encoding and writing happen in the writer's
        # thread.
        if self._writer is None:
            self._write(position, changes, dropped)
            self._note(position, changes)
        else:
            self._flight = (
                self._writer.submit(self._write, position, changes, dropped),
                position,
                changes,
            )
        return True

    def wait(self) -> None:
        """Waits until no write is in flight."""
        if self._flight is not None:
            self._flight[0].exception()
            self.finished()

    def _write(self, position: Position, changes: dict[str, TableDelta], dropped: set[str]) -> None:
        started = self._clock()
        if self._before is not None:
            self._before()
        self._store.put(position, changes)
        for name in dropped:
            self._store.drop(name)
        self.counters[CHECKPOINT_WRITE_US] += int((self._clock() - started) * 1e6)

    def finished(self) -> bool:
        """Completes a write that has ended; returns False while one is running."""
        if self._flight is None:
            return True
        future, position, changes = self._flight
        if not future.done():
            return False
        self._flight = None
        future.result()
        self._note(position, changes)
        return True

    def _note(self, position: Position, changes: dict[str, TableDelta]) -> None:
        self.stored = position
        # Only now: had the write failed, the next checkpoint would have to contain these changes
        # too.
        self._since = {name: change.version for name, change in changes.items()}
        self.counters[CHECKPOINTS] += 1
