"""The progress of a job, as values: rows behind, watermarks, and what waits for later ones."""

from __future__ import annotations

from dataclasses import dataclass

from sqlengine.formats.times import iso_instant, iso_time


@dataclass(frozen=True)
class EventTime:
    """A time of events in ms, of a column with or without a zone."""

    ms: int
    zoned: bool

    def __str__(self) -> str:
        return iso_instant(self.ms) if self.zoned else iso_time(self.ms)


@dataclass(frozen=True)
class ShardProgress:
    """A shard of a table. `offset`: the next record (or byte of a file) to read; `end`: behind the
    last one, None where the source cannot know; `watermark`: None before the first row."""

    shard: str
    offset: int
    end: int | None
    watermark: EventTime | None
    idle: bool


@dataclass(frozen=True)
class TableProgress:
    """A table that a job reads.

    `unit` of `behind`: 'records' or 'bytes'. `lag_ms`: of the watermark behind the clock.
    `late_rows`: dropped by the job's operations over the table, since its graph was opened;
    `ended`: all input is read, or the watermark is at its end; `lost_files`: of followed logs,
    whose ends were gone before they were read, since the graph was opened."""

    table: str
    unit: str
    watermark: EventTime | None
    lag_ms: int | None
    late_rows: int
    ended: bool
    shards: tuple[ShardProgress, ...]
    lost_files: int = 0

    @property
    def behind(self) -> int | None:
        """The records, or bytes, that are left to read; None where that is not known."""
        known = [max(s.end - s.offset, 0) for s in self.shards if s.end is not None]
        return sum(known) if len(known) == len(self.shards) else None

    @property
    def idle_shards(self) -> list[str]:
        return [s.shard for s in self.shards if s.idle]


@dataclass(frozen=True)
class Wait:
    """An operation with `number` windows or rows (`unit`) that wait for the watermark `until`.

    `reached`: the present one, None before the first; `table` and `shard` hold it back; `hint`:
    what may help."""

    operation: str
    number: int
    unit: str
    until: EventTime
    reached: EventTime | None
    table: str
    shard: str | None
    hint: str

    @property
    def summary(self) -> str:
        """The two times in a few words; the date once, where it is the same."""
        until, reached = str(self.until), "none yet" if self.reached is None else str(self.reached)
        if reached[:10] == until[:10]:
            reached = reached[11:].removesuffix("Z")
        return f"waits for watermark {until}, has {reached}"


@dataclass(frozen=True)
class LookupTable:
    """A table that is held as a whole: the rows of its version, and why there is no newer one ('':
    nothing has failed)."""

    table: str
    rows: int
    failures: int
    error: str


@dataclass(frozen=True)
class JobProgress:
    """The tables that a running job reads, its operations that wait, the first wait first, and the
    tables in which it looks rows up that are held as a whole."""

    tables: tuple[TableProgress, ...] = ()
    waits: tuple[Wait, ...] = ()
    lookups: tuple[LookupTable, ...] = ()
