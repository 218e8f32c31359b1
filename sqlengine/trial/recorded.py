"""Records of topics as rows that can be given to a rule again, each with its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from parser.errors import ServiceError
from parser.types import BIGINT, Column, timestamp_ltz
from planner.catalog import Table
from planner.logical import Scan
from planner.scalar import Call, ColumnRef, Scalar
from planner.tables import MetadataColumn
from sqlengine.batch import Batch, IntArray, concat, empty
from sqlengine.broker.base import Broker
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import connect_formats, connector_of
from sqlengine.executors.node_state.node_context import NodeContext
from sqlengine.executors.sources import ChunkRows
from sqlengine.expressions import evaluate
from sqlengine.formats.registry import decoder_for, value_metadata, with_any_times
from sqlengine.operators.base import ERROR_PORT
from sqlengine.operators.scan import ScanOperator
from sqlengine.trial.bench import Portion
from sqlengine.trial.events import row_schema
from sqlengine.trial.wanted import rows_that
from sqlengine.trial.watermarks import event_times, with_leaders

# Columns beside those of a table: the offset and the time of the record that a row is of.
_OFFSET: Final = MetadataColumn(Column("@offset", BIGINT), "offset", virtual=True)
_TIME: Final = MetadataColumn(Column("@time", timestamp_ltz(3)), "timestamp", virtual=True)
_ROWS_PER_READ: Final = 50_000
# So many rows of one table at most are given to a rule together.
_PORTION: Final = 1000


@dataclass(frozen=True)
class Place:
    """The place of a record, as commands take it: TOPIC@OFFSET, or TOPIC:SHARD@OFFSET."""

    topic: str
    shard: int
    offset: int

    def __str__(self) -> str:
        shard = f":{self.shard}" if self.shard else ""
        return f"{self.topic}{shard}@{self.offset}"


@dataclass(frozen=True)
class Recorded:
    """Rows of one table: the `shards` and `offsets` of their records, and the `times` at which they
    came (ms). Rows of several tables are read in the order of `ranks`. `table` is the one in memory
    that a rule reads."""

    table: Table
    topic: str
    rows: Batch
    shards: IntArray
    offsets: IntArray
    times: IntArray
    ranks: IntArray

    def __len__(self) -> int:
        return self.rows.num_rows

    def take(self, rows: IntArray) -> Recorded:
        """Returns the rows with these numbers."""
        return replace(
            self,
            rows=self.rows.take(rows),
            shards=self.shards[rows],
            offsets=self.offsets[rows],
            times=self.times[rows],
            ranks=self.ranks[rows],
        )

    def by_event_time(self) -> Recorded:
        """Returns the rows in the order of their event times, where they have these: as if those of
        several shards had a watermark each."""
        times = event_times(self.table, self.rows)
        return self if times is None else replace(self, ranks=times)

    def place(self, row: int) -> Place:
        """Returns where a row's record is."""
        return Place(self.topic, int(self.shards[row]), int(self.offsets[row]))


class TableRecords:
    """The records of the topic of one table, as rows of the table in memory that stands in for it.

    ServiceError where the table's records are in no topic of the server."""

    def __init__(self, table: Table, written: Table | None, broker: Broker) -> None:
        if written is None or written.options.get("connector") != "topic":
            kind = "nothing" if written is None else f"connector '{written.connector}'"
            raise ServiceError(
                f"the records of table '{table.display}' cannot be read again",
                detail=f"{kind} gives them, which keeps none under an offset of the server",
                hint="a job that writes them to a topic, which the rule reads, keeps them",
            )
        self.table, self.written = table, written
        self.topic = written.options["topic"]
        plain = with_any_times(written)
        self._read = replace(plain, metadata=(*plain.metadata, _OFFSET, _TIME))
        environment = Environment(broker, lambda: 0, "trial", any_times=True)
        connect_formats(self._read, environment)
        self._source = connector_of(self._read).source(self._read, environment)
        self.shards = tuple(map(int, self._source.shards()))
        self._chunks = ChunkRows(Scan(self._read))
        names = [*self._read.physical.names, *(m.column.name for m in self._read.metadata)]
        decoder = decoder_for(self._read, self._read.physical, value_metadata(self._read))
        self._scan = ScanOperator(self._read, names, decoder)
        self._scan.open(NodeContext("scan", 0, {}, {}))
        self._startup = written.options.get("scan.startup.mode", "latest-offset")
        self._broker = broker
        # The earliest time of the rows behind what is read next, by shard.
        self._least: dict[int, int] = {}

    @property
    def has_watermarks(self) -> bool:
        """True if each of several shards has a watermark of its own."""
        return self.table.watermark is not None and len(self.shards) > 1

    @property
    def is_kept_whole(self) -> bool:
        """True if its rows replace each other, so that all of them tell what there is."""
        return bool(self.table.changes)

    def begin(self, shard: int, since: int | None) -> int:
        """Returns the offset of the first record that a job can have read that has run since a time
        (ms), of those that are there."""
        if self._startup != "latest-offset" or since is None or self.is_kept_whole:
            return self._broker.begin_offset(self.topic, shard)
        return self._broker.offset_for_time(self.topic, shard, since)

    def first(self, shard: int) -> int:
        """Returns the offset of the first record that is there."""
        return self._broker.begin_offset(self.topic, shard)

    def end(self, shard: int, until: int | None = None) -> int:
        """Returns the offset behind the last record, or behind those that came until a time
        (ms)."""
        if until is None:
            return self._broker.end_offset(self.topic, shard)
        return self._broker.offset_for_time(self.topic, shard, until + 1)

    def rows(self, shard: int, start: int, end: int, condition: Scalar | None = None) -> Recorded:
        """Reads the records of a range; those that are no rows of the table are left out, as are
        rows that do not fulfil the condition, unless they make others late.

        Ranges of a shard with a condition are read from the last to the first."""
        parts, ahead, known = [self._none()], self._none(), True
        for part in self._parts(shard, start, end):
            both = joined([ahead, part])
            chosen = rows_that(condition, both.rows)
            chosen = chosen[chosen >= len(ahead)]
            times = event_times(self.table, both.rows)
            if times is not None:
                chosen = with_leaders(chosen, times)
                chosen = chosen[chosen >= (len(ahead) if known else 0)]
                top = int(times.argmax())
                known = top in chosen or (top < len(ahead) and known)
                ahead = both.take(np.array([top]))
            parts.append(both.take(chosen))
        if not known and self._leads(shard, ahead):
            parts.append(ahead)
        return self._noted(shard, joined(parts))

    def _leads(self, shard: int, ahead: Recorded) -> bool:
        """True if a row makes rows late that were read already, behind it."""
        times = event_times(self.table, ahead.rows)
        return times is not None and shard in self._least and self._least[shard] < times[0]

    def _noted(self, shard: int, rows: Recorded) -> Recorded:
        """The rows in order of their records, with a note of the earliest time."""
        times = event_times(self.table, rows.rows)
        if times is not None and len(times):
            earliest = int(times.min())
            self._least[shard] = min(self._least.get(shard, earliest), earliest)
        return rows.take(np.argsort(rows.offsets, kind="stable"))

    def _parts(self, shard: int, start: int, end: int) -> Iterator[Recorded]:
        while start < end:
            until = min(start + _ROWS_PER_READ, end)
            chunk = self._source.read(str(shard), start, max_rows=until - start, until=until)
            if chunk is None:
                return
            start = until
            if chunk.num_rows:
                raw = self._chunks.batch(chunk, 0, 0)
                for port, rows in self._scan.process(0, raw):
                    if port != ERROR_PORT and rows.num_rows:
                        yield self._recorded(shard, rows)

    def _recorded(self, shard: int, rows: Batch) -> Recorded:
        schema = row_schema(self.table)
        columns = [self._column(c, rows) for c in schema]
        offsets, times = (
            np.asarray(rows.column(m.column.name).cast("int64"), np.int64) for m in (_OFFSET, _TIME)
        )
        plain = Batch(schema, tuple(columns), rows.num_rows, kinds=rows.kinds)
        shards = np.full(rows.num_rows, shard, np.int64)
        return Recorded(self.table, self.topic, plain, shards, offsets, times, times)

    def _column(self, column: Column, rows: Batch) -> pa.Array:
        """Returns a column of the table; metadata of another type is cast."""
        given = ColumnRef(column.name, rows.schema.type(column.name))
        if given.type.same_as(column.type):
            return rows.column(column.name)
        cast = Call("CAST", (given,), column.type.with_nullable(given.type.nullable))
        return evaluate(cast, rows).array(rows.num_rows)

    def _none(self) -> Recorded:
        none = np.empty(0, np.int64)
        rows = empty(row_schema(self.table))
        return Recorded(self.table, self.topic, rows, none, none, none, none)


def joined(parts: Sequence[Recorded]) -> Recorded:
    """Returns rows of one table, one part behind the other."""
    return replace(
        parts[0],
        rows=concat([p.rows for p in parts]),
        shards=np.concatenate([p.shards for p in parts]),
        offsets=np.concatenate([p.offsets for p in parts]),
        times=np.concatenate([p.times for p in parts]),
        ranks=np.concatenate([p.ranks for p in parts]),
    )


@dataclass(frozen=True)
class History:
    """Rows of several tables in the order in which a rule reads them: row `rows[i]` of table
    `tables[i]` of `records`."""

    records: tuple[Recorded, ...]
    tables: IntArray
    rows: IntArray

    def __len__(self) -> int:
        return len(self.tables)

    def take(self, chosen: IntArray) -> History:
        """Returns those at these places, which are in order."""
        return History(self.records, self.tables[chosen], self.rows[chosen])

    @property
    def times(self) -> IntArray:
        """The times at which the rows came (ms)."""
        found = np.zeros(len(self), np.int64)
        for number, recorded in enumerate(self.records):
            mine = self.tables == number
            found[mine] = recorded.times[self.rows[mine]]
        return found

    def place(self, at: int) -> Place:
        """Returns where the record of a row is."""
        recorded: Recorded = self.records[int(self.tables[at])]
        return recorded.place(int(self.rows[at]))

    def portions(self, *, timed: bool, apart: bool = False) -> Iterator[Portion]:
        """Yields the rows as a rule gets them: as many as follow each other of one table, and where
        they are `timed` have come at one time; each alone where they come `apart`."""
        if not len(self):
            return
        times = self.times
        borders = self.tables[1:] != self.tables[:-1]
        if timed:
            borders = borders | (times[1:] != times[:-1])
        if apart:
            borders = np.ones_like(borders)
        starts = [0, *(np.flatnonzero(borders) + 1).tolist(), len(self)]
        for start, end in pairwise(starts):
            recorded = self.records[self.tables[start]]
            for at in range(start, end, _PORTION):
                rows = recorded.rows.take(self.rows[at : min(at + _PORTION, end)])
                yield Portion(recorded.table, int(times[at]), rows)


def in_order(first: Sequence[Recorded], then: Sequence[Recorded]) -> History:
    """Returns rows as a rule reads them: those of tables that are there first, then the others by
    their ranks."""
    records = (*first, *then)
    counts = [len(r) for r in records]
    tables = np.repeat(np.arange(len(records)), counts)
    rows = np.concatenate([np.empty(0, np.int64), *(np.arange(n) for n in counts)])
    ranks = np.concatenate([np.empty(0, np.int64), *(r.ranks for r in records)])
    behind = tables >= len(first)
    order = np.lexsort((np.arange(len(tables)), np.where(behind, ranks, 0), behind))
    return History(records, tables[order], rows[order])
