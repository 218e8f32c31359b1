"""The interface of a graph as the engine sees it, wherever its rows are processed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Protocol, TypeVar

from parser.errors import SqlError
from planner.graph.merge import Graph
from planner.logical import Scan, Sink
from sqlengine.connectors.base import Source
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.job_counts import JobCounts
from sqlengine.executors.measures.job_costs import JobCost
from sqlengine.executors.runner import GraphRunner
from sqlengine.graphs.event_times import EventTimes
from sqlengine.graphs.loop import GraphLoop
from sqlengine.graphs.takeover import Takeover
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.checkpoints import Checkpoints

T = TypeVar("T")


class ManagedGraph(Protocol):
    """A graph that the engine plans, changes, observes and closes.

    `RunningGraph` processes its rows in this process; `DistributedGraph` (`distributed`) leads
    subtasks in other processes, and its runner holds the plan without rows.
    """

    distributed: ClassVar[bool]
    name: str

    @property
    def loop(self) -> GraphLoop:
        """The loop that steps the graph."""

    @property
    def lost_jobs(self) -> Mapping[str, SqlError]:
        """The jobs that ran before and could not be recovered, with the reason."""

    @property
    def executor(self) -> EmbeddedExecutor:
        """The operators of the current version of the graph."""

    @property
    def runner(self) -> GraphRunner:
        """The jobs, sources, sinks and progress of the current version of the graph."""

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of `runner`."""

    def change(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        renamed: Mapping[str, str],
    ) -> GraphChange:
        """Prepares a change of jobs: those of version 0 are removed, the others are added or
        replaced with their plans."""

    def plan_change(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        renamed: Mapping[str, str],
    ) -> tuple[GraphChange, Takeover]:
        """Prepares a change as `change` does, and also returns what it does to the jobs' state."""

    def switch(self, change: GraphChange, first: Callable[[], None] | None = None) -> None:
        """Applies a prepared change between two epochs, after calling `first` there.

        Abandons the change and raises the error if it cannot be applied."""

    def call(self, work: Callable[[], T], timeout: float | None = 60) -> T:
        """Runs `work` in the graph's thread between two epochs (`timeout` in s)."""

    def counts(self) -> dict[str, JobCounts]:
        """Returns what each job has done in this graph, since the graph was created."""

    def costs_by_job(self) -> dict[str, JobCost]:
        """Returns what each job has cost since the graph was opened; nothing of graphs that run in
        other processes."""

    def event_times(self) -> EventTimes:
        """Returns watermarks and what waits for them, at most about a second old; older while the
        graph works on one step."""

    def state_by_job(self) -> Mapping[str, int]:
        """Returns the bytes of state of each job that has any, as old as event times are; nothing
        of graphs that run in other processes."""

    def why_unsupported(self, plans: Iterable[Sink]) -> str | None:
        """Returns why the statements cannot run in this graph; None if they can."""

    def read_positions(self, scan: str) -> Mapping[str, int] | None:
        """Returns the next offset of a source by shard; None if the graph does not read it."""

    def has_passed_start(self, scan: Scan, source: Source) -> bool:
        """True if the graph has read past the offsets at which a new job would start; else it does
        not until `release`."""

    def release(self) -> None:
        """Reads on where `has_passed_start` has held a source."""

    def needed_migrations(self) -> set[str]:
        """Returns the names of the stored migrations that a recovery would read again."""

    def close(self) -> None:
        """Ends the running epoch and writes a checkpoint."""
