"""A change of a graph, made ready beside the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from planner.graph.merge import Graph
from sqlengine.connectors.base import Sink
from sqlengine.executors.embedded import PreparedPlan
from sqlengine.executors.pending_commits import RecoveredCommit
from sqlengine.executors.sources import RunningSource


@dataclass(frozen=True)
class RestoredJob:
    """What a job brings from another graph, by the nodes of this one: `tables` by their full names,
    of nodes `born` with the change; `positions` of all sources of the job by their scans, those
    that are `ended`, constant rows that it was `given`; `handover`: where it is written down;
    `owed`: rows that the graph which it left could not write, by names of their own."""

    handover: str
    tables: Mapping[str, pa.Table]
    created_at_version: Mapping[str, int]
    positions: Mapping[str, dict[str, int]]
    ended: frozenset[str]
    emitted_values: frozenset[str]
    pending_commits: Mapping[str, RecoveredCommit]


@dataclass(frozen=True)
class GraphChange:
    """A change made ready beside the stream: the new graph, its operators, the sources and sinks
    that come with it (open already), the job versions (0: removed), jobs that take up the state of
    another name (new to old), new nodes that take up the tables of another node (new to old), and
    what the one job brings that comes from another graph. `starts`: where sources begin, by shard,
    if that is decided elsewhere; `moved`: the jobs that go take along what their sinks have no
    space for."""

    graph: Graph
    prepared: PreparedPlan
    jobs: Mapping[str, int]
    sources: Mapping[str, RunningSource]
    sinks: Mapping[str, Sink]
    renamed: Mapping[str, str]
    inherited: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    restored: RestoredJob | None = None
    moved: bool = False

    def abandon(self) -> None:
        """Closes what was opened for a change that does not come."""
        for source in self.sources.values():
            source.source.close()
        for sink in self.sinks.values():
            sink.close()
        for owed in self.restored.pending_commits.values() if self.restored is not None else ():
            owed.close()
