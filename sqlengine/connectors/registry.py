"""The connectors by name, and the check of a table's WITH options against what connector and format
declare. A file of this folder registers its connector; third parties use the entry point group
'sqlengine.connectors'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

from parser.errors import OptionError, PlanError, UnsupportedError
from parser.types import Root, Schema
from planner.analysis.delivery import AcceptedChanges, deliver
from planner.catalog import PARTITION, MetadataColumn, Table
from planner.logical import LogicalPlan, Scan
from planner.logical import Sink as PlannedSink
from planner.logical.change_kinds import ModifyKindSet
from planner.settings import IDLE_OPTION, RUNTIME_MODE, is_batch
from sqlengine.batch import RowKind
from sqlengine.broker.errors import NO_SPACE, cannot_write
from sqlengine.connectors.base import (
    Changing,
    Connector,
    Environment,
    Filing,
    Option,
    Overwriting,
    Partitioning,
    Pruning,
    Reloaded,
    Repeating,
    Sink,
    Source,
)
from sqlengine.connectors.column_paths import part_names
from sqlengine.formats.base import FileFormat
from sqlengine.formats.options import choice, did_you_mean, duration, parse_options
from sqlengine.formats.registry import VALUE, changelog_format_of, format_of

_connectors: dict[str, Connector] = {}
_COMMON = {
    "connector": Option(required=True),
    IDLE_OPTION: Option(
        duration,
        doc="a shard that is silent for so long does not hold back the watermark of the others",
    ),
    "scan.watermark.emit.strategy": Option(
        choice("on-event", "on-periodic"),
        doc="without effect: 'pipeline.auto-watermark-interval' decides",
    ),
    "scan.watermark.alignment.group": Option(
        doc="without effect, as all of alignment: it changes no result"
    ),
    "scan.watermark.alignment.max-drift": Option(duration),
    "scan.watermark.alignment.update-interval": Option(duration),
}

C = TypeVar("C", bound=Connector)


def connector(name: str) -> Callable[[type[C]], type[C]]:
    """Registers the decorated class, made without arguments, under `name`."""

    def register(cls: type[C]) -> type[C]:
        _connectors[name] = cls()
        return cls

    return register


@cache
def connectors() -> dict[str, Connector]:
    """All connectors by name."""
    from sqlengine.connectors import blackhole, python_  # noqa: F401  each registers itself
    from sqlengine.connectors.datagen import connector as datagen  # noqa: F401
    from sqlengine.connectors.filesystem import connector as filesystem  # noqa: F401
    from sqlengine.connectors.jdbc import connector as jdbc  # noqa: F401
    from sqlengine.connectors.memory import connector as memory  # noqa: F401
    from sqlengine.connectors.print import connector as print_  # noqa: F401
    from sqlengine.connectors.topic import connector as topic  # noqa: F401

    for point in entry_points(group="sqlengine.connectors"):
        if point.name not in _connectors:
            _connectors[point.name] = point.load()()
    return _connectors


def connector_of(table: Table) -> Connector:
    """The table's connector; PlanError with what was probably meant."""
    known = connectors()
    name = table.options.get("connector")
    if name is None:
        raise PlanError(
            f"table '{table.display}' needs the option 'connector'",
            hint="one of " + ", ".join(sorted(known)),
        )
    if name not in known:
        hint = did_you_mean(name, known) or "known connectors: " + ", ".join(sorted(known))
        raise OptionError(
            f"unknown connector '{name}' of table '{table.display}'", hint=hint, subject="connector"
        )
    return known[name]


def validate(table: Table) -> None:
    """Checks the table's options, metadata keys and column types. PlanError names what is wrong;
    nothing is opened."""
    found = connector_of(table)
    declared = _declared(table, found)
    own = {
        name: text
        for name, text in table.options.items()
        if not _is_format_option(name, table, found)
    }
    parse_options(own, declared, f"table '{table.display}'")
    if table.partition_keys and not (
        isinstance(found, Partitioning) or (isinstance(found, Changing) and found.keeps_rows)
    ):
        raise UnsupportedError(
            f"PARTITIONED BY of table '{table.display}' is not supported",
            detail=f"connector '{table.connector}' has no partitions",
            hint="leave it out, or keep the table in files: 'connector' = 'filesystem'",
        )
    for column in table.metadata:
        _check_metadata(column, found, table)
    if found.needs_format:
        chosen, options = format_of(table)
        if isinstance(chosen, FileFormat) and isinstance(found, Filing):
            chosen.check(table.physical, options)
        else:
            chosen.decoder(table.physical, options)


def _check_metadata(declared: MetadataColumn, found: Connector, table: Table) -> None:
    """The connector, or the format of the table, has the key, and its values fit in the declared
    type."""
    if isinstance(found, Changing) and found.keeps_rows:
        return
    if isinstance(found, Partitioning) and declared.key.startswith(PARTITION):
        return
    known = dict(found.metadata)
    chosen = changelog_format_of(table) if found.needs_format else None
    if chosen is not None:
        known |= {VALUE + key: kind for key, kind in chosen.metadata.items()}
    if declared.key not in known:
        hint = did_you_mean(declared.key, known) or "keys: " + (", ".join(sorted(known)) or "none")
        raise PlanError(f"connector '{found.name}' has no metadata '{declared.key}'", hint=hint)
    own, kind = known[declared.key], declared.column.type
    same = (
        own.root is kind.root
        or (own.is_timestamp and kind.is_timestamp)
        or (own.is_integer and kind.root is Root.BIGINT)
    )
    if not same:
        raise PlanError(
            f"metadata '{declared.key}' of connector '{found.name}' is {own}, not {kind}"
        )


def options_of(table: Table) -> dict[str, object]:
    """The connector's options with their values, defaults filled in, those of the format left
    out."""
    found = connector_of(table)
    own = {
        name: text
        for name, text in table.options.items()
        if not _is_format_option(name, table, found)
    }
    return parse_options(own, _declared(table, found), f"table '{table.display}'")


def open_source(table: Table, environment: Environment) -> Source:
    """Opens the table for reading, after `validate`."""
    validate(table)
    try:
        return connector_of(table).source(table, environment)
    except OSError as error:
        raise _cannot_open(table, "read", error) from None


def open_scan(scan: Scan, environment: Environment) -> Source:
    """Opens what a scan reads."""
    found = connector_of(scan.table)
    if scan.reloaded and isinstance(found, Reloaded):
        validate(scan.table)
        return found.reloaded_source(scan.table, environment)
    source = open_source(scan.table, environment)
    if scan.where is not None:
        assert isinstance(source, Pruning)
        source.keep(scan.where)
    return source


def open_sink(table: Table, environment: Environment, *, overwrite: bool = False) -> Sink:
    """Opens the table for writing, after `validate`; `overwrite`: what is written replaces what is
    there. BrokerFull where there is no space for it."""
    validate(table)
    found = connector_of(table)
    try:
        return (
            found.overwriting_sink(table, environment)
            if overwrite and isinstance(found, Overwriting)
            else found.sink(table, environment)
        )
    except OSError as error:
        if error.errno in NO_SPACE:
            raise cannot_write(f"table '{table.display}'", error) from None
        raise _cannot_open(table, "written", error) from None


def declared(table: Table) -> Table:
    """The table with the changes that its rows bring, as its connector says. What is wrong with its
    options is told where the table is used."""
    try:
        kinds = brings(table)
    except PlanError:
        return table
    if isinstance(connector_of(table), Partitioning):
        table = _with_partitions_apart(table)
    return replace(table, changes=changes_of(kinds))


def _with_partitions_apart(table: Table) -> Table:
    """The partition columns are in no record: the connector tells them."""
    keys = [c for c in table.physical if c.name in table.partition_keys]
    apart = tuple(MetadataColumn(c, PARTITION + c.name, virtual=False) for c in keys)
    rest = tuple(c for c in table.physical if c.name not in table.partition_keys)
    return replace(table, physical=Schema(rest), metadata=(*table.metadata, *apart))


def brings(table: Table) -> frozenset[RowKind]:
    """The kinds of rows that the table may give."""
    found = connector_of(table)
    if isinstance(found, Changing):
        return found.brings(table)
    return kinds_of_format(table) if found.needs_format else frozenset({RowKind.INSERT})


def takes(table: Table) -> frozenset[RowKind]:
    """The kinds of rows that can be written to the table."""
    found = connector_of(table)
    if isinstance(found, Changing):
        return found.takes(table)
    if found.accepts_updates:
        return frozenset(RowKind)
    return kinds_of_format(table) if found.needs_format else frozenset({RowKind.INSERT})


def kinds_of_format(table: Table) -> frozenset[RowKind]:
    """The kinds of rows that records of the table's format stand for."""
    chosen = changelog_format_of(table)
    return chosen.kinds if chosen is not None else frozenset({RowKind.INSERT})


def changes_of(kinds: frozenset[RowKind]) -> ModifyKindSet:
    """What rows of these kinds are to the planner."""
    updates = ModifyKindSet.UPDATES if RowKind.UPDATE_AFTER in kinds else ModifyKindSet.NONE
    if updates and RowKind.UPDATE_BEFORE not in kinds:
        updates |= ModifyKindSet.UPSERTS
    return updates | (ModifyKindSet.DELETES if RowKind.DELETE in kinds else ModifyKindSet.NONE)


def delivered(sink: PlannedSink, settings: Mapping[str, str]) -> PlannedSink:
    """The sink with all that stands between the query and its table, as the table's connector takes
    changes. Errors are those of `planner.analysis.delivery.deliver`."""
    if sink.table is None:
        return sink
    if sink.overwrite:
        _check_overwriting(sink.table, settings)
    kinds = takes(sink.table)
    mode = AcceptedChanges.APPEND if kinds == {RowKind.INSERT} else AcceptedChanges.UPSERT
    if RowKind.UPDATE_BEFORE in kinds:
        found = connector_of(sink.table)
        mode = (
            AcceptedChanges.ANY
            if found.accepts_updates and not isinstance(found, Changing)
            else AcceptedChanges.RETRACT
        )
    found = connector_of(sink.table)
    apart = isinstance(found, Repeating) and found.apart
    return replace(deliver(sink, mode, RowKind.DELETE in kinds, settings), apart=apart)


def repeated(plans: Iterable[LogicalPlan]) -> list[str]:
    """The tables that these statements write to and that take rows again after a crash."""
    tables = (p.table for p in plans if isinstance(p, PlannedSink) and p.table is not None)
    return sorted({t.display for t in tables if isinstance(connector_of(t), Repeating)})


def _check_overwriting(table: Table, settings: Mapping[str, str]) -> None:
    found = connector_of(table)
    if not isinstance(found, Overwriting):
        raise UnsupportedError(
            f"INSERT OVERWRITE of table '{table.display}' is not supported",
            detail=f"connector '{found.name}' only adds rows",
            hint="write INSERT INTO",
        )
    if not found.overwrites_streams and not is_batch(settings):
        raise PlanError(
            f"INSERT OVERWRITE of table '{table.display}' needs batch mode",
            detail="a stream has no end at which its rows could replace the others",
            hint=f"SET '{RUNTIME_MODE}' = 'batch'",
        )


def _cannot_open(table: Table, what: str, error: OSError) -> PlanError:
    """Files and folders that the statement names and the system refuses."""
    return PlanError(
        f"table '{table.display}' cannot be {what}",
        detail=f"{error.filename}: {error.strerror}" if error.filename else str(error),
        hint="name a path that exists and that the user who runs this may use",
    )


def _declared(table: Table, found: Connector) -> Mapping[str, Option]:
    """The connector's options; a # in a name stands for each column of the table, and each part of
    one."""
    declared = dict(_COMMON)
    if found.needs_format:
        declared["format"] = Option(required=True, doc="for example 'format' = 'json'")
    for name, option in found.options.items():
        if "#" in name:
            declared |= {
                name.replace("#", part): option
                for c in table.physical
                for part in part_names(c.name, c.type)
            }
        else:
            declared[name] = option
    return declared


def _is_format_option(name: str, table: Table, found: Connector) -> bool:
    return found.needs_format and name.startswith(table.options.get("format", "") + ".")
