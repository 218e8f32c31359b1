"""The WITH options of a table: those that every connector takes, its connector's own, and those of
its format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from parser.errors import OptionError, SqlError
from planner.capabilities import FormatUse
from planner.catalog import Table
from planner.settings import IDLE_OPTION, MAX_FUTURE_OPTION, UNKNOWN_OPTIONS
from sqlengine.connectors.base import Connector
from sqlengine.connectors.column_paths import part_names
from sqlengine.formats.base import Option
from sqlengine.formats.options import choice, duration, known_options, parse_options, probably_meant
from sqlengine.formats.registry import format_prefixes

# The end of the name of an option that stands for all with the same beginning.
ANY_NAME: Final = ".*"
_COMMON = {
    "connector": Option(required=True),
    IDLE_OPTION: Option(
        duration,
        doc="a shard that is silent for so long does not hold back the watermark of the others",
    ),
    MAX_FUTURE_OPTION: Option(
        duration,
        doc="a row further ahead of the processing time is a dead letter, and leaves the watermark"
        " as it is",
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


def parsed_options(table: Table, connector: Connector) -> dict[str, object]:
    """Returns the connector's options with their values, defaults filled in, those of the format
    left out. OptionError for an option that nobody reads, or a wrong value."""
    for error in unknown_of(table, connector):
        raise error
    own = {
        name: text
        for name, text in table.options.items()
        if not _is_format_option(name, table, connector)
    }
    declared = declared_options(table, connector)
    return parse_options(own, declared, f"table '{table.display}'")


def unknown_of(table: Table, connector: Connector) -> list[OptionError]:
    """Returns an error for each option that neither the connector nor the format of the table
    reads; none where the format is unknown itself."""
    try:
        known = _known(table, connector)
    except SqlError:
        return []
    unknown = [name for name in table.options if name not in known]
    if "format" in unknown:
        return [_formatless(table), *(_unknown(n, table, known) for n in unknown if n != "format")]
    return [_unknown(name, table, known) for name in unknown]


def _known(table: Table, connector: Connector) -> list[str]:
    names = list(declared_options(table, connector))
    if connector.capabilities.format is not FormatUse.NONE:
        for format_, prefix in format_prefixes(table):
            names += [prefix + name for name in format_.options]
    return names


def _formatless(table: Table) -> OptionError:
    return OptionError(
        f"unknown option 'format' of table '{table.display}'",
        hint=f"connector '{table.connector}' has no format: leave it out",
        subject="format",
    )


def _unknown(name: str, table: Table, known: list[str]) -> OptionError:
    return OptionError(
        f"unknown option '{name}' of table '{table.display}'",
        hint=probably_meant(name, known)
        or f"{known_options(name, known)}; in a script made for Flink,"
        f" SET '{UNKNOWN_OPTIONS}' = 'ignore' before it",
        subject=name,
    )


def declared_options(table: Table, connector: Connector) -> Mapping[str, Option]:
    """Returns the connector's options; a # in a name stands for each column of the table, and each
    part of one, a * at its end for whatever the table has there."""
    declared = dict(_COMMON)
    if connector.capabilities.format is not FormatUse.NONE:
        keyed = connector.capabilities.format is FormatUse.RECORDS_WITH_KEYS
        declared["format"] = Option(required=not keyed, doc="for example 'format' = 'json'")
    for name, option in connector.options.items():
        if name.endswith(ANY_NAME):
            prefix = name.removesuffix("*")
            given = (n for n in table.options if n.startswith(prefix))
            declared |= {n: option for n in given if n not in connector.options}
            continue
        if "#" in name:
            declared |= {
                name.replace("#", part): option
                for c in table.physical
                for part in part_names(c.name, c.type)
            }
        else:
            declared[name] = option
    return declared


def _is_format_option(name: str, table: Table, connector: Connector) -> bool:
    if connector.capabilities.format is FormatUse.NONE:
        return False
    return any(name.startswith(prefix) for _, prefix in format_prefixes(table))
