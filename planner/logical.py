"""The logical plan: frozen dataclasses, one per relational operation, each of which knows its schema.

`digest` is the *sharing identity* of a node: a hash of operation, parameters and inputs. Two jobs' nodes with one
digest are one node of the graph. What is non-deterministic never has the digest of anything else (`salt`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from parser.types import Column, DataType, Schema, TimeAttribute, timestamp
from planner.catalog import Table, Watermark
from planner.scalar import Call, Scalar, digest_of, walk


@dataclass(frozen=True)
class Node:
    """A node of the plan. `inputs` come first in every subclass that has them."""

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    @property
    def label(self) -> str:
        """What EXPLAIN prints behind the name of the operation."""
        return ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """All that tells this node from another of its class over the same inputs."""
        raise NotImplementedError

    @cached_property
    def digest(self) -> str:
        return digest_of(type(self).__name__, *self.parameters, *(i.digest for i in self.inputs))


@dataclass(frozen=True)
class Scan(Node):
    """Rows of a table as its connector and format give them: physical and metadata columns, nothing computed, nothing
    pushed down. Its identity is the source and the declared columns, not the table's name."""

    table: Table

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.table.physical.columns + tuple(m.column for m in self.table.metadata))

    @property
    def label(self) -> str:
        return f"{self.table.display} ({self.table.connector})"

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        options = [f"{k}={v}" for k, v in sorted(self.table.options.items())]
        keys = [f"{m.column.name}<-{m.key}" for m in self.table.metadata]
        return (*options, *keys, *map(str, self.schema))


@dataclass(frozen=True)
class Values(Node):
    """Constant rows; each item is a deterministic or non-deterministic expression without columns."""

    rows: tuple[tuple[Scalar, ...], ...]
    row_schema: Schema
    salt: str = ""

    @property
    def schema(self) -> Schema:
        return self.row_schema

    @property
    def label(self) -> str:
        return f"{len(self.rows)} rows"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.salt, str(self.row_schema), *(e.digest for r in self.rows for e in r))


@dataclass(frozen=True)
class Filter(Node):
    """Rows for which `predicate` is TRUE."""

    input: LogicalPlan
    predicate: Scalar
    salt: str = ""

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def label(self) -> str:
        return str(self.predicate)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.salt, self.predicate.digest)


@dataclass(frozen=True)
class Project(Node):
    """One row for each input row: named expressions over it."""

    input: LogicalPlan
    items: tuple[tuple[str, Scalar], ...]
    salt: str = ""

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple(Column(name, e.type) for name, e in self.items))

    @property
    def label(self) -> str:
        return ", ".join(n if str(e) == n else f"{e} AS {n}" for n, e in self.items)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return (self.salt, *(part for name, e in self.items for part in (name, e.digest, str(e.type))))


@dataclass(frozen=True)
class TableFunction(Node):
    """For each row, the rows that a table function gives for it: the input's columns, then the function's `columns`.
    `outer`: a row for which it gives none comes once, with NULL. The names of `columns` are none of the input's."""

    input: LogicalPlan
    call: Call
    columns: tuple[Column, ...]
    outer: bool = False
    salt: str = ""

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        made = (Column(c.name, c.type.with_nullable(True)) if self.outer else c for c in self.columns)
        return Schema((*self.input.schema.columns, *made))

    @property
    def label(self) -> str:
        names = ", ".join(c.name for c in self.columns)
        return f"{'LEFT ' if self.outer else ''}{self.call} AS ({names})"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.salt, str(self.outer), self.call.digest, *map(str, self.columns))


@dataclass(frozen=True)
class AssignWatermark(Node):
    """Gives each row the watermark before it (per shard the greatest value of the expression so far, over shards the
    least), and makes the column a row-time attribute."""

    input: LogicalPlan
    watermark: Watermark

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        return Schema(
            tuple(
                Column(c.name, c.type.as_attribute(TimeAttribute.ROWTIME)) if c.name == self.watermark.column else c
                for c in self.input.schema
            )
        )

    @property
    def label(self) -> str:
        return f"{self.watermark.column} AS {self.watermark.expression}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.watermark.column, self.watermark.expression.digest)


@dataclass(frozen=True)
class Tumble:
    """Windows of `size_ms` that begin at multiples of it plus `offset_ms`, in the time zone `zone`."""

    time_column: str
    size_ms: int
    offset_ms: int = 0
    zone: str = "UTC"

    def __str__(self) -> str:
        offset = f", offset {self.offset_ms} ms" if self.offset_ms else ""
        return f"TUMBLE({self.time_column}, {self.size_ms} ms{offset})"


WINDOW_COLUMNS = ("window_start", "window_end", "window_time")


@dataclass(frozen=True)
class WindowAssign(Node):
    """Each row with the window that it falls into: the input's columns, then `start` and `end` (TIMESTAMP(3) NOT NULL)
    and `time` (the last millisecond, a row-time attribute)."""

    input: LogicalPlan
    window: Tumble
    names: tuple[str, str, str] = WINDOW_COLUMNS

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        bound = timestamp(3).with_nullable(False)
        source = self.input.schema.type(self.window.time_column)
        time = DataType(source.root, nullable=False, precision=3, time=TimeAttribute.ROWTIME)
        start, end, last = self.names
        return Schema((*self.input.schema.columns, Column(start, bound), Column(end, bound), Column(last, time)))

    @property
    def label(self) -> str:
        return str(self.window)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (str(self.window), self.window.zone, *self.names)


@dataclass(frozen=True)
class AggregateCall:
    """`function` of `udf.aggregates` over the input column `argument` (None for COUNT(*)); `name` and `type` are those
    of the result column. `filter_column` names a BOOLEAN input column: only rows where it is TRUE count."""

    name: str
    function: str
    argument: str | None
    type: DataType
    argument_type: DataType | None = None
    distinct: bool = False
    filter_column: str | None = None

    def __str__(self) -> str:
        distinct = "DISTINCT " if self.distinct else ""
        where = f" FILTER ({self.filter_column})" if self.filter_column else ""
        return f"{self.function}({distinct}{self.argument or '*'}){where} AS {self.name}"


@dataclass(frozen=True)
class WindowAggregate(Node):
    """Groups rows that carry window columns (`WindowAssign` below) by window and `keys`; a window's rows come out once
    the watermark has passed `time`. Output: keys, aggregates, then start, end, time."""

    input: LogicalPlan
    keys: tuple[str, ...]
    aggregates: tuple[AggregateCall, ...]
    window_columns: tuple[str, str, str] = WINDOW_COLUMNS

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        keys = tuple(Column(k, self.input.schema.type(k)) for k in self.keys)
        calls = tuple(Column(a.name, a.type) for a in self.aggregates)
        return Schema(keys + calls + self.input.schema.select(self.window_columns).columns)

    @property
    def label(self) -> str:
        return f"by {', '.join((*self.keys, *self.window_columns[:2]))}: {', '.join(map(str, self.aggregates))}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.keys, "|", *(f"{a} {a.type}" for a in self.aggregates), "|", *self.window_columns)


@dataclass(frozen=True)
class Union(Node):
    """All rows of all inputs (UNION ALL); columns by position, names of the first."""

    branches: tuple[LogicalPlan, ...]
    row_schema: Schema

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return self.branches

    @property
    def schema(self) -> Schema:
        return self.row_schema

    @property
    def parameters(self) -> tuple[str, ...]:
        return (str(self.row_schema),)


@dataclass(frozen=True)
class Sink(Node):
    """Rows of the query written to a table, or collected by the session that asked (`table` None). Sinks are never
    shared: `job` and `place` (the statement's number in the job) are part of the identity."""

    input: LogicalPlan
    table: Table | None
    job: str = ""
    place: int = 0

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def label(self) -> str:
        return f"{self.table.display} ({self.table.connector})" if self.table else "result"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.job, str(self.place), *self.target)

    @cached_property
    def target(self) -> tuple[str, ...]:
        """All that tells the table from another one to write to; nothing for a query's result."""
        if self.table is None:
            return ()
        options = [f"{k}={v}" for k, v in sorted(self.table.options.items())]
        return (".".join(self.table.name), *options, str(self.table.schema))

    @cached_property
    def target_digest(self) -> str:
        return digest_of(*self.target)


LogicalPlan: TypeAlias = (
    Scan | Values | Filter | Project | TableFunction | AssignWatermark | WindowAssign | WindowAggregate | Union | Sink
)

STATEFUL = (WindowAggregate,)


def calls_of(plan: LogicalPlan) -> frozenset[str]:
    """Names of all functions that the node itself calls."""
    match plan:
        case Project():
            expressions: tuple[Scalar, ...] = tuple(e for _, e in plan.items)
        case Filter():
            expressions = (plan.predicate,)
        case Values():
            expressions = tuple(e for row in plan.rows for e in row)
        case AssignWatermark():
            expressions = (plan.watermark.expression,)
        case TableFunction():
            expressions = (plan.call,)
        case WindowAggregate():
            return frozenset(a.function for a in plan.aggregates)
        case _:
            return frozenset()
    return frozenset(n.function for e in expressions for n in walk(e) if isinstance(n, Call))


def time_origin(plan: LogicalPlan) -> str:
    """The digest of the node that the rows have their watermark from: a table's, a window's, or a union's own."""
    while isinstance(plan, Filter | Project | TableFunction | WindowAssign | Sink):
        plan = plan.input
    return plan.digest
