"""Kinds of changes: of one row, of what a table emits or accepts, and of what a plan produces."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, IntEnum
from typing import Final


class RowKind(IntEnum):
    """The kind of change that a row makes to the result so far, by Flink's names."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        return ("+I", "-U", "+U", "-D")[self]


class ModifyKindSet(Flag):
    """The kinds of changes that a stream may have besides +I.

    `UPDATES` are pairs of -U and +U, `DELETES` rows -D, all with all columns of the row. Only a
    table's own rows may be `UPSERTS`: +U without the row that it replaces, which the primary key
    identifies, and -D of which only the key counts."""

    NONE = 0
    UPDATES = 1
    DELETES = 2
    ALL = 3
    UPSERTS = 4


@dataclass(frozen=True)
class ChangelogMode:
    """The kinds of rows that a table emits or accepts (Flink's `ChangelogMode`).

    `as_requested`: a sink accepts whatever the query emits, as Flink's print does."""

    kinds: frozenset[RowKind]
    as_requested: bool = False

    @property
    def is_insert_only(self) -> bool:
        """True if rows are only added."""
        return self.kinds == {RowKind.INSERT}

    @property
    def is_upsert(self) -> bool:
        """True if +U may come without the -U before it."""
        return not self.is_insert_only and (self.as_requested or not self.has_update_before)

    @property
    def has_update_before(self) -> bool:
        return RowKind.UPDATE_BEFORE in self.kinds

    @property
    def has_delete(self) -> bool:
        return RowKind.DELETE in self.kinds

    @property
    def modify_kinds(self) -> ModifyKindSet:
        """The changes besides +I that a plan over such a table has to expect."""
        changes = ModifyKindSet.DELETES if self.has_delete else ModifyKindSet.NONE
        if RowKind.UPDATE_AFTER in self.kinds:
            changes |= ModifyKindSet.UPDATES
            changes |= ModifyKindSet.NONE if self.has_update_before else ModifyKindSet.UPSERTS
        return changes

    def __str__(self) -> str:
        """The kinds as Flink's EXPLAIN writes them, `[I,UB,UA,D]`."""
        names = {
            RowKind.INSERT: "I",
            RowKind.UPDATE_BEFORE: "UB",
            RowKind.UPDATE_AFTER: "UA",
            RowKind.DELETE: "D",
        }
        return f"[{','.join(name for kind, name in names.items() if kind in self.kinds)}]"


INSERT_ONLY: Final = ChangelogMode(frozenset({RowKind.INSERT}))
UPSERT: Final = ChangelogMode(frozenset(RowKind) - {RowKind.UPDATE_BEFORE})
ALL_CHANGES: Final = ChangelogMode(frozenset(RowKind))
AS_REQUESTED: Final = ChangelogMode(frozenset(RowKind), as_requested=True)
