"""The connector 'jdbc': tables of SQLite, PostgreSQL, MySQL and MariaDB.

    CREATE TABLE totals (user_id BIGINT, n BIGINT, PRIMARY KEY (user_id) NOT ENFORCED)
    WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:/var/lib/app.db', 'table-name' = 'totals')

The table must be there. It is written exactly once: with a primary key rows replace those of their
key, without one they are added. Read, or looked up in, it is taken as it is when the job begins:
see `source`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from planner.capabilities import (
    Boundedness,
    Capabilities,
    Lookup,
    SinkCapabilities,
    SourceCapabilities,
)
from planner.catalog import Table
from planner.logical.change_kinds import INSERT_ONLY, UPSERT
from sqlengine.batch import Batch
from sqlengine.connectors.base import Connector, Sink, Source
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.jdbc.dialects import dialect_of
from sqlengine.connectors.jdbc.driver import Account
from sqlengine.connectors.jdbc.looking_up import JdbcLookup
from sqlengine.connectors.jdbc.partitioned import PartitionedSource
from sqlengine.connectors.jdbc.partitions import PARTITION, partitions_of
from sqlengine.connectors.jdbc.reading import TableReader
from sqlengine.connectors.jdbc.sink import JdbcSink
from sqlengine.connectors.jdbc.source import JdbcSource
from sqlengine.connectors.jdbc.values import check_types
from sqlengine.connectors.lookup_options import ASKED_OPTIONS, AT_ONCE, concurrency
from sqlengine.connectors.registry import options_of
from sqlengine.connectors.row_lookup import RowLookup
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, between, choice


class JdbcConnector(Connector):
    name: ClassVar[str] = "jdbc"
    on_spark: ClassVar[str] = "the driver reads (tasks: partitions) and writes"
    options: ClassVar[Mapping[str, Option]] = {
        "url": Option(
            required=True,
            place=True,
            doc=(
                "jdbc:sqlite:/path/to/file (a relative one is below the working folder of the"
                " server, or of 'sql run'), jdbc:postgresql://host:5432/database,"
                " jdbc:mysql://host:3306/database or jdbc:mariadb://…"
            ),
        ),
        "table-name": Option(required=True, doc="the table's name in the database"),
        "username": Option(doc="who connects"),
        "password": Option(secret=True, doc="of the one who connects"),
        PARTITION + "column": Option(
            doc="reads the table by ranges of this column: of numbers, a DATE or a TIMESTAMP"
        ),
        PARTITION + "num": Option(between(1, 10_000), doc="how many ranges"),
        PARTITION + "lower-bound": Option(doc="the least value that is read"),
        PARTITION + "upper-bound": Option(doc="the greatest value that is read"),
        "scan.fetch-size": Option(
            at_least(0), default="0", doc="how many rows are fetched at a time; 0: all"
        ),
        **ASKED_OPTIONS,
        **concurrency(
            4,
            "so many statements ask for the keys of a batch at a time (100 keys or less are one),"
            " each over a connection of its own",
        ),
        "sink.max-retries": Option(
            at_least(0), default="3", doc="how often an epoch is written again after an error"
        ),
        "sink.on-error": Option(
            choice("dead-letter", "fail"),
            default="dead-letter",
            doc="what becomes of a row that the database refuses (a constraint, a value that a"
            " column cannot hold): a dead letter, or its job fails",
        ),
        "sink.epoch-table": Option(
            default="sqlengine_epochs",
            doc="where each writer notes its last epoch; it is made where it is missing",
        ),
    }
    tested_with: ClassVar[str] = "SQLite 3, PostgreSQL 15, MariaDB 10.11"
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(
            boundedness=Boundedness.BOUNDED, replayable=False, queried=True, lookup=Lookup.ASKED
        ),
        sink=SinkCapabilities(
            changelog=UPSERT, condition="rows and epoch are written in one transaction"
        ),
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`. Without a primary key rows are only added."""
        return (
            self.capabilities
            if table.primary_key
            else self.capabilities.with_changelog(sink=INSERT_ONLY)
        )

    def source(self, table: Table, environment: Environment) -> Source:
        """Reads the whole table at once, or by partitions. ExecutionError where it cannot be read,
        or holds what its columns cannot."""
        check_types(table, table.physical, arrays=dialect_of(table.options["url"]).arrays)
        options = options_of(table)
        partitions = partitions_of(table, options)
        _check_files(table, environment)
        fetch = options["scan.fetch-size"]
        assert isinstance(fetch, int)
        reader = TableReader(table, _account(table), fetch)
        if partitions:
            return PartitionedSource(reader, partitions)
        return JdbcSource(reader, queried=table.queried)

    def row_lookup(
        self, table: Table, columns: Sequence[str], environment: Environment
    ) -> RowLookup:
        """See `Connector`. ExecutionError where the database cannot be reached, UnsupportedError
        where a column is of another kind there."""
        check_types(table, table.physical, arrays=dialect_of(table.options["url"]).arrays)
        _check_files(table, environment)
        at_once = options_of(table)[AT_ONCE]
        assert isinstance(at_once, int)
        readers = [TableReader(table, _account(table), 0, keeps=True) for _ in range(at_once)]
        return JdbcLookup(table, columns, readers)

    def rejects(self, table: Table, rows: Batch) -> Mapping[int, str]:
        """See `Connector`."""
        return dialect_of(table.options["url"]).rejects(rows)

    def sink(self, table: Table, environment: Environment) -> Sink:
        """Makes the table of epochs. ExecutionError where the table is missing or has other
        columns."""
        check_types(table, table.physical, arrays=dialect_of(table.options["url"]).arrays)
        _check_files(table, environment)
        return JdbcSink(
            table, _account(table), options_of(table), environment.outside_writer, environment.clock
        )


def _check_files(table: Table, environment: Environment) -> None:
    """Raises PlanError for a database in a file, or files of TLS, that SQL may not use."""
    url = table.options["url"]
    for path in dialect_of(url).files(url):
        environment.files.check_file(path, table=table.display, option="url")


def _account(table: Table) -> Account:
    return Account(table.options.get("username"), table.options.get("password"))
