"""A prepared change of a graph, from when it is planned to when the graph switches to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from planner.graph.merge import Graph
from sqlengine.connectors.base import Sink
from sqlengine.executors.prepared_plan import PreparedPlan
from sqlengine.executors.sinks.pending_commits import RecoveredCommit
from sqlengine.executors.sources import RunningSource


@dataclass(frozen=True)
class RestoredJob:
    """A job's state that comes from another graph, by the nodes of this one.

    `handover`: the migration that stores it. `tables` by full name, and `created_at_version`: the
    version of the change, by node. `positions` of the job's sources by scan, what these have to say
    of their shards (`marks`), and those that have `ended`. `emitted_values`: VALUES whose rows are
    out. `pending_commits`: output that the other graph could not commit, by names of their own."""

    handover: str
    tables: Mapping[str, pa.Table]
    created_at_version: Mapping[str, int]
    positions: Mapping[str, dict[str, int]]
    marks: Mapping[str, Mapping[str, str]]
    ended: frozenset[str]
    emitted_values: frozenset[str]
    pending_commits: Mapping[str, RecoveredCommit]


@dataclass(frozen=True)
class GraphChange:
    """A change of a graph, prepared beside the stream; `abandon` it if it is not applied.

    `prepared`: the new plan with its new operators. `jobs`: the version of each changed job, 0 if
    it is removed. `sources` and `sinks` are new, and open. `renamed`: jobs that take over the state
    of another name, and `inherited`: nodes that take over the tables of another node, new to old.
    `continued`: new sources that go on where an old one is that reads the same records, new to old.
    `starts`: offsets at which new sources begin, if given, by scan and shard. `restored`: the state
    of the job that comes from another graph. `moved`: removed jobs take their uncommitted output
    along. `last_epochs`: those of this graph that new sinks know; None if they are asked later."""

    graph: Graph
    prepared: PreparedPlan
    jobs: Mapping[str, int]
    sources: Mapping[str, RunningSource]
    sinks: Mapping[str, Sink]
    renamed: Mapping[str, str]
    inherited: Mapping[str, str] = field(default_factory=dict)
    continued: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    restored: RestoredJob | None = None
    moved: bool = False
    last_epochs: Mapping[str, int] | None = None

    @property
    def marks(self) -> Mapping[str, Mapping[str, str]]:
        """The words of restored sources on their shards (`RestoredJob.marks`)."""
        return {} if self.restored is None else self.restored.marks

    def check_starts(self) -> None:
        """Raises SqlError where one of the new sources cannot begin."""
        for name, source in self.sources.items():
            if name not in self.continued and name not in self.starts:
                source.source.check_start()

    def abandon(self) -> None:
        """Closes the sources and sinks of a change that is not applied."""
        for source in self.sources.values():
            source.source.close()
        for sink in self.sinks.values():
            sink.close()
        for owed in self.restored.pending_commits.values() if self.restored is not None else ():
            owed.close()
