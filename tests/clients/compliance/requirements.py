"""What the dialect can do of what SQLAlchemy's suite asks for."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements


def _closed(reason: str) -> property:
    """A requirement that is not met, and why."""
    return property(lambda self: exclusions.closed(), doc=reason)


class Requirements(SuiteRequirements):  # type: ignore[misc]
    """By these the suite chooses its tests."""

    schemas = _closed("databases are not created by CREATE SCHEMA")
    temp_table_names = temporary_tables = temporary_views = _closed("they are not reflected")
    temp_table_reflection = has_temp_table = _closed("they are not reflected")
    autoincrement_insert = _closed("there are no generated keys")
    insert_from_select_with_defaults = _closed("there are no defaults")
    empty_inserts = _closed("an INSERT names its values")
    implicit_decimal_binds = _closed("a DECIMAL has the type of its digits")
    unicode_ddl = _closed("topics have names of ASCII")
    long_names: Any = _closed("names of keys and indexes are left out")
