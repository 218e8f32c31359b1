"""Schedules the checkpoints of a graph, and gives the last one for recovery."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final

import msgspec
import pyarrow as pa

from parser.errors import ServiceError
from sqlengine.executors.epochs import Resumption
from sqlengine.executors.job_counts import JobCounts
from sqlengine.executors.spark.tasks.state import TaskState
from sqlengine.state.checkpoint import Checkpointer
from sqlengine.state.store import CheckpointStore, Loaded
from sqlengine.state.table import KeyedTable
from sqlengine.system.format_numbers import check_number

POSITION_FORMAT = 3
# The version of the layouts of operators' tables: raised by one with every change of a layout
# (`tests/state/test_layouts.py` fails then).
LAYOUT = 6


class Apart(msgspec.Struct, frozen=True):
    """The rest of a checkpoint of jobs that wait for a source apart from their graph: the version
    of each job, all names that they had, the last epoch that is to be repeated with them, and the
    `handovers` that this reads. Dead letters of epochs up to `letters` are there."""

    jobs: dict[str, int]
    names: list[str]
    until: int
    letters: int
    handovers: list[str] = []


class CheckpointMetadata(msgspec.Struct, frozen=True):
    """Metadata of a checkpoint: how far its graph was, besides the tables.

    `log_offset` follows the epoch's record in the epoch log; `positions`: next offsets by source
    and shard; `jobs`: the running version of each; `stateful`: each job's nodes with state, as
    (node id, graph version that created it); `created_at_version`: the graph version that created
    each node with tables; `began`: the epoch and the offsets at which reading of each source
    began; `logged`: the epochs after it are in the epoch log; `answers_offset`: end of the log of
    nondeterministic calls; `counts`: what each job has done in the graph so far; `resumed`:
    operators that had more to fire; `marks`: what sources say of their shards, by source and
    shard; `tasks`: where tasks of Spark have kept the state, None where the tables have it;
    `apart`: set for a part of a graph that waits for its sources."""

    graph: str
    epoch: int
    version: int
    log_offset: int
    positions: dict[str, dict[str, int]]
    ended: list[str]
    unstarted: list[str]
    jobs: dict[str, int]
    stateful: dict[str, list[tuple[str, int]]] = msgspec.field(default_factory=dict)
    # The stored key is older than the name.
    created_at_version: dict[str, int] = msgspec.field(default_factory=dict, name="born")
    began: dict[str, tuple[int, dict[str, int]]] = msgspec.field(default_factory=dict)
    logged: bool = True
    answers_offset: int = 0
    counts: dict[str, JobCounts] = {}
    resumed: list[Resumption] = []
    marks: dict[str, dict[str, str]] = {}
    tasks: TaskState | None = None
    apart: Apart | None = None
    layout: int = LAYOUT
    format: int = POSITION_FORMAT


# Of how many tables the changes are counted in an epoch, on average.
_TABLES_AN_EPOCH: Final = 64


class Checkpoints:
    """The checkpoints of one graph.

    The next one is due after `rows` changed rows, or `ms` after the last if there was an epoch
    since. `position` and `restored` are the metadata and the tables of the checkpoint that the
    store had at first. `before` is called before each one, to sync what it depends on."""

    def __init__(
        self,
        store: CheckpointStore,
        rows: int,
        ms: int,
        writer: Executor | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._rows = rows
        self._ms = ms
        self._writer = Checkpointer(store, writer, before=before)
        self._last = 0
        loaded = store.load()
        self.position = _position(loaded) if loaded is not None else None
        self._epoch = self.position.epoch if self.position is not None else 0
        self.restored: Mapping[str, pa.Table] = loaded.tables if loaded is not None else {}
        self.counters = self._writer.counters

    def adopt(self, tables: Mapping[str, KeyedTable]) -> None:
        """Declares that the tables equal those of the store that have their names: the next
        checkpoint writes only what changes from here on. It writes other tables whole, and drops
        those of the store that are here no more: of nodes that were removed, or that have become
        members of a family."""
        if self.position is not None:
            known = self.restored.keys()
            self._writer.adopt(msgspec.to_builtins(self.position), tables, known)
        self.restored = {}

    @property
    def stored(self) -> CheckpointMetadata | None:
        """The metadata of the last checkpoint in the store; None if there is none."""
        stored = self._writer.stored
        return None if stored is None else msgspec.convert(stored, CheckpointMetadata)

    @property
    def stored_epoch(self) -> int:
        """The epoch of the last checkpoint in the store; 0 if there is none."""
        stored = self.stored
        return 0 if stored is None else stored.epoch

    @property
    def stored_version(self) -> int:
        """The graph version of the last checkpoint in the store; 0 if there is none."""
        stored = self._writer.stored
        return 0 if stored is None else int(str(stored["version"]))

    def due(self, epoch: int, tables: Mapping[str, KeyedTable], now_ms: int) -> bool:
        """True if a checkpoint is to be started now."""
        # One at a time; and without an epoch since the last one, there is nothing to write.
        if not self._writer.finished() or epoch <= self._epoch:
            return False
        if now_ms - self._last >= self._ms:
            return True
        # A look at thousands of tables in every epoch would cost more than an epoch of few rows.
        if epoch % (1 + len(tables) // _TABLES_AN_EPOCH):
            return False
        return self._writer.changed_rows(tables) >= self._rows

    def begin(
        self, position: CheckpointMetadata, tables: Mapping[str, KeyedTable], now_ms: int
    ) -> None:
        """Copies what changed and starts to write it, unless the last one is still being
        written."""
        if self._writer.begin(msgspec.to_builtins(position), tables):
            self._last, self._epoch = now_ms, position.epoch

    def finish(
        self, position: CheckpointMetadata, tables: Mapping[str, KeyedTable], now_ms: int
    ) -> None:
        """Makes a checkpoint, which is in the store when this returns."""
        with suppress(ServiceError):  # the last one failed: this one includes its changes
            self._writer.wait()
        self.begin(position, tables, now_ms)
        self._writer.wait()

    def close(self) -> None:
        """Waits for a checkpoint that is being written, and closes the store."""
        try:
            self._writer.wait()
        finally:
            self._store.close()


def _position(loaded: Loaded) -> CheckpointMetadata:
    """Decodes the metadata of a checkpoint. ServiceError for one of another format, or with other
    layouts of tables."""
    for what, number in {"format": POSITION_FORMAT, "layout": LAYOUT}.items():
        check_number(loaded.position.get(what), number, "a checkpoint", what)
    return msgspec.convert(loaded.position, CheckpointMetadata)
