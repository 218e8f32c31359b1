"""The period of the past that rules are run over."""

from __future__ import annotations

from dataclasses import dataclass

from parser.types import BOOLEAN, DataType
from planner.rewrite import conjunction
from planner.scalar import Call, ColumnRef, Literal, Scalar

DAY_MS = 86_400_000


@dataclass(frozen=True)
class Period:
    """A time that begins at `since` and ends before `until` (ms since 1970), or has no such
    bound."""

    since: int | None = None
    until: int | None = None

    @property
    def bounded(self) -> bool:
        return self.since is not None or self.until is not None

    def meets(self, begin: int, end: int) -> bool:
        """True if some moment from `begin` on and before `end` (ms) is in the period."""
        return (self.until is None or begin < self.until) and (
            self.since is None or end > self.since
        )

    def condition(self, column: str, type_: DataType) -> Scalar:
        """Returns the condition that a column with a time is in the period, which must have a
        bound."""
        bounds = ((">=", self.since), ("<", self.until))
        time, exact = ColumnRef(column, type_), type_.with_nullable(False)
        boolean = BOOLEAN.with_nullable(type_.nullable)
        return conjunction(
            [
                Call(sign, (time, Literal(moment, exact)), boolean)
                for sign, moment in bounds
                if moment is not None
            ]
        )
