"""What a connector is: sources made of shards that are read by offset, and sinks that take an epoch
at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh64_hexdigest

from parser.errors import TryAgain
from parser.types import DataType
from planner.catalog import Table
from planner.graph.division import WHOLE, SubtaskAssignment
from planner.scalar import Scalar
from sqlengine.batch import Batch, RowKind
from sqlengine.broker.base import Broker
from sqlengine.connectors.memory.tables import Memory
from sqlengine.formats.base import Option as Option
from sqlengine.system.disk import MACHINE, Disk


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of one shard: offsets from `start` (included) to `end` (excluded; the
    next read's start).

    Either `records` (bytes as they came, to be decoded by the table's format) or `columns` (rows
    made by the connector itself, such as datagen's, by column name). `kinds`: what the connector
    says of their kinds, None where it says nothing. `metadata` holds columns by metadata key
    ('timestamp', 'offset', …)."""

    shard: str
    start: int
    end: int
    num_rows: int
    records: pa.Array | None = None
    columns: Mapping[str, pa.Array] | None = None
    offsets: npt.NDArray[np.int64] | None = None
    metadata: Mapping[str, pa.Array] = field(default_factory=dict)
    kinds: npt.NDArray[np.int8] | None = None


class Source(Protocol):
    """A table's records. Offsets are integers that only grow within a shard; what they count is the
    connector's business (records, bytes). Everything is called from the graph's thread and must not
    block."""

    @property
    def bounded(self) -> bool:
        """Whether it ends where `end` says now."""

    def shards(self) -> list[str]:
        """All shards there are now; more may appear later, none disappears."""

    def start(self, shard: str) -> int:
        """The offset at which a new job begins, by the table's startup mode."""

    def end(self, shard: str) -> int | None:
        """The offset after the last record there is now. None when the source cannot know."""

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """Records from `offset` on, at most `max_rows`; None when there are none now. With `until`,
        exactly the records before that offset and no others, however many: a replay reads the
        ranges that its epochs recorded. What was read once can be read again with equal bytes."""

    def passed(self, positions: Mapping[str, int]) -> None:
        """Told now and then, after a checkpoint, how far the graph is: for others who want to know.
        The graph itself goes on from its checkpoint."""

    def close(self) -> None: ...


class Sink(Protocol):
    """Where a table's rows go. One sink per table and graph; the graph's id is the `writer` it was
    opened with.

    Exactly once: `write` any number of times, then `commit(epoch)`: all rows since the last commit
    become visible together, once, even if the same epoch is committed again after a crash.
    `last_epoch` is what it knows of that."""

    guarantee: ClassVar[str]  # 'exactly-once' or 'at-least-once', shown by EXPLAIN

    def last_epoch(self) -> int | None:
        """The last epoch that this writer committed, over restarts; None when there is none."""

    def write(self, batch: Batch) -> None:
        """Takes rows of the table's schema. May fail with SqlError; the job that writes is then at
        fault."""

    def commit(self, epoch: int) -> int:
        """Makes the rows visible, and gives their number. An epoch that was committed before adds
        nothing."""

    def close(self) -> None: ...


class Busy(TryAgain):
    """Another holds what a sink writes to, for a moment: the same commit works once it is free."""


# What an embedding program takes rows with, by name.
Callables: TypeAlias = Mapping[str, Callable[[pa.RecordBatch], object]]
NO_CALLABLES: Callables = MappingProxyType({})


@dataclass(frozen=True)
class Environment:
    """What connectors may use: the broker (None in a script without a data folder), the clock in
    ms, the graph's id, the output stream of `print`, the tables in memory (None where a process may
    not keep any), and the disk that files are written to; `share`: which shards are read here,
    where a graph runs in parts; `once`: whether rows must come once, also where a crash repeats
    their epoch; `callables`: what an embedding program takes rows with."""

    broker: Broker | None
    clock: Callable[[], int]
    writer: str
    print_line: Callable[[str], None] = print
    memory: Memory | None = None
    disk: Disk = MACHINE
    callables: Callables = field(default_factory=lambda: NO_CALLABLES)
    share: SubtaskAssignment = WHOLE
    once: bool = True


def writer_of(graph: str, table: Table, *definition: str) -> str:
    """The writer of a graph's rows to one table: others of the graph that go to the same place have
    epochs of their own."""
    text = "\0".join([*table.name, str(table.physical), *definition])
    return f"{graph}/{xxh64_hexdigest(text.encode())}"


class Connector(Protocol):
    """One file in this folder defines one of these and registers it with `@connector('name')`."""

    name: ClassVar[str]
    options: ClassVar[
        Mapping[str, Option]
    ]  # besides 'connector', 'format' and the format's own; # is any column
    metadata: ClassVar[Mapping[str, DataType]]  # by metadata key
    needs_format: ClassVar[bool]
    accepts_updates: ClassVar[bool]  # whether its sink takes other rows than +I

    def source(self, table: Table, environment: Environment) -> Source:
        """Opens the table for reading; UnsupportedError if it can only be written."""

    def sink(self, table: Table, environment: Environment) -> Sink:
        """Opens the table for writing; UnsupportedError if it can only be read."""


@runtime_checkable
class Changing(Protocol):
    """What a connector has besides, where rows come or go with kinds and no format says which."""

    keeps_rows: ClassVar[
        bool
    ]  # rows are kept as they are: metadata may have any key, and tables partitions

    def brings(self, table: Table) -> frozenset[RowKind]:
        """The kinds of rows that the table may give."""

    def takes(self, table: Table) -> frozenset[RowKind]:
        """The kinds of rows that can be written to the table."""


@runtime_checkable
class Partitioning(Protocol):
    """What a connector has besides, where the values of partition columns do not stand in records:
    to it they are metadata, by `planner.catalog.PARTITION` and the column's name."""

    has_partitions: ClassVar[bool]

    def partitions(self, table: Table, values: Mapping[str, str]) -> list[str]:
        """Those there are with these values of columns ('' for NULL), as SHOW PARTITIONS names
        them: `dt=2024-05-01/hr=7`."""


@runtime_checkable
class Filing(Protocol):
    """What a connector has besides that takes formats of whole files."""

    keeps_files: ClassVar[bool]


@runtime_checkable
class Repeating(Protocol):
    """What a connector has besides whose sinks take rows again after a crash. `apart`: what takes
    them may fail for the rows of one job, so that each job has a sink of its own."""

    apart: ClassVar[bool]


@runtime_checkable
class Pruning(Protocol):
    """What a source has besides that can leave partitions out."""

    def keep(self, where: Scalar) -> None:
        """Reads only partitions whose columns fulfil this. Called before anything else."""


@runtime_checkable
class Forgetting(Protocol):
    """What a source has besides whose records may be gone."""

    def gone(self, shard: str, offset: int) -> str | None:
        """Why records from `offset` on are not all there any more; None where they are."""


@runtime_checkable
class Reloaded(Protocol):
    """What a connector has besides that can read a table again."""

    def reloaded_source(self, table: Table, environment: Environment) -> Source:
        """Opens a table in which rows are looked up; the source is a `Reloading` one."""


@runtime_checkable
class Reloading(Protocol):
    """What a source has besides whose rows are looked up and read again when they change. It has an
    end when nothing else is read any more. `versions`: the topic that keeps them; sources of a
    graph may have it in common."""

    versions: str

    def forget(self, before: int) -> None:
        """No source reads what stands before that offset of the topic, also after a crash."""

    def renew(self) -> bool:
        """Looks for another version, now and then; whether there is one to read."""

    def lines(self, before: int) -> pa.Array:
        """What a reader has who has read up to that offset: binary, each line as often as it is
        there, in any order."""

    def take_up(self, lines: pa.Array, *, alone: bool) -> int | None:
        """The offset at which a reader goes on who has these lines from another topic of versions.
        None where the last version is another one, and others read this topic: only for a reader
        who is `alone` it is changed to them."""


@runtime_checkable
class Overwriting(Protocol):
    """What a connector has besides, where INSERT OVERWRITE can put new rows in the place of those
    that a table holds."""

    overwrites_streams: ClassVar[bool]  # also where the input may have no end

    def overwriting_sink(self, table: Table, environment: Environment) -> Sink:
        """Opens the table for writing; its rows show once the sink `takes_place`."""


@runtime_checkable
class Replacing(Protocol):
    """What the sink of INSERT OVERWRITE has besides."""

    def take_place(self) -> None:
        """Puts all rows that were committed in the place of those that were there. Called once,
        when the statement has succeeded."""


@runtime_checkable
class Rolling(Protocol):
    """What a sink has besides whose rows show some time after their commit, in files that are
    complete then."""

    def roll(self, *, end: bool = False) -> None:
        """Called between two epochs, often: lets show what is due by now; with `end` all, since no
        more rows come. As `commit` raises, and is called again after TryAgain."""
