"""The columns of a table that are in the keys of its records.

The options are Flink's: 'key.format' and 'value.format' with their own ('key.json.…'),
'key.fields', 'key.fields-prefix', 'value.fields-include'. Without 'key.fields' the key is the
primary key, and a record without a value says that its row is deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from parser.errors import OptionError
from parser.types import Column, Schema
from planner.catalog import Table
from sqlengine.formats.options import did_you_mean

KEY_FORMAT: Final = "key.format"
KEY_FIELDS: Final = "key.fields"
KEY_PREFIX: Final = "key.fields-prefix"
VALUE_FORMAT: Final = "value.format"
VALUE_INCLUDE: Final = "value.fields-include"
ALL: Final = "ALL"
EXCEPT_KEY: Final = "EXCEPT_KEY"


@dataclass(frozen=True)
class KeyPart:
    """The part of a table's columns that is in the keys of its records.

    `columns`: their names in the table, in the order of the key; `prefix`: what these begin with,
    and the fields of the key do not; `in_value`: the value has them, too; `upserts`: a record
    without a value deletes the row of its key."""

    columns: tuple[str, ...]
    prefix: str = ""
    in_value: bool = True
    upserts: bool = False

    @property
    def decoded(self) -> bool:
        """True if rows are not known without the keys: elsewhere the values have all."""
        return self.upserts or not self.in_value

    def schema(self, table: Table) -> Schema:
        """Returns the fields of the key."""
        columns = table.physical.select(self.columns)
        return Schema(tuple(Column(c.name.removeprefix(self.prefix), c.type) for c in columns))

    def of_value(self, columns: Iterable[Column]) -> tuple[Column, ...]:
        """Returns those of `columns` that are in the value."""
        return tuple(c for c in columns if self.in_value or c.name not in self.columns)


def key_part(table: Table) -> KeyPart | None:
    """Returns which columns of the table are in the keys of its records; None where these have no
    keys, or none that a format makes. OptionError for options that contradict each other."""
    options = table.options
    if KEY_FORMAT not in options:
        return None
    upserts = KEY_FIELDS not in options
    names = table.primary_key if upserts else _names(options[KEY_FIELDS])
    prefix = options.get(KEY_PREFIX, "")
    in_value = options.get(VALUE_INCLUDE, ALL).strip().upper() != EXCEPT_KEY
    for name in names:
        if name not in table.physical:
            hint = did_you_mean(name, table.physical.names)
            raise _wrong(table, KEY_FIELDS, f"names no column '{name}'", hint)
        if not name.startswith(prefix):
            raise _wrong(table, KEY_PREFIX, f"is no prefix of key column '{name}'")
    if prefix and in_value:
        hint = f"'{VALUE_INCLUDE}' = '{EXCEPT_KEY}' leaves the columns of the key out of the value"
        raise _wrong(table, KEY_PREFIX, "needs values without the columns of the key", hint)
    return KeyPart(names, prefix, in_value, upserts)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(";") if name.strip())


def _wrong(table: Table, option: str, what: str, hint: str | None = None) -> OptionError:
    message = f"'{option}' of table '{table.display}' {what}"
    return OptionError(message, hint=hint, subject=option)
