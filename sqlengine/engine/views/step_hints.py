"""Hints for jobs whose graph is in a long step."""

from __future__ import annotations

from collections.abc import Iterable

from sqlengine.executors.steps.guard import StepView
from sqlengine.graphs.managed import ManagedGraph


def step_hints(graphs: Iterable[ManagedGraph], steps: Iterable[StepView]) -> dict[str, str]:
    """Returns the hint of each job that is in a long step, or waits for one of its graph."""
    by_graph = {graph.name: graph for graph in graphs}
    waiting: dict[str, str] = {}
    running: dict[str, str] = {}
    for step in (step for step in steps if step.graph in by_graph):
        own = f"in one step for {step.seconds:.0f} s: {step.activity}"
        jobs = list(by_graph[step.graph].runner.jobs)
        waits = dict.fromkeys(jobs, f"waits: {step}" if step.jobs else own)
        waiting = waits | waiting  # of several parts, the one that takes longest
        running = dict.fromkeys(step.jobs.intersection(jobs), own) | running
    return waiting | running
