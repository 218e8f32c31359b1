"""The capabilities of tables as data: a connector declares them in one value, which the planner,
EXPLAIN, the dry run of a job and the reference page read.

The names follow Flink's ability interfaces of `DynamicTableSource` and `DynamicTableSink`:
`ChangelogMode`, `SupportsPartitioning`, `SupportsOverwrite`, `LookupTableSource`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

from planner.catalog import Table
from planner.logical.change_kinds import INSERT_ONLY, ChangelogMode

# Stands for the changelog mode of the table's format until `Capabilities.with_format` fills it in.
OF_FORMAT: Final = ChangelogMode(frozenset())


class DeliveryGuarantee(Enum):
    """A sink's guarantee on the times that a row becomes visible if there is a crash."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class Boundedness(Enum):
    """The end of a source: always, never, or as its options say."""

    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"
    BY_OPTIONS = "by options"


class Lookup(Enum):
    """The ways in which a source serves a lookup join.

    `SCANNED` is read as any other input, and rows are looked up among those read so far;
    `RELOADED` can also be held as a whole, in a file that is mapped into memory, and be read again
    periodically (Flink's `FullCachingLookupProvider`); `ASKED` can also be asked for the rows of
    keys (Flink's `LookupFunctionProvider`)."""

    SCANNED = "rows read so far"
    RELOADED = "rows read so far; or held as a whole, reloaded"
    ASKED = "rows read so far; or held as a whole, reloaded; or asked by key"


class Overwrite(Enum):
    """The runtime modes in which INSERT OVERWRITE replaces the rows of a table."""

    UNSUPPORTED = "no"
    BATCH = "in batch mode"
    ALWAYS = "yes"


class FormatUse(Enum):
    """The formats that a connector reads and writes: none, those of records, of the keys of records
    as well, or also bulk formats of whole files."""

    NONE = "none"
    RECORDS = "records"
    RECORDS_WITH_KEYS = "records, keys"
    RECORDS_AND_FILES = "records, files"


@dataclass(frozen=True)
class SourceCapabilities:
    """The capabilities of a table as a source.

    `replayable`: records that were read once can be read again with equal bytes; `seekable`: a
    new job may begin elsewhere than at the first record; `expires`: records may be removed while
    a savepoint still refers to them; `partition_push_down`: it reads only partitions that fulfil
    a condition; `filter_push_down`: it can leave out rows that do not fulfil one, as far as that is
    known without reading them; `queried`: each plan has a scan of its own, which asks for the
    columns, rows and number of rows that the plan wants; `parallel`: subtasks may share out its
    shards."""

    changelog: ChangelogMode = INSERT_ONLY
    boundedness: Boundedness = Boundedness.UNBOUNDED
    replayable: bool = True
    seekable: bool = False
    expires: bool = False
    partition_push_down: bool = False
    filter_push_down: bool = False
    queried: bool = False
    lookup: Lookup = Lookup.SCANNED
    parallel: bool = False


@dataclass(frozen=True)
class SinkCapabilities:
    """The capabilities of a table as a sink.

    `condition`: what the guarantee rests on, for people; `isolated_jobs`: each job has a sink of
    its own, since the table may refuse the rows of one job; `rolling`: committed rows become
    visible later, in files that are complete then; `parallel`: several subtasks may write to it."""

    changelog: ChangelogMode = INSERT_ONLY
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    condition: str = ""
    overwrite: Overwrite = Overwrite.UNSUPPORTED
    isolated_jobs: bool = False
    rolling: bool = False
    parallel: bool = False


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a connector, or of one of its tables.

    `source` or `sink` is None where tables cannot be read or written; `partitioning`: tables may
    be PARTITIONED BY columns that are not in the records; `keeps_rows`: rows are kept as they
    are, so metadata may have any key, and tables partitions; `on_broker`: tables are topics of
    the server's broker, so offsets count records, and space and loss of power are the broker's
    concern; `received`: tables are read from such topics, which the server fills with what comes
    from outside; `blocks`: a call may wait for a host or a disk, so that a server makes it beside
    its graphs, with a deadline."""

    source: SourceCapabilities | None = None
    sink: SinkCapabilities | None = None
    format: FormatUse = FormatUse.NONE
    partitioning: bool = False
    keeps_rows: bool = False
    on_broker: bool = False
    received: bool = False
    blocks: bool = True

    @property
    def reads_topics(self) -> bool:
        """True if offsets count records of topics of the server's broker."""
        return self.on_broker or self.received

    @property
    def counts_records(self) -> bool:
        """True if offsets count records, whatever their format, and not bytes."""
        return self.reads_topics or self.format is FormatUse.RECORDS_WITH_KEYS

    def with_changelog(
        self, *, source: ChangelogMode | None = None, sink: ChangelogMode | None = None
    ) -> Capabilities:
        """Returns a copy with other changelog modes, where they are given."""
        changed = self
        if self.source is not None and source is not None:
            changed = replace(changed, source=replace(self.source, changelog=source))
        if self.sink is not None and sink is not None:
            changed = replace(changed, sink=replace(self.sink, changelog=sink))
        return changed

    def with_format(self, mode: ChangelogMode) -> Capabilities:
        """Returns a copy in which OF_FORMAT is replaced by `mode`, that of the table's format."""
        reads = self.source is not None and self.source.changelog is OF_FORMAT
        writes = self.sink is not None and self.sink.changelog is OF_FORMAT
        return self.with_changelog(source=mode if reads else None, sink=mode if writes else None)


# What the connector of a table declares.
CapabilitiesOf: TypeAlias = Callable[[Table], Capabilities]
