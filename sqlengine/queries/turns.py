"""Turns of planning: ad-hoc statements are planned a few at a time, each for so long at most.

Planning holds the interpreter's lock, which the threads of jobs need, too: what many clients plan
at once would leave them little of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from parser.errors import PlanError
from parser.limits import present
from sqlengine.access.shares import Shares, share_of
from sqlengine.queries.query import TURN_S, Query, QueryEnded, TooManyQueries
from sqlengine.session.session import Planning
from sqlengine.system.deadlines import Overdue, within

T = TypeVar("T")
# Statements of a server that are planned at once.
_AT_ONCE: Final = 2
# How soon a thread looks again whether it is its turn, at first.
_SOON_S: Final = 0.001


class PlanningTurns:
    """The turns of a server. Any thread."""

    def __init__(self) -> None:
        self._turns = Shares(_AT_ONCE)

    def of(self, query: Query) -> Planning:
        """Returns what plans a query: PlanError after 'planning-time', QueryEnded once its client
        has ended it, TooManyQueries where its turn has not come in that time."""

        def planning(work: Callable[[], T]) -> T:
            seconds = present().planning_time
            with self._turn(query, seconds):
                try:
                    return within(seconds, work, lambda: query.abandoned)
                except Overdue:
                    raise _ended(query, seconds) from None

        return planning

    @contextmanager
    def _turn(self, query: Query, patience_s: float) -> Iterator[None]:
        until, pause_s = time.monotonic() + patience_s, _SOON_S
        while not self._turns.take(query.by):
            if query.abandoned:
                query.check()  # says why, unless the client has stopped it
                raise QueryEnded("the query was stopped")
            if time.monotonic() >= until:
                raise self._no_turn(query)
            time.sleep(pause_s)
            pause_s = min(TURN_S, 2 * pause_s)
        try:
            yield
        finally:
            self._turns.leave(query.by)

    def _no_turn(self, query: Query) -> TooManyQueries:
        share = share_of(self._turns.places, query.by)
        return TooManyQueries(
            f"{self._turns.taken()} other statements are being planned",
            detail=f"{share} of {query.by.shown} are at once, and each may take"
            f" {present().planning_time} s ('planning-time')",
            hint="send it again; simpler statements are planned sooner",
        )


def _ended(query: Query, seconds: float) -> PlanError | QueryEnded:
    if query.abandoned:
        query.check()  # says why, unless the client has stopped it
        return QueryEnded("the query was stopped while it was planned")
    return PlanError(
        f"planning took more than {seconds:g} s ('planning-time')",
        hint="simpler statements, or several; 'sql serve --limit planning-time=…' allows more",
    )
