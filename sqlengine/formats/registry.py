"""The formats by name, and the format of a table. Each is found by its entry point in the group
'sqlengine.formats'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pyarrow as pa

from parser.errors import OptionError, SqlError
from parser.types import Column, Schema
from planner.catalog import MetadataColumn, Table
from planner.logical.change_kinds import ChangelogMode
from sqlengine.batch import Batch
from sqlengine.formats.base import BadRecord, Decoded, Decoder, Encoder, Format, selected
from sqlengine.formats.guarded import GuardedDecoder, GuardedEncoder
from sqlengine.formats.keyed.decoder import keyed_decoder
from sqlengine.formats.keyed.fields import KEY_FORMAT, VALUE_FORMAT, KeyPart, key_part
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
    named = _named(table)
    if named is None:
        raise OptionError(
            f"table '{table.display}' needs the option 'format'",
            hint="for example 'format' = 'json'",
            subject="format",
        )
    return _with_options(table, *named)


def _named(table: Table) -> tuple[str, str] | None:
    """Returns the name of the format of the table's values, and what its options begin with."""
    options = table.options
    if "format" in options:
        return options["format"], ""
    return (options[VALUE_FORMAT], VALUE) if VALUE_FORMAT in options else None


def _with_options(table: Table, name: str, before: str) -> tuple[Format, Mapping[str, str]]:
    format_ = get_format(name)
    options = _under(f"{before}{format_.name}.", table.options)
    topic = table.options.get("topic", "")
    if _SUBJECT in format_.options and topic and ";" not in topic:
        # As clients of Kafka name it.
        options.setdefault(_SUBJECT, f"{topic}-{'key' if before == _KEY else 'value'}")
    return format_, options


def _under(prefix: str, options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options whose names begin with `prefix`, without it."""
    return {k.removeprefix(prefix): v for k, v in options.items() if k.startswith(prefix)}


def key_format_of(table: Table) -> tuple[Format, Mapping[str, str]] | None:
    """Returns the format of the keys of the table's records and its options; None where it names
    none."""
    name = table.options.get(KEY_FORMAT)
    return None if name is None else _with_options(table, name, _KEY)


def format_prefixes(table: Table) -> list[tuple[Format, str]]:
    """Returns the formats that a table names, each with what its options begin with."""
    named = _named(table), (table.options.get(KEY_FORMAT), _KEY)
    pairs = [n for n in named if n is not None and n[0] is not None]
    found = [(get_format(name), before) for name, before in pairs if name is not None]
    return [(format_, f"{before}{format_.name}.") for format_, before in found]


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
# The option of formats that says under which name a registry has their schema.
_SUBJECT = "subject"
# Before the options of the format of keys.
_KEY = "key."


def value_metadata(table: Table) -> tuple[MetadataColumn, ...]:
    """The metadata columns that the table's format tells."""
    return tuple(m for m in table.metadata if m.key.startswith(VALUE))


# The option of formats that read times as texts.
_STANDARD = "timestamp-format.standard"


def with_any_times(table: Table) -> Table:
    """Returns the table with times of any standard, where it names none: as a server reads it."""
    with suppress(SqlError):
        pairs = format_prefixes(table)
        times = {prefix + _STANDARD: ANY for f, prefix in pairs if _STANDARD in f.options}
        return replace(table, options={**times, **table.options}) if times else table
    return table


def decoder_for(
    table: Table, columns: Iterable[Column] | None = None, metadata: Iterable[MetadataColumn] = ()
) -> Decoder:
    """Returns a decoder of the table's records.

    It gives all physical columns or `columns`, in the table's order, and `metadata` of the format.
    A table without a format, or with one of whole files only, whose connector makes the rows, has
    nothing to decode."""
    if _named(table) is None or not format_of(table)[0].capabilities.has_records:
        return _NothingToDecode()
    keys = tuple(m.key.removeprefix(VALUE) for m in metadata)

    def value(schema: Schema, wanted: Iterable[Column] | None) -> Decoder:
        format_, options = format_of(table)
        names = None if wanted is None else tuple(c.name for c in wanted)
        decoder = format_.decoder(schema, options, names, keys)
        types = [c.type for c in selected(schema, names)]
        return GuardedDecoder(format_.name, decoder, types, [format_.metadata[k] for k in keys])

    part = key_part(table)
    if part is None or not part.decoded:
        return value(table.physical, columns)
    wanted = table.physical if columns is None else columns
    return keyed_decoder(part, table, wanted, partial(_key_decoder, table), value)


def _key_decoder(table: Table, fields: Schema, names: tuple[str, ...]) -> Decoder:
    found = key_format_of(table)
    assert found is not None
    format_, options = found
    types = [c.type for c in selected(fields, names)]
    return GuardedDecoder(format_.name, format_.decoder(fields, options, names), types)


def decodes_keys(table: Table) -> bool:
    """True if rows of the table are made of the keys of its records, too."""
    part = key_part(table)
    return part is not None and part.decoded


def encoder_for(table: Table) -> Encoder:
    """Writes the values of batches of the table's columns."""
    part = key_part(table)
    return encoder_of(
        table, table.physical if part is None else Schema(part.of_value(table.physical))
    )


def key_encoder_of(table: Table, part: KeyPart) -> Encoder:
    """Writes keys: batches of their fields."""
    found = key_format_of(table)
    assert found is not None
    format_, options = found
    return GuardedEncoder(format_.name, format_.encoder(part.schema(table), options))


def encoder_of(table: Table, columns: Schema) -> Encoder:
    """Writes batches of these columns in the table's format."""
    format_, options = format_of(table)
    return GuardedEncoder(format_.name, format_.encoder(columns, options))


def connects(table: Table) -> bool:
    """True if a format of the table has to see something where it is opened."""
    return any(type(f).connect is not Format.connect for f, _ in _formats_of(table))


def connect(table: Table, filled: Table, files: FileAccess) -> None:
    """Tells the formats of a table that is opened their secrets (`filled` has their values), and
    lets them read their files. PlanError for a file that is wrong, or does not fit the table."""
    if connects(table):
        pairs = zip(_formats_of(table), _formats_of(filled), strict=True)
        for (format_, options), (_, values) in pairs:
            format_.connect(options, values, files)
        decoder_for(table)


def _formats_of(table: Table) -> list[tuple[Format, Mapping[str, str]]]:
    """Returns the format of the table's values, then that of the keys, where it names them."""
    values = [] if _named(table) is None else [format_of(table)]
    keys = key_format_of(table)
    return values if keys is None else [*values, keys]


def preparation_of(table: Table) -> Callable[[pa.Array], None] | None:
    """Returns what is to be done with records of the table where they are read, so that decoders
    need not wait (`Format.prepare`); None where that is nothing."""
    return None if _named(table) is None else _preparation(*format_of(table))


def key_preparation_of(table: Table) -> Callable[[pa.Array], None] | None:
    """Returns the same of the keys of the records."""
    found = key_format_of(table) if decodes_keys(table) else None
    return None if found is None else _preparation(*found)


def _preparation(format_: Format, options: Mapping[str, str]) -> Callable[[pa.Array], None] | None:
    if type(format_).prepare is Format.prepare:
        return None
    return partial(format_.prepare, options=options)


def encode_physical(table: Table, rows: Batch) -> pa.Array:
    """Returns the records of the table's own columns, in its format. Raises as its encoder does."""
    names = table.physical.names
    columns = [rows.column(name) for name in names]
    return encoder_for(table).encode(rows.with_columns(rows.schema.select(names), columns))


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
