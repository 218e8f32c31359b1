"""The ends of a plan: scans with their watermarks, constant rows, and sinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

from parser.types import Column, Schema, TimeAttribute
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.monotonicity import (
    ModifiedMonotonicity,
    Monotonicity,
)
from planner.logical.node import (
    LogicalPlan,
    Names,
    OneInput,
    after_only_of_inputs,
    changes_of_inputs,
    constant_if_insert_only,
    never,
    no_columns,
    same_columns,
)
from planner.scalar import (
    UTC,
    Call,
    Scalar,
    columns_of,
    digest_of,
    walk,
)
from planner.tables import Table, Watermark

# Options of writers, of where a new job begins to read, and of watermarks (`AssignWatermark` has
# those): they change no row.
_NO_ROWS = ("sink.", "scan.startup.", "scan.watermark.")
# Options of how and how often a table of look-ups is asked, of who asks, and of where it is: what
# is there is no state, as its rows may be others each time.
_NO_ANSWERS = (
    *("lookup.", "sink.", "request.timeout", "password", "token"),
    *("url", "username", "table-name", "path", "tls."),
)


@dataclass(frozen=True)
class Scan(LogicalPlan):
    """Reads a table as its connector and format deliver it: physical and metadata columns.

    Computed columns are projected above it. Its identity is the source and the declared columns,
    not the table's name. `where` prunes partitions: it reads only partition columns; of a table
    that is `queried` it is what the source asks for, as far as it can, and at most `limit` rows (0:
    all). `looked_up`: it is the table of a lookup join, and no input of its own: it is held as a
    whole, or asked for the rows of keys."""

    table: Table
    where: Scalar | None = None
    looked_up: bool = False
    limit: int = field(default=0, kw_only=True)

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.table.physical.columns + tuple(m.column for m in self.table.metadata))

    @property
    def label(self) -> str:
        what = "asks for rows" if self.table.queried else "partitions"
        where = self._columns_asked
        where += "" if self.where is None else f", {what} where {self.where}"
        where += f", at most {self.limit} rows" if self.limit else ""
        beside = ", looked up" if self.looked_up else ""
        return f"{self.table.display} ({self.table.connector}){where}{beside}"

    @property
    def _columns_asked(self) -> str:
        names, table = self.table.physical.names, self.table
        all_ = len(table.schema.columns) - len(table.computed) - len(table.metadata)
        return f", asks for {', '.join(names)}" if table.queried and len(names) < all_ else ""

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        options = [f"{k}={v}" for k, v in sorted(self.table.options.items())]
        keys = [f"{m.column.name}<-{m.key}" for m in self.table.metadata]
        where = () if self.where is None else (self.where.digest,)
        return (
            *options,
            *keys,
            *map(str, self.schema),
            *where,
            *((f"limit {self.limit}",) if self.limit else ()),
            *(("reloaded",) if self.looked_up else ()),
        )

    def content(self, outputs: Names) -> tuple[str, ...]:
        """Leaves out columns that nobody reads, and options that say nothing of rows. A table that
        is looked up is known as a whole: what was read of it is read anew."""
        if self.looked_up:
            return self.identity
        options = {k: v for k, v in self.table.options.items() if not k.startswith(_NO_ROWS)}
        table = replace(
            self.table,
            options=options,
            physical=Schema(tuple(c for c in self.table.physical if c.name in outputs)),
            metadata=tuple(m for m in self.table.metadata if m.column.name in outputs),
        )
        return replace(self, table=table).identity

    column_sources = no_columns
    forwards_window = never

    @cached_property
    def changes(self) -> ModifyKindSet:
        return self.table.changes

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        known = Monotonicity.ANY if self.changes else Monotonicity.CONSTANT
        return ModifiedMonotonicity.of_all(self.schema.names, known)

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return (frozenset(self.table.primary_key),) if self.table.primary_key else ()


@dataclass(frozen=True)
class LookedUpScan(Scan, abstract=True):
    """Stands for a table of look-ups that is no input of its own: the join behind it finds the
    rows.

    `rows`: the plan over the table whose rows are looked up, its scan at the bottom. They are found
    by its columns `keys`."""

    rows: LogicalPlan | None = None
    keys: tuple[str, ...] = ()

    changes: ClassVar[ModifyKindSet] = ModifyKindSet.NONE
    column_sources = no_columns
    forwards_window = never

    @cached_property
    def schema(self) -> Schema:
        assert self.rows is not None
        return self.rows.schema

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        return ModifiedMonotonicity.of_all(self.schema.names, Monotonicity.CONSTANT)

    def content(self, outputs: Names) -> tuple[str, ...]:
        """Leaves out how and where the table is asked."""
        assert self.rows is not None
        return replace(self, rows=_however_asked(self.rows)).identity

    @property
    def functions(self) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        below: tuple[LogicalPlan, ...] = () if self.rows is None else (self.rows,)
        while below:
            found = found.union(*(node.functions for node in below))
            below = tuple(i for node in below for i in node.inputs)
        return found


@dataclass(frozen=True)
class MappedScan(LookedUpScan):
    """Reads a table of look-ups by its versions, of which each is a file that is mapped into
    memory: what comes are names of versions.

    Of the `keys` those in `null_safe` find NULL by NULL; of rows that are equal in `unique` the
    last one is there (none: all are)."""

    null_safe: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        by = ", ".join(self.keys) or "its conditions"
        return f"{super().label} in a mapped file by {by}, read again when it changes"

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        assert self.rows is not None
        lists = (self.keys, self.null_safe, self.unique)
        return (self.rows.digest, *(", ".join(map(repr, names)) for names in lists))


@dataclass(frozen=True)
class AskedScan(LookedUpScan):
    """Stands for a table of look-ups that is asked for the rows of the keys which come; nothing
    comes from it by itself.

    `columns`: the table's own, by which it is asked, for each of `keys`; `keeps`: answers are kept
    for a while."""

    columns: tuple[str, ...] = ()
    keeps: bool = False

    @property
    def label(self) -> str:
        kept = ", answers kept" if self.keeps else ""
        return f"{super().label} by asking for {', '.join(self.columns)}{kept}"

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        assert self.rows is not None
        lists = (self.keys, self.columns)
        return (self.rows.digest, *(", ".join(map(repr, names)) for names in lists))


def _however_asked(plan: LogicalPlan) -> LogicalPlan:
    """Returns a plan over a table without the options that say where it is, and how it is asked."""
    if not isinstance(plan, Scan):
        return plan.with_inputs([_however_asked(source) for source in plan.inputs])
    options = {k: v for k, v in plan.table.options.items() if not k.startswith(_NO_ANSWERS)}
    return replace(plan, table=replace(plan.table, options=options))


@dataclass(frozen=True)
class AssignWatermark(OneInput):
    """Assigns watermarks, and makes the column a row-time attribute.

    The watermark is the greatest value of the expression so far within a shard, and the least over
    all shards. `at_end`: there is none before the end of input, so no row is late. `idle_ms`: a
    shard that has been silent for that time is idle, and does not hold the watermark back (0: it
    always does). `interval_ms`: as in Flink, a watermark is emitted at once if it is more than that
    ahead of the last one, and otherwise after that time (0: with each row). `pushed`: the source
    itself delivers the watermark of each row (it may be before 1970). `max_future_ms`: a row that
    is further ahead of the processing time is set aside and leaves the watermark as it is (0: none
    is); a time without a zone is one of `zone`."""

    watermark: Watermark
    at_end: bool = False
    idle_ms: int = 0
    interval_ms: int = 0
    pushed: bool = False
    max_future_ms: int = 0
    zone: str = UTC

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    column_sources = same_columns
    forwards_window = never

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        below = self.input.monotonicity
        return None if below is None else below.unknown(self.schema.names)

    @property
    def nonnegative(self) -> Names:
        return self.input.nonnegative

    @cached_property
    def schema(self) -> Schema:
        return Schema(
            tuple(
                Column(c.name, c.type.as_attribute(TimeAttribute.ROWTIME))
                if c.name == self.watermark.column
                else c
                for c in self.input.schema
            )
        )

    @property
    def label(self) -> str:
        idle = f", idle after {self.idle_ms} ms" if self.idle_ms else ""
        interval = f", each {self.interval_ms} ms" if self.interval_ms else ""
        future = f", at most {self.max_future_ms} ms ahead" if self.max_future_ms else ""
        return f"{self.watermark.column} AS {self.watermark.expression}{idle}{interval}{future}"

    @property
    def parameters(self) -> tuple[str, ...]:
        idle = (f"idle {self.idle_ms}",) if self.idle_ms else ()
        at_end = ("at end",) if self.at_end else ()
        interval = (f"each {self.interval_ms}",) if self.interval_ms else ()
        pushed = ("pushed",) if self.pushed else ()
        future = (f"at most {self.max_future_ms} ahead in {self.zone}",)
        return (
            self.watermark.column,
            self.watermark.expression.digest,
            *at_end,
            *idle,
            *interval,
            *pushed,
            *(future if self.max_future_ms else ()),
        )

    def content(self, outputs: Names) -> tuple[str, ...]:
        """Leaves out the bounds on silent shards and on rows from the future: they say how the
        watermark goes on from now, not what the windows so far hold."""
        return replace(self, idle_ms=0, max_future_ms=0, zone=UTC).pruned(outputs).identity

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(n.function for n in walk(self.watermark.expression) if isinstance(n, Call))

    def reads(self, outputs: Names, port: int) -> Names:
        return outputs | columns_of(self.watermark.expression) | {self.watermark.column}

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.input.upsert_keys


@dataclass(frozen=True)
class Values(LogicalPlan):
    """Constant rows; each item is a deterministic or non-deterministic expression without
    columns."""

    rows: tuple[tuple[Scalar, ...], ...]
    row_schema: Schema
    salt: str = ""

    changes = cached_property(changes_of_inputs)
    column_sources = no_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def schema(self) -> Schema:
        return self.row_schema

    @property
    def label(self) -> str:
        return f"{len(self.rows)} rows"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.salt, str(self.row_schema), *(e.digest for r in self.rows for e in r))

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        return tuple(e for row in self.rows for e in row)

    def with_expressions(self, expressions: Sequence[Scalar]) -> Self:
        width = len(self.row_schema)
        starts = range(0, len(expressions), width) if width else ()
        return replace(
            self, rows=tuple(tuple(expressions[i : i + width]) for i in starts) or self.rows
        )


@dataclass(frozen=True)
class Sink(OneInput):
    """Writes the rows of a query to a table, or to the session that asked (`table` is None).

    Sinks are never shared: `job` and `place` (the statement's number in the job) are part of the
    identity. `conflict` is the action of ON CONFLICT, until `planner.analysis.delivery` has chosen
    how rows are delivered. `apart`: each job has a writer of its own, since a write may fail for
    the rows of one job. `counted`: its rows are among those that the job is said to give."""

    forwards_row_time: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False

    table: Table | None
    job: str = ""
    place: int = 0
    conflict: str = ""
    overwrite: bool = False
    apart: bool = False
    counted: bool = True

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    column_sources = same_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def label(self) -> str:
        return f"{self.table.display} ({self.table.connector})" if self.table else "result"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.job, str(self.place), *self.target)

    @cached_property
    def target(self) -> tuple[str, ...]:
        """Identity of the table that is written, with its options; empty for a query's result."""
        if self.table is None:
            return ()
        options = [f"{k}={v}" for k, v in sorted(self.table.options.items())]
        how = ("overwrite",) if self.overwrite else ()
        whose = ("apart", self.job) if self.apart else ()
        return (".".join(self.table.name), *options, str(self.table.schema), *how, *whose)

    @cached_property
    def target_digest(self) -> str:
        return digest_of(*self.target)
