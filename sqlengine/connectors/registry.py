"""The registry of connectors: by name, with the check of a table's WITH options against what
connector and format declare, and the opening of tables.

Each connector is found by its entry point in the group 'sqlengine.connectors'."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from parser.errors import OptionError, PlanError, SqlError, UnsupportedError
from parser.types import Schema
from planner.analysis.deliver import cannot_be_written
from planner.capabilities import OF_FORMAT, Capabilities, FormatUse, Lookup, Overwrite
from planner.catalog import PARTITION, MetadataColumn, Table
from planner.logical import Scan
from sqlengine.batch import Batch
from sqlengine.broker.auto_create import NewTopic
from sqlengine.broker.errors import NO_SPACE, cannot_write
from sqlengine.connectors.base import Connector, Sink, Source
from sqlengine.connectors.boundary.answers import text_or_none
from sqlengine.connectors.boundary.lookup import WalledLookup
from sqlengine.connectors.boundary.naming import naming
from sqlengine.connectors.boundary.opening import (
    begin_sink,
    behind_boundary,
    opened_sink,
    opened_source,
)
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.lookup_options import ANSWER_TIMEOUT
from sqlengine.connectors.metadata_types import check_metadata, with_own_types
from sqlengine.connectors.row_lookup import RowLookup
from sqlengine.connectors.secret_options import check_references, with_secrets
from sqlengine.connectors.shadow import CONNECTOR, ShadowConnector
from sqlengine.connectors.table_options import parsed_options, unknown_of
from sqlengine.formats.options import did_you_mean
from sqlengine.formats.registry import (
    changelog_mode_of,
    connect,
    connects,
    decoder_for,
    format_of,
)
from sqlengine.system.plugins import CONNECTORS, Plugins

T = TypeVar("T")

_connectors: Plugins[Connector] = Plugins(CONNECTORS)
_SHADOW: Final = ShadowConnector()  # that no table of a text may name


def connector_names() -> list[str]:
    """Returns the names of all connectors; imports none of them."""
    return _connectors.names()


def get_connector(name: str) -> Connector | None:
    """Returns the connector of that name; None where there is none."""
    return _SHADOW if name == CONNECTOR else _connectors.get(name)


def connector_of(table: Table) -> Connector:
    """Returns the table's connector; OptionError with what was probably meant."""
    name = table.options.get("connector")
    connector = None if name is None else get_connector(name)
    if connector is None:
        raise (_missing(table) if name is None else _unknown(name, table)).about_table(table.name)
    return connector


def check_named(table: Table) -> None:
    """Raises OptionError for a connector that no text may name."""
    if table.options.get("connector") == CONNECTOR:
        raise _unknown(CONNECTOR, table).about_table(table.name)


def _missing(table: Table) -> OptionError:
    return OptionError(
        f"table '{table.display}' needs the option 'connector'",
        hint="one of " + ", ".join(connector_names()),
        subject="connector",
    )


def _unknown(name: str, table: Table) -> OptionError:
    known = connector_names()
    hint = did_you_mean(name, known) or "known connectors: " + ", ".join(known)
    return OptionError(
        f"unknown connector '{name}' of table '{table.display}'", hint=hint, subject="connector"
    )


def capabilities_of(table: Table) -> Capabilities:
    """Returns what the table can do as a source and as a sink, by its connector, options and
    format. PlanError where one of these is missing or wrong."""
    with naming(table):
        capabilities = connector_of(table).capabilities_of(table)
        ends = (capabilities.source, capabilities.sink)
        if any(end is not None and end.changelog is OF_FORMAT for end in ends):
            return capabilities.with_format(changelog_mode_of(table))
        return capabilities


def declared_capabilities(table: Table) -> Capabilities:
    """Returns the most that the table's connector can do; nothing where it is unknown."""
    connector = get_connector(table.options.get("connector", ""))
    return Capabilities() if connector is None else connector.capabilities


def validate(table: Table) -> None:
    """Checks the table's options, metadata keys and column types. PlanError names what is wrong;
    nothing is opened."""
    with naming(table):
        _validate(table)


def _validate(table: Table) -> None:
    connector = connector_of(table)
    options_of(table)
    check_references(table, connector.options)
    can = connector.capabilities
    if table.partition_keys and not (can.partitioning or can.keeps_rows):
        raise UnsupportedError(
            f"PARTITIONED BY of table '{table.display}' is not supported",
            detail=f"connector '{table.connector}' has no partitions",
            hint="leave it out, or keep the table in files: 'connector' = 'filesystem'",
        )
    for column in table.metadata:
        check_metadata(column, connector, table)
    if can.format is not FormatUse.NONE:
        format_, options = format_of(table)
        if format_.capabilities.bulk and can.format is FormatUse.RECORDS_AND_FILES:
            format_.check(table.physical, options)
        elif format_.capabilities.has_records:
            decoder_for(table)
        else:
            format_.decoder(table.physical, options)  # says that it has none


def options_of(table: Table) -> dict[str, object]:
    """Returns the connector's options with their values, defaults filled in, those of the format
    left out. OptionError for an option that nobody reads, or a wrong value."""
    return parsed_options(table, connector_of(table))


def unknown_options(table: Table) -> list[OptionError]:
    """Returns an error for each option that neither the connector nor the format of the table
    reads; none where one of these is unknown itself."""
    connector = get_connector(table.options.get("connector", ""))
    return [] if connector is None else unknown_of(table, connector)


def without_unknown(table: Table) -> Table:
    """Returns the table without options that nobody reads."""
    unknown = {error.subject for error in unknown_options(table)}
    if not unknown:
        return table
    return replace(table, options={k: v for k, v in table.options.items() if k not in unknown})


def open_source(table: Table, environment: Environment) -> Source:
    """Opens the whole table for reading, as `open_scan` does."""
    return open_scan(Scan(table), environment)


def _open_source(table: Table, environment: Environment) -> Source:
    """Opens the table for reading, after `validate`."""
    validate(table)
    connector = connector_of(table)
    try:
        return with_secrets(_connected(connector.source, table), connector, table, environment)
    except OSError as error:
        raise _cannot_open(table, "read", error) from None


def _connected(
    opening: Callable[[Table, Environment], T], table: Table
) -> Callable[[Table, Environment], T]:
    """Returns an opening before which the table's format sees the values of its secrets."""

    def opened(filled: Table, environment: Environment) -> T:
        connect(table, filled, environment.files)
        return opening(filled, environment)

    return opened


def connect_formats(table: Table, environment: Environment) -> None:
    """Lets the formats of a table see what they see where it is opened, for a process that decodes
    its records and does not open it. Raises as the opening does."""

    def work(filled: Table, environment: Environment) -> None:
        connect(table, filled, environment.files)

    if connects(table):
        with_secrets(work, connector_of(table), table, environment)


def open_scan(scan: Scan, environment: Environment, *, patient: bool = False) -> Source:
    """Opens the source of a scan behind the boundary: its partitions only. SqlError, whatever the
    connector raises: UnsupportedError if it can only be written; StillOpening after a moment unless
    `patient`."""
    connector = connector_of(scan.table)
    if connector.capabilities.source is None:
        raise UnsupportedError(
            f"table '{scan.table.display}' with connector '{connector.name}' cannot be read",
            hint="it can be written; rows come from a table of another connector, such as 'topic'",
        )
    work = partial(_open_scan, scan, environment)
    with naming(scan.table):
        return opened_source(scan, connector, environment, work, patient=patient)


def _open_scan(scan: Scan, environment: Environment) -> Source:
    opened = _open_source(scan.table, environment)
    if scan.table.queried:
        opened.apply_query(scan.where, scan.limit)
    elif scan.where is not None:
        opened.apply_partitions(scan.where)
    return opened


def open_lookup(scan: Scan, columns: Sequence[str], environment: Environment) -> WalledLookup:
    """Returns what asks a table for rows by these columns, behind the boundary; it connects when it
    is asked."""
    table = scan.table
    connector = connector_of(table)

    def row_lookup(filled: Table, environment: Environment) -> RowLookup:
        return connector.row_lookup(filled, columns, environment)

    def opening() -> RowLookup:
        with naming(table):
            return with_secrets(_connected(row_lookup, table), connector, table, environment)

    timeout = options_of(table).get(ANSWER_TIMEOUT)
    most_s = timeout / 1000 if isinstance(timeout, int) else math.inf
    calls = behind_boundary(table, connector, environment, "read", most_s)
    return WalledLookup(opening, scan, calls)


def content_stamp(table: Table, environment: Environment) -> str | None:
    """Returns what tells two states of a table apart, as its connector says; None where only its
    rows do. SqlError, whatever the connector raises."""
    connector = connector_of(table)
    calls = behind_boundary(table, connector, environment, "read")

    def stamp() -> str | None:
        try:
            return text_or_none(
                with_secrets(connector.content_stamp, connector, table, environment)
            )
        except OSError as error:
            raise _cannot_open(table, "read", error) from None

    with naming(table):
        return calls.guarded("content_stamp", stamp)


def missing_topic(table: Table, environment: Environment, *, writes: bool) -> NewTopic | None:
    """Returns the topic that opening the table would create; None where nothing would be."""
    with naming(table):
        return connector_of(table).missing_topic(table, environment, writes=writes)


def rejects(table: Table, rows: Batch) -> Mapping[int, str]:
    """Returns the rows that the table cannot take, as its connector says. SqlError, whatever that
    raises."""
    connector = connector_of(table)
    try:
        return connector.rejects(table, rows)
    except SqlError:
        raise
    except Exception as error:
        calls = behind_boundary(table, connector, Environment(None, int, ""), "written")
        raise calls.opened.failed("rejects", error) from error


def open_sink(
    table: Table, environment: Environment, *, overwrite: bool = False, patient: bool = False
) -> Sink:
    """Opens the table for writing behind the boundary; `overwrite`: what is written replaces what
    is there. SqlError, whatever the connector raises: UnsupportedError if it can only be read,
    BrokerFull where there is no space for it; StillOpening after a moment unless `patient`."""
    connector = connector_of(table)
    if connector.capabilities.sink is None:
        raise cannot_be_written(table)
    work = partial(_open_sink, table, connector, environment, overwrite=overwrite)
    with naming(table):
        return opened_sink(
            table, connector, environment, work, overwrite=overwrite, patient=patient
        )


def begin_opening_sink(table: Table, environment: Environment, *, overwrite: bool) -> None:
    """Begins to open the table for writing beside others, which takes long if its host is away:
    `open_sink` goes on waiting for it, and raises what is wrong."""
    with suppress(SqlError):
        connector = connector_of(table)
        work = partial(_open_sink, table, connector, environment, overwrite=overwrite)
        begin_sink(table, connector, environment, work, overwrite=overwrite)


def _open_sink(
    table: Table, connector: Connector, environment: Environment, *, overwrite: bool
) -> Sink:
    validate(table)
    sink = connector.capabilities.sink
    assert sink is not None
    try:
        if overwrite and sink.overwrite is not Overwrite.UNSUPPORTED:
            opening = _connected(connector.overwriting_sink, table)
        else:
            opening = _connected(connector.sink, table)
        return with_secrets(opening, connector, table, environment)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise cannot_write(f"table '{table.display}'", error) from None
        raise _cannot_open(table, "written", error) from None


def declared(table: Table) -> Table:
    """Returns the table with the changes that its rows bring, by its capabilities, and metadata in
    the types of its connector. Options that are wrong are reported where the table is used."""
    try:
        capabilities = capabilities_of(table)
        table = with_own_types(table, connector_of(table))
    except PlanError:
        return table
    if capabilities.partitioning:
        table = _with_partition_metadata(table)
    source = capabilities.source
    if source is None:
        return table
    return replace(
        table,
        changes=source.changelog.modify_kinds,
        queried=source.queried,
        by_key=source.lookup is Lookup.ASKED,
    )


def _with_partition_metadata(table: Table) -> Table:
    """Returns the table with its partition columns as metadata, since they are in no record."""
    keys = [c for c in table.physical if c.name in table.partition_keys]
    metadata = tuple(MetadataColumn(c, PARTITION + c.name, virtual=False) for c in keys)
    rest = tuple(c for c in table.physical if c.name not in table.partition_keys)
    return replace(table, physical=Schema(rest), metadata=(*table.metadata, *metadata))


def _cannot_open(table: Table, what: str, error: OSError) -> PlanError:
    """Returns the error for a file or folder that a statement names and the system refuses."""
    return PlanError(
        f"table '{table.display}' cannot be {what}",
        detail=f"{error.filename}: {error.strerror}" if error.filename else str(error),
        hint="name a path that exists and that the user who runs this may use",
    )
