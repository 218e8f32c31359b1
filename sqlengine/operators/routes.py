"""Routes of rows to sinks: what is computed for several of them together, by template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sqlengine.batch import Batch, IntArray
from sqlengine.operators.templates import PlacedRoute, Template, literal_columns
from udf.vector import Errors


class RouteTable:
    """Routes by number, given in the order of an event's rows; `jobs`: the job of each;
    `counted`: which of them count for it, None for all."""

    def __init__(self, routes: Sequence[PlacedRoute]) -> None:
        self.placed = routes
        self.jobs = tuple(p.route.job for p in self.placed)
        counted = np.array([p.route.counted for p in self.placed], np.bool_)
        self.counted = None if counted.all() else counted
        by_shape: dict[str, list[int]] = {}
        for number, placed in enumerate(self.placed):
            by_shape.setdefault(placed.template.shape, []).append(number)
        self._members = list(by_shape.values())
        # By route, the number of its template, and its place among the routes of that.
        self._template_of = np.zeros(len(self.placed), np.int64)
        self._place = np.arange(len(self.placed))
        for number, members in enumerate(self._members if len(self._members) > 1 else ()):
            self._template_of[members] = number
            self._place[members] = np.arange(len(members))
        # By template: made once for all batches that need it.
        self._literals: dict[int, list[pa.Array]] = {}

    def by_template(self, routes: IntArray) -> Iterator[tuple[int, IntArray]]:
        """Yields the templates of these routes, in the order in which they come, with the places of
        those that have it."""
        if len(self._members) == 1:
            yield 0, np.arange(len(routes))
            return
        of = self._template_of[routes]
        for number in np.unique(of).tolist():
            yield number, np.flatnonzero(of == number)

    def template(self, number: int) -> Template:
        """Returns a template by its number."""
        return self.placed[self._members[number][0]].template

    def build(
        self, number: int, batch: Batch, rows: IntArray, routes: IntArray
    ) -> tuple[Batch, Errors | None]:
        """Returns one output row for each pair of an input row and a route of one template."""
        if number not in self._literals:
            placed = [self.placed[m] for m in self._members[number]]
            self._literals[number] = literal_columns(placed)
        return self.template(number).build(batch, rows, self._literals[number], self._place[routes])
