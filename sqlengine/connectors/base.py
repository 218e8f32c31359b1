"""The interfaces of connectors: sources made of shards that are read by offset, and sinks that
commit an epoch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from parser.errors import TryAgain
from parser.types import DataType
from planner.capabilities import Capabilities
from planner.catalog import Table
from planner.scalar import Scalar
from sqlengine.batch import Batch
from sqlengine.broker.auto_create import NewTopic
from sqlengine.connectors.chunks import Chunk, Part
from sqlengine.connectors.encoded import RowEncoder
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.full_cache import FullCache
from sqlengine.connectors.health import Health
from sqlengine.connectors.refused_rows import RefusedRows
from sqlengine.connectors.row_lookup import RowLookup
from sqlengine.formats.base import Option
from sqlengine.system.file_access import FileAccess


class Source(ABC):
    """Reads the records of a table, shard by shard.

    Offsets are integers that only grow within a shard; what they count is the connector's business
    (records, bytes). Methods are called one at a time: from the graph's thread, which they must not
    block, or from others where the connector declares that they may (`blocks`). What they raise
    fails the jobs that read the table. Those with a body belong to a declared capability
    (`planner.capabilities`)."""

    # How lookup joins see new versions of the table; None for a table that is read once.
    full_cache: FullCache | None = None
    # True if `apply_filter` has an effect.
    filters: bool = False
    # What the connection does, for people and metrics; None where there is none to tell of.
    health: Health | None = None

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """True if the source ends where `end` is now."""

    @abstractmethod
    def shards(self) -> list[str]:
        """Returns the shards that exist now; more may appear later, and one disappears only when it
        is `closed`."""

    @abstractmethod
    def start(self, shard: str) -> int:
        """Returns the offset at which a new job begins, by the table's startup mode."""

    @abstractmethod
    def end(self, shard: str) -> int | None:
        """Returns the offset after the last record that exists now; None when the source cannot
        know."""

    @abstractmethod
    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """Returns records from `offset` on, at most `max_rows`; None when there are none now.

        With `until` it returns exactly the records before that offset, however many: a replay reads
        the ranges that its epochs recorded. Where the source is `replayable`, records that were
        read once come again with equal bytes."""

    def resume(  # noqa: B027
        self, positions: Mapping[str, int], marks: Mapping[str, str]
    ) -> None:
        """Takes up shards that were read before, to these offsets, with what the source had to say
        of them then (`marks`). Called before anything else where reading goes on, and for shards
        that a recovery opens again."""

    def marks(self) -> Mapping[str, str]:
        """Returns what the source wants to know of its shards after a restart, besides positions;
        not all of them have something."""
        return {}

    def closed(self) -> list[str]:
        """Returns shards that are gone, after they were read: their positions need not be kept."""
        return []

    def forget(self, shards: Iterable[str]) -> None:  # noqa: B027
        """Drops closed shards: an epoch has recorded that they are."""

    def check_start(self) -> None:  # noqa: B027
        """Raises SqlError where no new job can begin, by the table's options. Called before a job
        that begins is accepted; what `start` finds out later fails the job."""

    def expect(self, shard: str, start: int, end: int, digest: str) -> None:  # noqa: B027
        """Tells the `digest` of the chunk that is repeated next."""

    def notify_checkpoint(self, positions: Mapping[str, int]) -> None:  # noqa: B027
        """Publishes the offset that each shard has reached, for consumers outside. Called now
        and then, after a checkpoint; the graph itself goes on from that."""

    def expired(self, shard: str, offset: int) -> str | None:
        """Returns why records from `offset` on are no longer complete (capability `expires`), or
        None."""
        return None

    def lost(self) -> int:
        """Returns how many shards ended before they were read to their ends, as far as is known,
        since the source was opened. Any thread."""
        return 0

    def first(self, shard: str) -> int | None:
        """Returns the offset of the first record that is still there (capability `expires`); None
        where the source does not know it."""
        return None

    def at(self, shard: str, place: str | int) -> int | None:
        """Returns the offset of 'earliest', 'latest' or a time (ms); None where the source does not
        know it."""
        return self.end(shard) if place == "latest" else 0 if place == "earliest" else None

    def apply_partitions(self, where: Scalar) -> None:
        """Restricts reading to partitions whose columns fulfil `where` (capability
        `partition_push_down`). Called before anything else."""
        raise NotImplementedError(f"{type(self).__name__} has no partitions")

    def apply_query(self, where: Scalar | None, limit: int) -> None:
        """Lets the source ask for rows that fulfil `where` alone, as far as it can, and for at most
        `limit` of them (0: all); more rows do no harm (capability `queried`). Called before
        anything else."""
        raise NotImplementedError(f"{type(self).__name__} asks for nothing")

    def widen(self, times: int, size: int) -> None:  # noqa: B027
        """Lets polls read so many times as many rows, where these are about `size` bytes at most:
        who polls pays for each. Called before anything else; not all sources can."""

    def rows_per_poll(self, most: int) -> int:
        """Returns how many rows a poll reads of each shard that may read so many, see `widen`."""
        return most

    def link(self, folder: Path, rows: int) -> None:  # noqa: B027
        """Lets a chunk of more than `rows` rows say where these are, for processes that read them
        by `Connector.linked`: in places of some multiple of `rows`, as far as `folder` keeps them.
        Called before anything else; not all sources can."""

    def apply_filter(self, where: Scalar | None) -> None:  # noqa: B027
        """Lets reads leave out rows that do not fulfil `where`, as far as that is known without
        reading them (capability `filter_push_down`); None: they leave out nothing. Offsets stay
        what they are. Called between two reads, as often as the plan changes."""

    def parts(self, shard: str) -> Sequence[Part] | None:
        """Returns the parts of a shard that are best read by one reader each, in order; None where
        any offset is as good as another."""
        return None

    @abstractmethod
    def close(self) -> None: ...


class Sink(ABC):
    """Writes the rows of a table; one sink per table and graph.

    The graph's id is the `writer` it was opened with. Called as sources are. Exactly once means:
    `write` any number of times, then `commit(epoch)`; all rows since the last commit become visible
    together, once, even if the same epoch is committed again after a crash. `last_epoch` is what
    the table knows of that. Methods with a body belong to a declared capability
    (`planner.capabilities`)."""

    # What the connection does, for people and metrics; None where there is none to tell of.
    health: Health | None = None

    @abstractmethod
    def last_epoch(self) -> int | None:
        """Returns the last epoch that this writer committed, or may have in part, over restarts;
        None when there is none. SqlError where that cannot be told now."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Accepts rows of the table's schema. May fail with SqlError; the job that writes is then
        at fault."""

    @abstractmethod
    def commit(self, epoch: int) -> int:
        """Makes the rows visible and returns their number; an epoch that was committed before adds
        nothing.

        Raises `TryAgain` where there is no space, or another process holds the table: the rows
        stay, and the same commit is called again."""

    def refused(self) -> Sequence[RefusedRows]:
        """Returns the rows that the other side has refused for good since this was last asked: they
        become dead letters. Asked after each `commit`, also one that raised; touches nothing
        outside. A commit that a crash repeats has to tell them again."""
        return ()

    def roll(self, *, end: bool = False) -> None:  # noqa: B027
        """Makes complete files visible (capability `rolling`). Called between two epochs, often;
        with `end` all files, since no more rows come. Raises as `commit` does."""

    def roll_is_due(self) -> bool:
        """Returns False while `roll` would do nothing (capability `rolling`). Asked often, and
        touches nothing outside."""
        return True

    def publish_overwrite(self) -> None:  # noqa: B027
        """Replaces the table's rows by those that were committed (capability `overwrite`). Called
        once, when the statement has succeeded."""

    @abstractmethod
    def close(self) -> None: ...


class Busy(TryAgain):
    """Raised while another process holds what a sink writes to, or it does not answer; the same
    commit works once it is free."""


class RowsRefused(Busy):
    """Raised by a commit that wrote nothing, since the other side refuses rows for good: `refused`
    tells them. Once they are dead letters, the same commit writes the others."""


class Unanswered(Busy):
    """Raised while a call of a sink has not come back: what it writes may yet appear, so nobody
    else may write for it."""


class Connector(ABC):
    """Opens the tables of one kind of system.

    A subclass stands in a file of its own, and is found by its entry point in the group
    'sqlengine.connectors' (`sqlengine.system.plugins`): ours are in pyproject.toml, those of other
    distributions in theirs. It is made without arguments, when its name is first used.

    `options`: besides 'connector', 'format' and those of the format; # in a name stands for any
    column. `metadata`: the types of metadata columns by key. `capabilities`: the most that its
    tables can do; `capabilities_of` returns what one table can do. `tested_with`: the servers, and
    their versions, that its tests run against, '' where it needs none; `on_spark`: what tasks do of
    the work there."""

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    options: ClassVar[Mapping[str, Option]] = {}
    metadata: ClassVar[Mapping[str, DataType]] = {}
    tested_with: ClassVar[str] = ""
    on_spark: ClassVar[str] = "the driver reads and writes"

    def capabilities_of(self, table: Table) -> Capabilities:
        """Returns what the table can do with its options. PlanError where these contradict each
        other."""
        return self.capabilities

    def source(self, table: Table, environment: Environment) -> Source:
        """Opens the table for reading. Called if it has capabilities as a source."""
        raise NotImplementedError(f"connector '{self.name}' cannot read")

    def row_lookup(
        self, table: Table, columns: Sequence[str], environment: Environment
    ) -> RowLookup:
        """Opens the table to ask for rows by these columns. Called if it has the capability
        `Lookup.ASKED`. SqlError where it cannot be asked by them."""
        raise NotImplementedError(f"connector '{self.name}' cannot be asked")

    def content_stamp(self, table: Table, environment: Environment) -> str | None:
        """Returns what tells two states of a table apart without reading it; None where that is not
        known. OSError where it is not there."""
        return None

    def sink(self, table: Table, environment: Environment) -> Sink:
        """Opens the table for writing. Called if it has capabilities as a sink."""
        raise NotImplementedError(f"connector '{self.name}' cannot write")

    def overwriting_sink(self, table: Table, environment: Environment) -> Sink:
        """Opens the table for INSERT OVERWRITE: its rows are visible after `publish_overwrite`.
        Called if `overwrite` is supported."""
        raise NotImplementedError(f"connector '{self.name}' cannot overwrite")

    def rejects(self, table: Table, rows: Batch) -> Mapping[int, str]:
        """Returns the rows that the table cannot take, whatever its state, with the reasons: they
        become dead letters. The same rows are told in each repetition of an epoch, also where the
        table cannot be opened then."""
        return {}

    def encode(self, table: Table, rows: Batch) -> None:  # noqa: B027
        """Makes records of rows, as a sink of the table does, and drops them. Raises where a row
        cannot be one, whatever the state of the table: such rows are looked for when a sink refuses
        a batch, and become dead letters. The sink must not have taken any row of the batch then."""

    def row_encoder(self, table: Table) -> RowEncoder | None:
        """Returns what makes of rows what the table's sink stores, so that it need not; None where
        only the sink can."""
        return None

    def linked(self, table: Table, at: bytes) -> Chunk:
        """Returns the rows of a place, see `Source.link`. OSError or SqlError where they cannot be
        read, which may be so in this process alone."""
        raise NotImplementedError(f"connector '{self.name}' links nothing")

    def missing_topic(
        self, table: Table, environment: Environment, *, writes: bool
    ) -> NewTopic | None:
        """Returns the topic that opening the table for reading (for writing, with `writes`) would
        create; None where nothing would be created."""
        return None

    def partitions(self, table: Table, values: Mapping[str, str], files: FileAccess) -> list[str]:
        """Returns the partitions with these values of columns ('' for NULL).

        They are named as SHOW PARTITIONS does: `dt=2024-05-01/hr=7`. Called if `partitioning` is
        supported. To such a connector partition columns are metadata, by
        `planner.catalog.PARTITION` and the column's name. `files`: as in `Environment`."""
        raise NotImplementedError(f"connector '{self.name}' has no partitions")
