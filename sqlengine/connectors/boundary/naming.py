"""Lets errors of a table say which table it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from parser.errors import OptionError, SqlError
from planner.catalog import Table
from sqlengine.formats.registry import format_prefixes


@contextmanager
def naming(table: Table) -> Iterator[None]:
    """Adds the table to any SqlError that leaves the block: connectors and formats speak of files,
    servers and topics, of which people know the table that needs them."""
    try:
        yield
    except SqlError as error:
        if error.table is None and isinstance(error, OptionError):
            error.subject = _in_full(error.subject or "", table)
        error.about_table(table.name)
        raise


def _in_full(option: str, table: Table) -> str:
    """Returns the name that an option has in the table: a format knows its own without what stands
    before."""
    if option not in table.options:
        with suppress(SqlError):  # one of the formats may be what is wrong
            names = (prefix + option for _, prefix in format_prefixes(table))
            return next((name for name in names if name in table.options), option)
    return option
