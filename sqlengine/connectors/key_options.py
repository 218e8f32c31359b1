"""The options of connectors whose records have keys, and what Flink demands of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from parser.errors import OptionError, PlanError
from planner.catalog import Table
from sqlengine.formats.base import Option
from sqlengine.formats.keyed.fields import (
    ALL,
    EXCEPT_KEY,
    KEY_FIELDS,
    KEY_FORMAT,
    KEY_PREFIX,
    VALUE_FORMAT,
    VALUE_INCLUDE,
    key_part,
)
from sqlengine.formats.options import choice

_PREFIX: Final = Option(
    doc="what the columns of the key begin with, and its fields do not; needs"
    f" '{VALUE_INCLUDE}' = '{EXCEPT_KEY}'"
)
_INCLUDE: Final = Option(
    choice(ALL, EXCEPT_KEY), default=ALL, doc="whether values have the columns of the key, too"
)
_VALUE: Final = Option(doc="instead of 'format', with options 'value.FORMAT.…'")
# Keys by the options of the table.
KEY_OPTIONS: Final[Mapping[str, Option]] = {
    KEY_FORMAT: Option(doc="the format of keys, with options 'key.FORMAT.…'; needs 'key.fields'"),
    KEY_FIELDS: Option(doc="the columns of the key, separated by ;"),
    KEY_PREFIX: _PREFIX,
    VALUE_FORMAT: _VALUE,
    VALUE_INCLUDE: _INCLUDE,
}
# The key is the primary key.
UPSERT_KEY_OPTIONS: Final[Mapping[str, Option]] = {
    KEY_FORMAT: Option(required=True, doc="the format of keys, with options 'key.FORMAT.…'"),
    KEY_PREFIX: _PREFIX,
    VALUE_FORMAT: _VALUE,
    VALUE_INCLUDE: _INCLUDE,
}


def check_keys(table: Table, *, fields: bool) -> None:
    """Raises PlanError for options of keys that do not fit each other: with `fields` the key is
    that of 'key.fields', else the primary key."""
    options = table.options
    if "format" in options and VALUE_FORMAT in options:
        message = f"table '{table.display}' has both 'format' and '{VALUE_FORMAT}'"
        raise OptionError(message, hint="leave one of them out", subject=VALUE_FORMAT)
    if fields:
        for one, other in ((KEY_FORMAT, KEY_FIELDS), (KEY_FIELDS, KEY_FORMAT)):
            if one in options and other not in options:
                message = f"table '{table.display}' needs the option '{other}'"
                raise OptionError(message, detail=f"'{one}' is given", subject=one)
    elif not table.primary_key:
        raise PlanError(
            f"table '{table.display}' with connector '{table.connector}' has no primary key",
            hint="declare PRIMARY KEY (…) NOT ENFORCED",
        )
    key_part(table)
