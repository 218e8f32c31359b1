"""The formats by name, and the format of a table. Each is found by its entry point in the group
'sqlengine.formats'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import pyarrow as pa

from parser.errors import OptionError, PlanError
from parser.types import Column, Schema
from planner.catalog import MetadataColumn, Table
from planner.logical.change_kinds import ChangelogMode
from sqlengine.formats.base import BadRecord, Decoded, Decoder, Encoder, Format
from sqlengine.formats.guarded import GuardedDecoder, GuardedEncoder
from sqlengine.formats.lines import Framing
from sqlengine.formats.options import did_you_mean
from sqlengine.formats.times import ANY
from sqlengine.system.file_access import FileAccess
from sqlengine.system.plugins import FORMATS, Plugins

_formats: Plugins[Format] = Plugins(FORMATS)


def format_names() -> list[str]:
    """Returns the names of all formats; imports none of them."""
    return _formats.names()


def get_format(name: str) -> Format:
    """Returns the format of that name; OptionError with what was probably meant."""
    format_ = _formats.get(name)
    if format_ is None:
        known = format_names()
        hint = did_you_mean(name, known) or "known formats: " + ", ".join(known)
        raise OptionError(f"unknown format '{name}'", hint=hint, subject="format")
    return format_


def format_of(table: Table) -> tuple[Format, Mapping[str, str]]:
    """Returns the table's format and its options without their prefix. PlanError where the table
    names none."""
    if "format" not in table.options:
        raise PlanError(
            f"table '{table.display}' needs the option 'format'",
            hint="for example 'format' = 'json'",
        )
    format_ = get_format(table.options["format"])
    prefix = format_.name + "."
    return format_, {
        k.removeprefix(prefix): v for k, v in table.options.items() if k.startswith(prefix)
    }


def changelog_mode_of(table: Table) -> ChangelogMode:
    """The kinds of rows that records of the table's format stand for."""
    format_, _ = format_of(table)
    return format_.capabilities.changelog


def bulk_format_of(table: Table) -> tuple[Format, Mapping[str, str]] | None:
    """Returns the table's format and its options if it is one of whole files."""
    format_, options = format_of(table)
    return (format_, options) if format_.capabilities.bulk else None


# Before the key of metadata that the table's format tells, and not its connector.
VALUE = "value."


def value_metadata(table: Table) -> tuple[MetadataColumn, ...]:
    """The metadata columns that the table's format tells."""
    return tuple(m for m in table.metadata if m.key.startswith(VALUE))


# The option of formats that read times as texts.
_STANDARD = "timestamp-format.standard"


def with_any_times(table: Table) -> Table:
    """Returns the table with times of any standard, where it names none: as a server reads it."""
    format_ = _formats.get(table.options.get("format", ""))
    if format_ is None or _STANDARD not in format_.options:
        return table
    option = f"{format_.name}.{_STANDARD}"
    return replace(table, options={option: ANY, **table.options})


def decoder_for(
    table: Table, columns: Iterable[Column] | None = None, metadata: Iterable[MetadataColumn] = ()
) -> Decoder:
    """Returns a decoder of the table's records.

    It gives all physical columns or `columns`, in the table's order, and `metadata` of the format.
    A table without a format, or with one of whole files only, whose connector makes the rows, has
    nothing to decode."""
    if "format" not in table.options:
        return _NothingToDecode()
    format_, options = format_of(table)
    if not format_.capabilities.has_records:
        return _NothingToDecode()
    names = None if columns is None else tuple(c.name for c in columns)
    keys = tuple(m.key.removeprefix(VALUE) for m in metadata)
    decoder = format_.decoder(table.physical, options, names, keys)
    return GuardedDecoder(table.options["format"], decoder)


def encoder_for(table: Table) -> Encoder:
    """Writes batches of the table's physical columns."""
    return encoder_of(table, table.physical)


def encoder_of(table: Table, columns: Schema) -> Encoder:
    """Writes batches of these columns in the table's format."""
    format_, options = format_of(table)
    return GuardedEncoder(table.options["format"], format_.encoder(columns, options))


def connect(table: Table, filled: Table, files: FileAccess) -> None:
    """Tells the format of a table that is opened its secrets (`filled` has their values), and lets
    it read its files. PlanError for a file that is wrong, or does not fit the table."""
    if "format" not in table.options:
        return
    format_, options = format_of(table)
    if type(format_).connect is not Format.connect:
        format_.connect(options, format_of(filled)[1], files)
        format_.decoder(table.physical, options)


def preparation_of(table: Table) -> Callable[[pa.Array], None] | None:
    """Returns what is to be done with records of the table where they are read, so that decoders
    need not wait (`Format.prepare`); None where that is nothing."""
    if "format" not in table.options:
        return None
    format_, options = format_of(table)
    if type(format_).prepare is Format.prepare:
        return None
    return partial(format_.prepare, options=options)


def framing_of(table: Table) -> Framing:
    """Returns how the records of a file of the table are separated."""
    format_, options = format_of(table)
    return format_.framing(options)


class _NothingToDecode(Decoder):
    """Refuses all records: the table has no format."""

    def decode(self, records: pa.Array) -> Decoded:
        return Decoded(
            (),
            len(records),
            bad=tuple(BadRecord(i, "the table has no format") for i in range(len(records))),
        )
