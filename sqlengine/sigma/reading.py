"""Tables as rules see them: with names for Sigma's fields, and with values for placeholders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from parser.errors import PlanError
from parser.types import STRING
from sqlengine.sigma.rules import Condition, TextPart
from sqlengine.sigma.tables import Column, EventTable


class Unconvertible(PlanError):
    """A rule that cannot be said in SQL, and why."""

    title = "not converted"


@dataclass(frozen=True)
class SqlTest:
    """A placeholder that stands for a condition: `{field}` in its text is the field."""

    text: str


# What a placeholder stands for: any of these.
Replacement: TypeAlias = tuple[TextPart, ...] | SqlTest


@dataclass(frozen=True)
class Reading:
    """A table as the rules of a log source see it.

    `names`: Sigma's fields by their paths in the table; `extra`: a column with the fields that have
    no own one; `keywords`: where keywords are looked for, in all texts where None; `null_missing`:
    fields that nothing holds are NULL; `condition`, `match`: what rows of the log source fulfil, as
    SQL and as a rule says it."""

    table: EventTable
    names: Mapping[str, str] = field(default_factory=dict)
    extra: str | None = None
    keywords: tuple[str, ...] | None = None
    null_missing: bool = False
    condition: str | None = None
    placeholders: Mapping[str, tuple[Replacement, ...]] = field(default_factory=dict)
    match: Condition | None = None

    def find(self, field: str) -> Column | None:
        """Returns what holds a field: the column it is mapped to, the one of its own name, or
        `extra`."""
        path = self.names.get(field, field)
        own = self.table.column(path) or self.table.column(field)
        return own or self.table.column(path, self.extra)

    def column(self, field: str) -> Column:
        """Returns what a field is. Unconvertible where nothing holds it."""
        found = self.find(field)
        if found is not None:
            return found
        if self.null_missing:
            return Column("CAST(NULL AS STRING)", STRING)
        raise self.lacks([field])

    def check(self, fields: Iterable[str]) -> None:
        """Raises Unconvertible with all fields that nothing holds."""
        missing = [] if self.null_missing else [f for f in fields if self.find(f) is None]
        if missing:
            raise self.lacks(missing)

    def lacks(self, fields: Iterable[str]) -> Unconvertible:
        told = ", ".join(
            f if self.names.get(f, f) == f else f"{f} ({self.names[f]})" for f in fields
        )
        return Unconvertible(
            f"table '{self.table.name}' has no column for {told}",
            hint="add the column, map the field ('fields'), name a column for all others ('extra'),"
            " or let it be NULL ('missing: null')",
        )

    def searched(self, digits: bool) -> list[Column]:
        """Returns where keywords are looked for; those of `digits` in numbers, too."""
        if self.keywords is not None:
            return [self.column(k) for k in self.keywords]
        found = self.table.texts() + (self.table.integers() if digits else [])
        if not found:
            raise Unconvertible(f"table '{self.table.name}' has no text to look for keywords in")
        return found
