"""Rows as the sinks of a table store them: made by the sink, or before rows get there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from xxhash import xxh64_hexdigest

from planner.catalog import Table
from sqlengine.batch import Batch

# The key of `Encoded` in the memo of a batch.
_ENCODED: Final = "encoded"


@dataclass(frozen=True)
class Encoded:
    """The rows of a batch as the encoder with the digest `of` has made them: columns with an entry
    for each row, whose meaning is the encoder's."""

    of: str
    columns: tuple[pa.Array, ...]


class RowEncoder(ABC):
    """Makes of rows what the sinks of one table store, such as records. It depends on the rows and
    the table's definition alone, so it may be called in another process than the sink."""

    def __init__(self, table: Table) -> None:
        self.digest = definition_digest(table)

    @abstractmethod
    def encode(self, rows: Batch) -> tuple[pa.Array, ...]:
        """Returns columns with an entry for each row. SqlError, or what the format raises, where a
        row cannot be stored."""

    def encoded(self, rows: Batch) -> tuple[pa.Array, ...]:
        """Returns what `encode` does; rows that were encoded for the table already bring it."""
        found = encoded_of(rows)
        if found is not None and found.of == self.digest:
            return found.columns
        return self.encode(rows)


def definition_digest(table: Table) -> str:
    """Returns what tells apart two tables whose rows may be stored in different ways."""
    text = [*table.name, str(table.physical), repr(table.primary_key), repr(table.partition_keys)]
    options = (f"{k}={v}" for k, v in sorted(table.options.items()))
    return xxh64_hexdigest("\0".join([*text, *options]).encode())


def encoded_of(rows: Batch) -> Encoded | None:
    """Returns what rows bring along that were encoded before they got to their sink."""
    found = rows.memo.get(_ENCODED)
    return found if isinstance(found, Encoded) else None


def bring_along(rows: Batch, encoded: Encoded) -> None:
    """Lets rows bring along what an encoder has made of them; other rows made of them do not."""
    rows.memo[_ENCODED] = encoded
