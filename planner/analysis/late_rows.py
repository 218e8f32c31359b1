"""Late rows that go to a table: a statement of its own beside the one that drops them."""

from __future__ import annotations

from collections.abc import Iterator

from planner.logical import LateRows, LogicalPlan, Project, Sink, Stateful


def late_sinks(plan: Sink) -> Iterator[Sink]:
    """What writes the late rows of a statement to their table, for each input of each operation
    that drops some. Comes after all passes: the operations are those of the statement itself."""
    for node in _telling(plan):
        assert node.late is not None
        for port, items in enumerate(node.late.items):
            yield Sink(Project(LateRows(node, port), items), node.late.table, plan.job, plan.place)


def _telling(plan: LogicalPlan) -> Iterator[Stateful]:
    waiting, seen = [plan], set[str]()
    while waiting:
        node = waiting.pop()
        if node.digest in seen:
            continue
        seen.add(node.digest)
        waiting += node.inputs
        if isinstance(node, Stateful) and node.late is not None:
            yield node
