"""Hints for jobs whose tables do not answer, or take no rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sqlengine.graphs.managed import ManagedGraph

# A source that answers within so many seconds is worth no word.
_SILENT_S: Final = 1.0


def table_hints(graphs: Iterable[ManagedGraph]) -> dict[str, str]:
    """Returns the hint of each job that waits for one of its tables. Any thread."""
    return {job: hint for graph in graphs for jobs, hint in _waits(graph) for job in jobs}


def _waits(graph: ManagedGraph) -> Iterator[tuple[frozenset[str], str]]:
    """Yields the jobs that wait for a table, with what they wait for."""
    runner = graph.runner
    plan = runner.executor.plan
    for name, running in list(runner.inputs.running.items()):
        seconds = running.silent_s
        if seconds >= _SILENT_S and name in plan.nodes:
            table = running.scan.table.display
            yield plan.nodes[name].jobs, f"table '{table}' has not answered for {seconds:.0f} s"
        health = running.source.health
        if health is not None and health.trouble is not None and name in plan.nodes:
            table = running.scan.table.display
            yield plan.nodes[name].jobs, f"table '{table}' gives no rows: {health.trouble}"
    for name, error in runner.outputs.uncommitted.sinks_without_space().items():
        if name in plan.sinks:
            yield plan.sinks[name].jobs, f"its rows wait: {error.reason}"
