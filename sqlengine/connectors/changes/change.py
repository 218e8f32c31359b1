"""Changes of rows as a database tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

# A value of a row: its text, None for NULL, UNCHANGED for a long one that an update did not touch.
UNCHANGED: Final = b"\0"  # which is in no text
Values: TypeAlias = list[bytes | None]


@dataclass(frozen=True)
class Change:
    """A row of the table `relation` that was inserted, updated (`updates`) or deleted (without
    `new`). The `old` row of an update is there if the database tells it, or where its key changed;
    then it may have its key alone (`key_only`)."""

    relation: int
    old: Values | None
    new: Values | None
    updates: bool
    key_only: bool = False
