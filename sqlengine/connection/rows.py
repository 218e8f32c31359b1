"""Rows of results as named tuples."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlengine.connection.values import python_values

_INSERT = "+I"
_KINDS = (_INSERT, "-U", "+U", "-D")


class Row(tuple[Any, ...]):
    """A row of a result: a named tuple, whose `kind` is '+I', '-U', '+U' or '-D'."""

    __slots__ = ()
    kind: str

    def __reduce__(self) -> tuple[Any, ...]:
        return _row, (self._fields, self.kind, tuple(self))

    if TYPE_CHECKING:  # the names are those of the columns
        _fields: tuple[str, ...]

        def __getattr__(self, name: str) -> Any: ...
        def _asdict(self) -> dict[str, Any]: ...


@lru_cache(100)
def _makers(names: tuple[str, ...]) -> dict[str, Callable[[Iterable[object]], Row]]:
    """Returns what makes rows of values, by their kind."""
    plain: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]  # noqa: PYI024
    # A class for each kind: an attribute of a tuple itself would cost a dict a row.
    return {
        kind: type("Row", (plain, Row), {"__slots__": (), "kind": kind})._make  # type: ignore[attr-defined]
        for kind in _KINDS
    }


def _row(names: tuple[str, ...], kind: str, values: tuple[object, ...]) -> Row:
    """Makes a row that was pickled."""
    return _makers(names)[kind](values)


class RowMaker:
    """Makes rows of record batches of one schema: with `changes` their first column is the kind.

    A row is a named tuple with an attribute `kind`. A column whose name is no Python name has the
    field `_0`, `_1`, … by its place."""

    def __init__(self, schema: pa.Schema, *, changes: bool) -> None:
        self._schema, self._changes = schema, changes
        names = schema.names[1:] if changes else schema.names
        self._classes = _makers(tuple(names))

    def columns(self, batch: pa.RecordBatch) -> list[list[object]]:
        """Returns the values of all columns."""
        return [python_values(c, f) for c, f in zip(batch.columns, self._schema, strict=True)]

    def rows(self, batch: pa.RecordBatch) -> list[Row]:
        """Returns the rows of a batch."""
        columns = self.columns(batch)
        if not self._changes:
            return list(map(self._classes[_INSERT], zip(*columns, strict=True)))
        kinds, *rest = columns
        rows = zip(*rest, strict=True) if rest else [()] * batch.num_rows
        return [self._classes[str(k)](row) for k, row in zip(kinds, rows, strict=True)]
