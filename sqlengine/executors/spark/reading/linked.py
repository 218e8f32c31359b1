"""Rows that tasks read where the driver has found them: the driver carries their places alone.

Where a task cannot read them (on its machine the links are not there, or not for its user) the
driver does. This module does not import Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from parser.errors import SqlError
from planner.graph.physical import PhysicalPlan
from planner.logical import Scan
from sqlengine.batch import Batch
from sqlengine.connectors.registry import connector_of
from sqlengine.executors.epochs import EpochRecord
from sqlengine.executors.failures import SourceFailed, Unreadable
from sqlengine.executors.sources import ChunkRows
from sqlengine.executors.spark.boundary import TaskFailed
from sqlengine.executors.spark.job import JobResult
from sqlengine.executors.spark.splits import InputSplit
from sqlengine.executors.wire import encode_batch

log = logging.getLogger("sqlengine.spark")


class LinkedRows:
    """Reads the rows of one scan."""

    def __init__(self, scan: Scan) -> None:
        self._table = scan.table
        self._connector = connector_of(scan.table)
        self._rows = ChunkRows(scan)

    def read(self, split: InputSplit, proctime: int, seed: int) -> tuple[Batch, int]:
        """Returns the rows of a split as if the driver had read them, and how many fewer there are
        than it took them for. Unreadable where that cannot be."""
        assert split.place is not None
        try:
            chunk = self._connector.linked(self._table, split.place)
        except (OSError, SqlError) as error:
            raise Unreadable(error) from error
        missing = chunk.end - chunk.start - chunk.num_rows
        # Rows of several splits were found at once, from the start of the first one on.
        chunk = replace(chunk, start=split.start)
        return self._rows.batch(chunk, proctime, seed), missing


# ---- in the driver -------------------------------------------------------------------------------


class Places:
    """Runs epochs whose splits have places of rows; once tasks could not read such rows, the driver
    does."""

    def __init__(self) -> None:
        self._usable = True

    def run(
        self,
        job: Callable[[Sequence[InputSplit]], JobResult],
        splits: Sequence[InputSplit],
        record: EpochRecord,
        plan: PhysicalPlan,
    ) -> JobResult:
        """Runs the job of an epoch. SourceFailed where nobody can read its rows."""
        if self._usable:
            try:
                return job(splits)
            except TaskFailed as error:
                if not error.unreadable:
                    raise
                self._usable = False
                log.warning("the server reads topics itself: %s (%s)", error.message, error.detail)
        return job(list(_carried(splits, record, plan)))

    def read_by_tasks(self, splits: Sequence[InputSplit]) -> int:
        """Returns the number of splits whose rows tasks have read themselves."""
        return sum(s.place is not None for s in splits) if self._usable else 0


def _carried(
    splits: Sequence[InputSplit], record: EpochRecord, plan: PhysicalPlan
) -> Iterator[InputSplit]:
    """Yields splits with their rows."""
    for split in splits:
        if split.place is None:
            yield split
            continue
        node = plan.nodes[split.source]
        assert isinstance(node.plan, Scan)
        try:
            batch, _ = LinkedRows(node.plan).read(split, record.proctime, record.seed)
        except Unreadable as error:
            raise SourceFailed(node.jobs, error) from error
        yield replace(split, batch=encode_batch(batch))
