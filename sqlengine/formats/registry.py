"""The formats by name. A file of this folder registers its format; third parties use the entry
point group 'sqlengine.formats', whose objects are the formats' classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

import pyarrow as pa

from parser.errors import OptionError, PlanError
from parser.types import Column, Schema
from planner.catalog import MetadataColumn, Table
from sqlengine.formats.base import (
    BadRecord,
    ChangelogFormat,
    Decoded,
    Decoder,
    Encoder,
    FileFormat,
    Format,
    Frames,
)
from sqlengine.formats.lines import Framing, LineFraming
from sqlengine.formats.options import did_you_mean

_formats: dict[str, Format] = {}

F = TypeVar("F", bound=Format)


def format_(name: str) -> Callable[[type[F]], type[F]]:
    """Registers the decorated class, made without arguments, under `name`."""

    def register(cls: type[F]) -> type[F]:
        _formats[name] = cls()
        return cls

    return register


@cache
def formats() -> dict[str, Format]:
    """All formats by name."""
    from sqlengine.formats import (  # noqa: F401  each registers itself
        canal_json,
        csv_,
        debezium_json,
        json_,
        maxwell_json,
        ogg_json,
        parquet,
        raw,
    )

    for point in entry_points(group="sqlengine.formats"):
        if point.name not in _formats:
            _formats[point.name] = point.load()()
    return _formats


def get_format(name: str) -> Format:
    """The format of that name; PlanError with what was probably meant."""
    known = formats()
    if name not in known:
        hint = did_you_mean(name, known) or "known formats: " + ", ".join(sorted(known))
        raise OptionError(f"unknown format '{name}'", hint=hint, subject="format")
    return known[name]


def format_of(table: Table) -> tuple[Format, Mapping[str, str]]:
    """The table's format and its options without their prefix. PlanError where the table names
    none."""
    if "format" not in table.options:
        raise PlanError(
            f"table '{table.display}' needs the option 'format'",
            hint="for example 'format' = 'json'",
        )
    found = get_format(table.options["format"])
    prefix = found.name + "."
    return found, {
        k.removeprefix(prefix): v for k, v in table.options.items() if k.startswith(prefix)
    }


def changelog_format_of(table: Table) -> ChangelogFormat | None:
    """The table's format where its records are changes."""
    found, _ = format_of(table)
    return found if isinstance(found, ChangelogFormat) else None


def file_format_of(table: Table) -> tuple[FileFormat, Mapping[str, str]] | None:
    """The table's format and its options, where it is one of whole files."""
    found, options = format_of(table)
    return (found, options) if isinstance(found, FileFormat) else None


# Before the key of metadata that the table's format tells, and not its connector.
VALUE = "value."


def value_metadata(table: Table) -> tuple[MetadataColumn, ...]:
    """The metadata columns that the table's format tells."""
    return tuple(m for m in table.metadata if m.key.startswith(VALUE))


def decoder_for(
    table: Table, columns: Iterable[Column] | None = None, metadata: Iterable[MetadataColumn] = ()
) -> Decoder:
    """Reads the table's records: all physical columns or `columns`, in the table's order, and
    `metadata` of the format. A table without a format, or one of whole files, whose connector makes
    the rows, has nothing to decode."""
    if "format" not in table.options or file_format_of(table) is not None:
        return _NothingToDecode()
    found, options = format_of(table)
    names = None if columns is None else tuple(c.name for c in columns)
    keys = tuple(m.key.removeprefix(VALUE) for m in metadata)
    if keys and isinstance(found, ChangelogFormat):
        return found.decoder_with(keys, table.physical, options, names)
    return found.decoder(table.physical, options, names)


def encoder_for(table: Table) -> Encoder:
    """Writes batches of the table's physical columns."""
    return encoder_of(table, table.physical)


def encoder_of(table: Table, columns: Schema) -> Encoder:
    """Writes batches of these columns in the table's format."""
    found, options = format_of(table)
    return found.encoder(columns, options)


def framing_of(table: Table) -> Framing:
    """How the records of a file are told from each other: by lines, unless the table's format knows
    better."""
    found, options = format_of(table)
    return found.framing(options) if isinstance(found, Frames) else LineFraming()


class _NothingToDecode:
    def decode(self, records: pa.Array) -> Decoded:
        return Decoded(
            (),
            len(records),
            bad=tuple(BadRecord(i, "the table has no format") for i in range(len(records))),
        )


def wanted(schema: Schema, columns: Iterable[str] | None) -> Schema:
    """The columns of `schema` that `columns` names (None: all), in its order."""
    names = None if columns is None else set(columns)
    return Schema(tuple(c for c in schema if names is None or c.name in names))
