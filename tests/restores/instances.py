"""Lives of a graph whose operators run in tasks, as on Spark, without Spark. Every instance has a
part of the buckets, behind each epoch all that was in memory is gone, and some have another number
of instances: buckets move with what is kept of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from sqlengine.executors.epochs import EpochRecord
from sqlengine.executors.spark import keyed, splits
from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.executors.spark.options import SparkOptions
from tests.spark.staged import Staged

INSTANCES: Final = (2, 3)
EPOCHS: Final = 4  # with one number of instances, so that files of changes follow whole ones


class InTasks(SparkExecutor):
    """Every few epochs run in another number of instances, also when they are repeated."""

    def __init__(self, folder: Path, rows_per_turn: int, counts: Counter[str]) -> None:
        options = SparkOptions(folder, rows_per_turn, durable=True, deltas=3, whole_rows=0)
        super().__init__(Staged(), options)
        self._counts = counts

    def begin(self, record: EpochRecord) -> None:
        self._spark = Staged(INSTANCES[record.epoch // EPOCHS % len(INSTANCES)])
        self._counts["batches"] += 1
        super().begin(record)


@contextmanager
def forgetting() -> Iterator[None]:
    """Tasks keep nothing in memory, and read nothing but what the driver gives them: in turns of so
    many rows as elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits, "READ_BY_TASKS", {})
        patch.setattr(keyed, "_cache", lambda instance, key: None)
        yield
