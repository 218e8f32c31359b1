"""The options of the tasks of a graph on Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.spark.tasks.rules import TaskRules

# An epoch reads so many turns of each shard that the driver reads.
TURNS_PER_EPOCH: Final = 16
# Of topics an epoch reads so many times as much, where that is not too many bytes: what an epoch
# costs besides its rows is as much as some hundred thousand rows.
_TIMES: Final = 8


@dataclass(frozen=True)
class SparkOptions:
    """The options of the tasks of one graph.

    `folder` has their state. Rows of shards are read in turns of `rows_per_turn`. `factory` builds
    their operators; `rules` gives what tasks may do, once Spark has started; `partitions`: the
    number of instances of a keyed stage, None for as many as there are cores. `durable`: state is
    kept until a checkpoint has passed it. An epoch has so many `attempts` where Spark fails, which
    has repeated tasks before. Behind a whole file of state come at most so many with the changes
    (`deltas`, 0 for none), where that has at least `whole_rows`. `phases`: of aggregates, as
    'table.optimizer.agg-phase-strategy' names them. Rows that the driver reads, or a task gives it,
    go by files where they are more than `carried` bytes. `encodes`: tasks make of rows what sinks
    store, where they can. `widens`: topics are read by so many times 16 turns, if that is not too
    much for an epoch. `links`: tasks read what is long of topics. `filters`: sources leave out rows
    that nobody wants, see `EmbeddedExecutor`."""

    folder: Path
    rows_per_turn: int
    factory: OperatorFactory = field(default_factory=OperatorFactory)
    rules: Callable[[], TaskRules] = TaskRules
    partitions: int | None = None
    durable: bool = False
    attempts: int = 1
    deltas: int = 16
    whole_rows: int = 4096
    phases: str = "AUTO"
    carried: int = 4 << 20
    encodes: bool = True
    widens: int = _TIMES
    links: bool = True
    filters: bool = True

    @property
    def uri(self) -> str:
        """The folder, as tasks name it."""
        return self.folder.as_uri()
