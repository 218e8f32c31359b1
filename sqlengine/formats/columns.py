"""Lets errors of types say of which column they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parser.errors import ColumnError, UnsupportedColumn, UnsupportedError


@contextmanager
def of_column(name: str) -> Iterator[None]:
    """Raises UnsupportedColumn in the place of an UnsupportedError that knows only a type."""
    try:
        yield
    except UnsupportedError as error:
        if isinstance(error, ColumnError):
            raise
        raise UnsupportedColumn(
            f"{error.message}, in column '{name}'",
            detail=error.detail,
            hint=error.hint,
            subject=name,
        ) from None
