"""The differences between the alerts of two versions of a rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from xxhash import xxh3_64_intdigest

from planner.logical.change_kinds import RowKind
from sqlengine.batch import Batch
from sqlengine.trial.events import Row
from sqlengine.trial.past.alerts import alerts_of

# Rows that one version has and the other has not, yet: with more than so many open at the end of
# an epoch they count as different.
_MOST_OPEN: Final = 500_000
_ADDED: Final = (RowKind.INSERT, RowKind.UPDATE_AFTER)


@dataclass
class Difference:
    """The alerts that a version of a rule gives and the other does not (`more`), and the other way
    round (`less`), each with the first of them as samples."""

    more: int = 0
    less: int = 0
    samples_more: list[Row] = field(default_factory=list)
    samples_less: list[Row] = field(default_factory=list)


@dataclass
class _Open:
    """A row that one version has so many times more often than the other."""

    row: Row
    times: int


@dataclass
class Comparison:
    """The rows of two versions of a rule with their times, as bags: what is equal in both is
    forgotten at once."""

    samples: int
    _open: dict[int, _Open] = field(default_factory=dict)
    _settled: Difference = field(default_factory=Difference)

    def take(self, rows: Batch, *, other: bool) -> None:
        """Takes rows of the version that is looked at, or of the `other` one."""
        for kind, time, row in alerts_of(rows):
            self._note(time, row, 1 if (kind in _ADDED) is not other else -1)

    def _note(self, time: int | None, row: Row, times: int) -> None:
        key = xxh3_64_intdigest(json.dumps([time, row], sort_keys=True).encode())
        known = self._open.setdefault(key, _Open(row, 0))
        known.times += times
        if not known.times:
            del self._open[key]

    def end_epoch(self) -> None:
        """Bounds what is kept."""
        if len(self._open) > _MOST_OPEN:
            self._settled = self.difference()
            self._open.clear()

    def difference(self) -> Difference:
        """Returns the difference of all rows so far."""
        before = self._settled
        more, less = ([o for o in self._open.values() if o.times * sign > 0] for sign in (1, -1))
        return Difference(
            before.more + sum(o.times for o in more),
            before.less - sum(o.times for o in less),
            [*before.samples_more, *_rows(more)][: self.samples],
            [*before.samples_less, *_rows(less)][: self.samples],
        )


def _rows(found: list[_Open]) -> Iterator[Row]:
    return (o.row for o in found)
