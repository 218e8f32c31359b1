"""The past of tables: what of them is read, and from where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from parser.errors import ServiceError
from parser.types import Column, Schema
from planner.catalog import PARTITION, MetadataColumn, Table
from planner.logical import (
    AssignWatermark,
    Filter,
    LogicalPlan,
    LookedUpScan,
    LookupJoin,
    Project,
    Scan,
    Sink,
)
from planner.passes.push_down_filter import push_down_filter
from planner.rewrite import nodes, transform_sink
from planner.scalar import ColumnRef
from sqlengine.connectors.filesystem.tree import files_below
from sqlengine.connectors.registry import connector_of, declared
from sqlengine.system.file_access import FileAccess
from sqlengine.trial.past.partitions import FILES, narrowed
from sqlengine.trial.past.period import Period

# The column that has the time of rows whose table has no row time, from the record's metadata.
TIME: Final = "$time"
_TIMESTAMP: Final = "timestamp"
# Connectors whose records have offsets that can be found by time.
_LOGS: Final = ("topic", "kafka", "rocketmq")
_PLACES: Final = ("scan.startup.", "scan.bounded.")
_FOLLOWING: Final = ("source.follow", "source.monitor-interval")
_SUFFIXES: Final = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}


@dataclass(frozen=True)
class Past:
    """The past of tables: a `period` of it. `archives`: files that stand in for tables, by the
    tables' names; `files`: those that may be read."""

    period: Period
    files: FileAccess
    archives: Mapping[str, Path]

    def stand_in(self, table: Table) -> Table:
        """Returns the table over the files that stand in for it; others as they are. ServiceError
        where there are none."""
        path = self.archives.get(table.display) or self.archives.get(".".join(table.name))
        return table if path is None or not table.options else archived(table, path)

    def of(self, sink: Sink) -> Sink:
        """Returns a plan that reads the past of its tables, to its end. Tables that are looked up
        stay as they are."""
        return transform_sink(sink, self._past_of)

    def _past_of(self, node: LogicalPlan) -> LogicalPlan:
        if isinstance(node, AssignWatermark):
            return self._within(replace(node, max_future_ms=0))
        if not isinstance(node, Scan) or isinstance(node, LookedUpScan) or node.looked_up:
            return node
        if node.table.connector == FILES:
            options = {k: v for k, v in node.table.options.items() if k not in _FOLLOWING}
            scan = replace(node, table=replace(node.table, options=options))
            return narrowed(scan, self.period, self.files)
        return _of_log(node, self.period) if node.table.connector in _LOGS else node

    def _within(self, node: AssignWatermark) -> AssignWatermark:
        """Reads of files the rows whose row time is in the period: a log has places by time."""
        scans = [n for n in nodes(node) if isinstance(n, Scan)]
        if not self.period.bounded or any(s.table.connector != FILES for s in scans):
            return node
        column = node.watermark.column
        where = self.period.condition(column, node.input.schema.type(column))
        return replace(node, input=push_down_filter(Filter(node.input, where)))


def archived(table: Table, path: Path) -> Table:
    """Returns a table over files with the columns of another one: by what their names end with they
    are Parquet, CSV or lines of JSON. ServiceError where there is no file."""
    if not path.exists():
        raise ServiceError(f"there is no file or folder '{path}' for table '{table.display}'")
    names = (p.name.removesuffix(".gz") for p in files_below(path))
    first = next(names, None)
    if first is None:
        raise ServiceError(f"there is no file in '{path}' for table '{table.display}'")
    format_ = _SUFFIXES.get(Path(first).suffix, "json")
    given = {k: v for k, v in table.options.items() if k.startswith(f"{format_}.")}
    options = {"connector": FILES, "path": str(path.absolute()), "format": format_, **given}
    own_names = {m.column.name for m in table.metadata if not m.key.startswith(PARTITION)}
    own = [c for c in table.declared_columns if c.name in own_names]
    columns = (*table.physical, *(replace(c, type=c.type.with_nullable(True)) for c in own))
    kept = tuple(m for m in table.metadata if m.key.startswith(PARTITION))
    return declared(replace(table, options=options, physical=Schema(tuple(columns)), metadata=kept))


def _of_log(scan: Scan, period: Period) -> LogicalPlan:
    """Reads a log from its place at the beginning of the period to that at its end. A table of
    changes is read from its own beginning, since the rows before are those that change."""
    since = None if scan.changes else period.since
    options = {k: v for k, v in scan.table.options.items() if not k.startswith(_PLACES)}
    options |= _place("startup", since, "earliest-offset")
    options |= _place("bounded", period.until, "latest-offset")
    if scan.table.connector == "topic":
        options["topic.auto-create"] = "false"
    past = replace(scan, table=replace(scan.table, options=options))
    return past if scan.table.watermark is not None else _with_time(past)


def _place(which: str, moment: int | None, otherwise: str) -> dict[str, str]:
    mode, millis = f"scan.{which}.mode", f"scan.{which}.timestamp-millis"
    return {mode: otherwise} if moment is None else {mode: "timestamp", millis: str(moment)}


def _with_time(scan: Scan) -> LogicalPlan:
    """Reads the time of records, too, in a column that nothing above sees by itself."""
    type_ = connector_of(scan.table).metadata.get(_TIMESTAMP)
    if type_ is None:
        return scan
    time = MetadataColumn(Column(TIME, type_), _TIMESTAMP, virtual=True)
    table = replace(scan.table, metadata=(*scan.table.metadata, time))
    items = tuple((c.name, ColumnRef(c.name, c.type)) for c in scan.schema)
    return Project(replace(scan, table=table), items)


def looked_up(sink: Sink) -> dict[str, Table]:
    """Returns the tables in which a plan looks rows up, as they are now, by their names."""
    joins = [n for n in nodes(sink) if isinstance(n, LookupJoin)]
    scans = [n for join in joins for n in nodes(join.right)]
    below = [m for n in scans if isinstance(n, LookedUpScan) and n.rows for m in nodes(n.rows)]
    return {n.table.display: n.table for n in (*scans, *below) if isinstance(n, Scan)}
