"""The tables of a partition of a stage as they were saved last, and the next file: whole, or the
changes since.

This module does not import Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

import pyarrow as pa

from sqlengine.executors.spark.state_files import Chain, continues_files, save, state_name
from sqlengine.executors.spark.worker import Step
from sqlengine.executors.wire import StateFile
from sqlengine.state.table import KeyedTable, TableDelta

# The counters of what was written.
WHOLE: Final = "whole state files"
DELTAS: Final = "delta state files"
ROWS: Final = "rows of state files"
BYTES: Final = "bytes of state files"


class SavedTables:
    """The tables of a partition as its files (`chain`) have them, by `versions`."""

    def __init__(self, chain: Chain, versions: Mapping[str, int]) -> None:
        self.chain = chain
        self._versions = versions

    def save(
        self,
        tables: Mapping[str, KeyedTable],
        step: Step,
        folder: str,
        stage: int,
        partition: int,
    ) -> dict[str, int]:
        """Writes the tables behind an epoch, unless another attempt has done that; returns what was
        written, by counter."""
        shared = {n: t.dump() for n, t in tables.items() if t.everywhere}
        own = {n: t for n, t in tables.items() if n not in shared}
        changes = {n: t.changes(self._versions.get(n, 0)) for n, t in own.items()}
        rows = sum(c.puts.num_rows + c.removed.num_rows for c in changes.values())
        last, follows = self.chain, self._may_follow(step, rows)
        if follows:
            previous = state_name(step.before, stage, partition)
            state = StateFile(
                _rows_of(changes, "puts"), shared, _rows_of(changes, "removed"), previous
            )
            self.chain = replace(last, deltas=last.deltas + 1, delta_rows=last.delta_rows + rows)
        else:
            state = StateFile({n: t.dump() for n, t in own.items()}, shared)
            rows = sum(map(len, own.values()))
            self.chain = Chain(step.epoch, 0, rows)
        self._versions = {n: c.version for n, c in changes.items()}
        size = save(folder, state_name(step, stage, partition), state)
        return {DELTAS if follows else WHOLE: 1, ROWS: rows, BYTES: size}

    def _may_follow(self, step: Step, rows: int) -> bool:
        """True if the changes are few enough to follow the files that there are."""
        last = self.chain
        few = last.delta_rows + rows <= last.base_rows and last.deltas < step.deltas
        large = last.base_rows >= step.whole_rows
        return continues_files(step) and last.base_epoch >= 0 and few and large


def _rows_of(
    changes: Mapping[str, TableDelta], which: Literal["puts", "removed"]
) -> dict[str, pa.Table]:
    return {n: pa.Table.from_batches([getattr(c, which)]) for n, c in changes.items()}
