"""The window that the rows of a node are in, and the columns that hold its bounds.

Flink's planner calls it RelWindowProperties (FlinkRelMdWindowProperties): the operation that puts
rows into windows makes them, and the operations above forward them or do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from planner.logical.window_specs import Window


class WindowBound(IntEnum):
    """A column of a window: its start, its end, or its last instant (the window time). The number
    is its place among the names of the window's columns."""

    START = 0
    END = 1
    TIME = 2


@dataclass(frozen=True)
class WindowProperties:
    """The window of the rows of a node, and the columns that are bounds of it; a bound may be in
    several columns, or in none."""

    window: Window
    bounds: Mapping[str, WindowBound]

    def renamed(self, sources: Mapping[str, str]) -> WindowProperties:
        """Returns the properties for a node whose columns hold those of its input that `sources`
        names."""
        bounds = {n: self.bounds[of] for n, of in sources.items() if of in self.bounds}
        return WindowProperties(self.window, bounds)

    def first_bounds(self, columns: Iterable[str]) -> dict[WindowBound, str]:
        """Returns, for each bound, the first of the columns that holds it."""
        first: dict[WindowBound, str] = {}
        for column in columns:
            if column in self.bounds:
                first.setdefault(self.bounds[column], column)
        return first

    def start_and_end(self, columns: Iterable[str]) -> tuple[str, str] | None:
        """The first columns that are the start and the end; None where one of the two is not among
        them."""
        first = self.first_bounds(columns)
        if WindowBound.START in first and WindowBound.END in first:
            return first[WindowBound.START], first[WindowBound.END]
        return None
