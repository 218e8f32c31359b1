"""Numbers the epochs of a graph and appends their records to its epoch log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sqlengine.executors.epochs import (
    EpochLog,
    EpochRecord,
    LoggedChange,
    OffsetRange,
    Replay,
    Resumption,
)
from sqlengine.executors.seeds import spread_seed

# More epochs than there can be between two syncs, or two checkpoints.
_SKIPPED_EPOCHS: Final = 1 << 24


class EpochWriter:
    """The epochs of one graph, in its thread.

    `last` is the number of the last epoch, 0 before the first; `log_offset` follows its record.
    `firing_cost` is written into each record: an epoch is repeated with the limit that it had."""

    def __init__(
        self, graph: str, log: EpochLog, clock: Callable[[], int], firing_cost: int | None = None
    ) -> None:
        self.last = 0
        self.log_offset = 0
        self.graph = graph
        self._log = log
        self._clock = clock
        self._firing_cost = firing_cost

    def next(
        self,
        version: int,
        *,
        ranges: tuple[OffsetRange, ...] = (),
        opened: tuple[tuple[str, str], ...] = (),
        ended: tuple[str, ...] = (),
        change: LoggedChange | None = None,
        replay: Replay | None = None,
        tick: bool = False,
        resumed: tuple[Resumption, ...] = (),
        closed: tuple[tuple[str, str], ...] = (),
    ) -> EpochRecord:
        """The record of the next epoch at the graph's `version`, not written yet. Its processing
        time is now; its seed depends on its number alone."""
        epoch, now = self.last + 1, self._clock()
        seed = spread_seed(epoch)
        return EpochRecord(
            self.graph, epoch, version, now, seed, ranges, opened, ended, change, replay, tick,
            resumed=resumed, firing_cost=self._firing_cost, closed=closed,
        )  # fmt: skip

    def append(self, record: EpochRecord) -> None:
        """Writes the record: its epoch is the last one from now on."""
        self.log_offset = self._log.append(record)
        self.last = record.epoch

    def skip(self, version: int, known: int, after: int) -> None:
        """Logs that numbers are left out: those after the last one, and after `known`, that a sink
        may know, too. `after`: the last logged epoch, or UNLOGGED."""
        last = max(self.last, known) + _SKIPPED_EPOCHS
        self.append(replace(self.next(version), epoch=last, after=after))

    def seek(self, epoch: int, log_offset: int) -> None:
        """Continues after a recovered epoch, whose record ends at `log_offset`."""
        self.last, self.log_offset = epoch, log_offset
