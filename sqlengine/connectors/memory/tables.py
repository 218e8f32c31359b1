"""The tables of a process, with the kinds of their rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlengine.batch import Batch, concat


@dataclass
class MemoryTable:
    """Rows in order of arrival, all of one schema.

    While `open`, more may come, and readers wait for them. `epochs`: the last epoch of each writer;
    `overwritten`: the writer that replaced all rows last."""

    rows: Batch | None = None
    open: bool = False
    epochs: dict[str, int] = field(default_factory=dict)
    overwritten: str | None = None

    def append(self, rows: Batch) -> None:
        """Adds rows of the same columns."""
        self.rows = rows if self.rows is None else concat([self.rows, rows])

    @property
    def num_rows(self) -> int:
        return 0 if self.rows is None else self.rows.num_rows


@dataclass
class Memory:
    """Tables by name; a missing one is empty."""

    tables: dict[str, MemoryTable] = field(default_factory=dict)

    def table(self, name: str) -> MemoryTable:
        return self.tables.setdefault(name, MemoryTable())
