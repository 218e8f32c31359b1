"""Parameters of a graph runner: the durable stores of its graph, and its options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlengine.connectors.base import Sink
from sqlengine.executors.epochs import EpochLog, NoLog
from sqlengine.executors.memory_limits import MemoryGuard
from sqlengine.snapshots.checkpoints import Checkpoints


@dataclass(frozen=True)
class GraphStorage:
    """The durable stores of one graph. By default nothing is kept, as for a script.

    `log`: epoch records, each written before the output of its epoch. `dead_letters`: takes rows in
    error. `first_record`: returns the offset of the oldest epoch record, from which a recovery may
    start when a power loss took the last checkpoint; None where a checkpoint survives that.
    `tasks`: the folder (a URI) in which tasks of Spark have kept its state, if they have."""

    log: EpochLog = field(default_factory=NoLog)
    checkpoints: Checkpoints | None = None
    dead_letters: Sink | None = None
    first_record: Callable[[], int] | None = None
    tasks: str | None = None


def _fail(job: str) -> bool:
    return True


@dataclass(frozen=True)
class RunnerOptions:
    """Options of a runner.

    `fails_on_error`: True for a job that fails on a row in error, which is a dead letter otherwise.
    `rows_per_read`: rows that one epoch reads from one shard, at most. `memory`: fails jobs with
    too much state. `result`: takes the rows of statements that write to no table, in a script.
    `firing_cost`: what an operator may spend on firing in one epoch (`FiringLimit`), in rows that
    come out and accumulators read. A number, and no time, since epochs are repeated; None for
    any. `paced`: True if epochs read fewer rows while they take long (`ReadingPace`)."""

    fails_on_error: Callable[[str], bool] = _fail
    rows_per_read: int = 4096
    memory: MemoryGuard | None = None
    result: Sink | None = None
    firing_cost: int | None = 1 << 17
    paced: bool = False
