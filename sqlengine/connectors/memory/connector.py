"""The connector 'memory': tables that a program holds, for scripts, tests and programs that embed
the engine.

    CREATE TABLE orders (…) WITH ('connector' = 'memory', 'name' = 'orders', 'changelog-mode' =
    'I,UB,UA,D')

Rows have kinds. 'changelog-mode' says which may come (default: I) and, where the table is written,
which it takes (default: all; with a primary key all but UB). What was written can be read by the
next statement, and by the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from parser.errors import PlanError, ServiceError
from parser.types import Schema
from planner.capabilities import (
    Boundedness,
    Capabilities,
    Overwrite,
    SinkCapabilities,
    SourceCapabilities,
)
from planner.catalog import Table
from planner.logical.change_kinds import ALL_CHANGES, INSERT_ONLY, UPSERT, ChangelogMode
from planner.settings import PUSH_DOWN
from sqlengine.batch import Batch
from sqlengine.connectors.base import Connector, Sink, Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory, MemoryTable
from sqlengine.connectors.registry import options_of
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, boolean, kinds

_SHARD = "0"


class MemoryConnector(Connector):
    name: ClassVar[str] = "memory"
    options: ClassVar[Mapping[str, Option]] = {
        "name": Option(required=True, doc="the table's name in memory"),
        "changelog-mode": Option(kinds, doc="which rows may come or are taken, of I, UB, UA and D"),
        "delete-by-key": Option(
            boolean, default="false", doc="rows -D may come with the primary key only"
        ),
        PUSH_DOWN: Option(
            boolean, default="false", doc="its watermark goes on with each row, also before 1970"
        ),
        "scan.parallelism": Option(at_least(1)),
        "sink.parallelism": Option(at_least(1)),
    }
    capabilities: ClassVar[Capabilities] = Capabilities(
        blocks=False,
        source=SourceCapabilities(changelog=ALL_CHANGES, boundedness=Boundedness.BY_OPTIONS),
        sink=SinkCapabilities(
            changelog=ALL_CHANGES,
            condition="as long as the process lives",
            overwrite=Overwrite.ALWAYS,
        ),
        keeps_rows=True,
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`. The option 'changelog-mode' decides; without it rows are only added
        where the table is read, and changed by the primary key where it is written."""
        given = options_of(table)["changelog-mode"]
        if isinstance(given, frozenset):
            emitted = accepted = ChangelogMode(given)
        else:
            emitted, accepted = INSERT_ONLY, UPSERT if table.primary_key else ALL_CHANGES
        return self.capabilities.with_changelog(source=emitted, sink=accepted)

    def source(self, table: Table, environment: Environment) -> Source:
        """Reads what is there. PlanError where it was written with other columns."""
        rows, schema = _find(table, environment), _schema(table)
        if rows.rows is not None and rows.rows.schema.arrow.types != schema.arrow.types:
            raise PlanError(
                f"table '{table.display}' has other columns than the rows in memory",
                detail=str(rows.rows.schema),
            )
        return MemorySource(schema, rows)

    def sink(self, table: Table, environment: Environment) -> Sink:
        return MemorySink(table, _find(table, environment), environment.writer)

    def overwriting_sink(self, table: Table, environment: Environment) -> Sink:
        return OverwritingMemorySink(table, _memory(table, environment), environment.writer)


def _schema(table: Table, *, written: bool = False) -> Schema:
    """The columns of the rows in memory: physical ones, then metadata columns, but for those that
    cannot be written."""
    return Schema(
        (*table.physical, *(m.column for m in table.metadata if not (written and m.virtual)))
    )


def _find(table: Table, environment: Environment) -> MemoryTable:
    return _memory(table, environment).table(str(options_of(table)["name"]))


def _memory(table: Table, environment: Environment) -> Memory:
    if environment.memory is None:
        raise ServiceError(
            f"table '{table.display}' would be lost with the process",
            hint="a server reads and writes topics: 'connector' = 'topic'",
        )
    return environment.memory


class MemorySource(Source):
    """A source with one shard, whose offsets count rows.

    A table that is not open ends where it does when it is read first: a statement that reads the
    table into which it writes does not meet its own rows."""

    def __init__(self, schema: Schema, table: MemoryTable) -> None:
        self._names = schema.names
        self._table = table
        self._last: int | None = None

    @property
    def bounded(self) -> bool:
        return not self._table.open

    def shards(self) -> list[str]:
        return [_SHARD]

    def start(self, shard: str) -> int:
        return 0

    def end(self, shard: str) -> int | None:
        if self._last is None and not self._table.open:
            self._last = self._table.num_rows
        return self._table.num_rows if self._last is None else self._last

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`."""
        end = min(offset + max_rows, self.end(shard) or 0) if until is None else until
        if end <= offset or self._table.rows is None:
            return None
        rows = self._table.rows.slice(offset, end - offset)
        columns = dict(zip(self._names, rows.columns, strict=True))
        return Chunk(shard, offset, end, end - offset, columns=columns, kinds=rows.kinds)

    def close(self) -> None: ...


class MemorySink(Sink):
    """Adds the rows of an epoch at its commit, once."""

    def __init__(self, table: Table, rows: MemoryTable, writer: str) -> None:
        self._schema = _schema(table, written=True)
        self._table = rows
        self._writer = f"{writer}/{'.'.join(table.name)}"
        self._pending: list[Batch] = []

    def last_epoch(self) -> int | None:
        return self._table.epochs.get(self._writer)

    def write(self, batch: Batch) -> None:
        columns = tuple(batch.column(c.name) for c in self._schema)
        kinds, writers = batch.kinds, batch.writers
        rows = Batch(self._schema, columns, batch.num_rows, kinds=kinds, writers=writers)
        self._pending.append(rows)

    def commit(self, epoch: int) -> int:
        pending, self._pending = self._pending, []
        last = self.last_epoch()
        if last is not None and epoch <= last:
            return 0
        for rows in pending:
            self._table.append(rows)
        self._table.epochs[self._writer] = epoch
        return sum(rows.num_rows for rows in pending)

    def close(self) -> None: ...


class OverwritingMemorySink(MemorySink):
    """Replaces the table's rows by its own, with the first commit, since a stream may have no end.

    Two sinks of one run add theirs. A reader of the old rows reads on."""

    def __init__(self, table: Table, memory: Memory, writer: str) -> None:
        self._name = str(options_of(table)["name"])
        self._memory, self._run = memory, writer
        super().__init__(table, memory.table(self._name), writer)

    def commit(self, epoch: int) -> int:
        if self.last_epoch() is None:
            self.publish_overwrite()
        return super().commit(epoch)

    def publish_overwrite(self) -> None:
        """See `Sink`. Where no row came, the table is empty then."""
        table = self._memory.table(self._name)
        if table.overwritten != self._run:
            table = MemoryTable(open=table.open, epochs=table.epochs, overwritten=self._run)
            self._memory.tables[self._name] = table
        self._table = table
