"""Asking a table for the rows of keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sqlengine.connectors.chunks import Chunk


@dataclass(frozen=True)
class Found:
    """Rows that were found. `key`: the number of the key that all of them are for, whatever is in
    their columns; None: each is for the key to which its columns are equal, and one that is for
    none does no harm. `has_key`: its rows have values of their own in the columns that were asked
    by, which may differ from the key; else these are filled in. `problem`: why the rows of the key
    cannot be had, while those of others can; there are none in `chunk` then."""

    chunk: Chunk
    key: int | None = None
    has_key: bool = False
    problem: str = ""


class RowLookup(ABC):
    """Asks a table for rows by the values of some of its columns, over a connection of its own.

    It is Flink's `LookupFunction`, for many keys at once. One thread at a time."""

    @abstractmethod
    def rows_of(self, keys: Sequence[pa.Array]) -> Sequence[Found]:
        """Returns all rows of these keys, which are distinct: an array for each column that is
        asked by, without NULL. SqlError where the other side is away or refuses; the caller closes
        this then, and may ask anew."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection."""
