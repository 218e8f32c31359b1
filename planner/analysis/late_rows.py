"""Late rows that go to a table: sinks of their own beside that of the statement."""

from __future__ import annotations

from collections.abc import Iterator

from planner.analysis.context import AnalysisContext
from planner.analysis.deliver import deliver
from planner.logical import LateRows, LogicalPlan, Project, Sink, Stateful


def late_row_sinks(sink: Sink, context: AnalysisContext) -> Iterator[Sink]:
    """The sinks that write the late rows of an optimised statement to their table, one for each
    input of each operation that drops some. SqlError where the table does not take the rows.

    Comes after all passes: the operations are those of the statement itself, so that they run
    once."""
    for node in _routing(sink):
        assert node.late is not None
        for port, items in enumerate(node.late.items):
            rows = Project(LateRows(node, port), items)
            yield deliver(Sink(rows, node.late.table, sink.job, sink.place), context)


def _routing(plan: LogicalPlan) -> Iterator[Stateful]:
    """The operations whose late rows go to a table, each once: equal ones are merged into one."""
    waiting, seen = [plan], set[str]()
    while waiting:
        node = waiting.pop()
        if node.digest in seen:
            continue
        seen.add(node.digest)
        waiting += node.inputs
        if isinstance(node, Stateful) and node.late is not None:
            yield node
