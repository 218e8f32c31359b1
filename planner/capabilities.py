"""The capabilities of tables as data: a connector declares them in one value, which the planner,
EXPLAIN, the dry run of a job and the reference page read.

The names follow Flink's ability interfaces of `DynamicTableSource` and `DynamicTableSink`:
`ChangelogMode`, `SupportsPartitioning`, `SupportsOverwrite`, `LookupTableSource`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from planner.logical.change_kinds import INSERT_ONLY, ChangelogMode

# Stands for the changelog mode of the table's format until `Capabilities.with_format` fills it in.
OF_FORMAT: Final = ChangelogMode(frozenset())


class DeliveryGuarantee(Enum):
    """How often a row is visible in a sink's table after a crash."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class Boundedness(Enum):
    """When a source ends."""

    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"
    BY_OPTIONS = "by options"


class Lookup(Enum):
    """How a source serves a lookup join: `SCANNED` is read as any other input, and rows are looked
    up among those read so far; `RELOADED` can also be read again periodically, as a whole (Flink's
    `FullCachingLookupProvider`)."""

    SCANNED = "rows read so far"
    RELOADED = "rows read so far; reloaded periodically"


class Overwrite(Enum):
    """In which runtime modes INSERT OVERWRITE replaces the rows of a table."""

    UNSUPPORTED = "no"
    BATCH = "in batch mode"
    ALWAYS = "yes"


class FormatUse(Enum):
    """The formats that a connector reads and writes: none, those of records, or also those of whole
    files (Flink's bulk formats)."""

    NONE = "none"
    RECORDS = "records"
    RECORDS_AND_FILES = "records, files"


@dataclass(frozen=True)
class SourceCapabilities:
    """What a table can do as a source.

    `replayable`: records that were read once can be read again with equal bytes; `seekable`: a new
    job may begin elsewhere than at the first record; `expires`: records may be removed while a
    savepoint still refers to them; `partition_push_down`: it reads only partitions that fulfil a
    condition."""

    changelog: ChangelogMode = INSERT_ONLY
    boundedness: Boundedness = Boundedness.UNBOUNDED
    replayable: bool = True
    seekable: bool = False
    expires: bool = False
    partition_push_down: bool = False
    lookup: Lookup = Lookup.SCANNED


@dataclass(frozen=True)
class SinkCapabilities:
    """What a table can do as a sink.

    `condition`: what the guarantee rests on, for people; `isolated_jobs`: each job has a sink of
    its own, since the table may refuse the rows of one job; `rolling`: committed rows become
    visible later, in files that are complete then."""

    changelog: ChangelogMode = INSERT_ONLY
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    condition: str = ""
    overwrite: Overwrite = Overwrite.UNSUPPORTED
    isolated_jobs: bool = False
    rolling: bool = False


@dataclass(frozen=True)
class Capabilities:
    """What a connector can do. `source` or `sink` is None where its tables cannot be read or
    written; `partitioning`: tables may be PARTITIONED BY columns that are not in the records;
    `keeps_rows`: rows are kept as they are, so metadata may have any key, and tables partitions."""

    source: SourceCapabilities | None = None
    sink: SinkCapabilities | None = None
    format: FormatUse = FormatUse.NONE
    partitioning: bool = False
    keeps_rows: bool = False

    def with_changelog(
        self, *, source: ChangelogMode | None = None, sink: ChangelogMode | None = None
    ) -> Capabilities:
        """The same with other changelog modes, where they are given."""
        changed = self
        if self.source is not None and source is not None:
            changed = replace(changed, source=replace(self.source, changelog=source))
        if self.sink is not None and sink is not None:
            changed = replace(changed, sink=replace(self.sink, changelog=sink))
        return changed

    def with_format(self, mode: ChangelogMode) -> Capabilities:
        """The same where the changelog mode of the table's format is `mode`."""
        reads = self.source is not None and self.source.changelog is OF_FORMAT
        writes = self.sink is not None and self.sink.changelog is OF_FORMAT
        return self.with_changelog(source=mode if reads else None, sink=mode if writes else None)
