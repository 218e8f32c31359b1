"""What jobs take along from one graph to another: its tables, how far its sources are read, and
which of its constant rows have come. Everything is known by what it computes and not by its node:
nodes have other names in another graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from planner.graph.division import INCOMING
from planner.graph.merge import Graph, GraphNode
from planner.graph.physical import lower
from planner.graph.takeover import name_of
from planner.logical import Scan, Values
from sqlengine.executors.graph_change import RestoredJob
from sqlengine.executors.pending_commits import PendingCommit
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.sources import RunningSource
from sqlengine.operators.ports import WATERMARKS
from sqlengine.state.table import BUCKET, SEQUENCE, KeyedTable

# The column of versions that has the lines.
LINE: Final = "line"
# Columns that say when something came, by the clock of the graph that it came to.
_BY_THE_CLOCK = frozenset({SEQUENCE, BUCKET, "active"})


@dataclass(frozen=True)
class SourceAt:
    """How far a source is read, by shard, and whether that is its end."""

    positions: dict[str, int]
    ended: bool


@dataclass(frozen=True)
class JobSnapshot:
    """Those of jobs (with their versions) behind an epoch of the graph that they leave. `sources`
    by the digests of their scans; `given`: the digests of constant rows that have come; `tables` by
    the digest of their operation and their name; `unsent`: what its sinks had no space for, in the
    order of epochs; `versions`: the lines that were read of files in which rows are looked up, by
    the digests of their scans: each graph counts them in its own way."""

    jobs: dict[str, int]
    graph: str
    epoch: int
    sources: dict[str, SourceAt]
    given: list[str]
    tables: Mapping[tuple[str, str], pa.Table]
    unsent: tuple[PendingCommit, ...] = ()
    versions: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def job(self) -> str:
        """Of one job: its name."""
        (name,) = self.jobs
        return name

    def nodes(self, graph: Graph) -> list[GraphNode]:
        """Those of the jobs in a graph that has them, inputs before those that read them."""
        return nodes_of(graph, self.jobs)


def nodes_of(graph: Graph, jobs: Iterable[str]) -> list[GraphNode]:
    """The nodes of some jobs, each once, inputs before those that read them."""
    return [
        graph.nodes[name]
        for name in dict.fromkeys(name for job in jobs for name in graph.jobs[job])
    ]


def snapshot(runner: GraphRunner, *jobs: str) -> JobSnapshot:
    """What jobs would take along now, as copies (in the graph's thread). TryAgain where rows cannot
    leave, and are not theirs alone."""
    unsent = runner.pending_commits(jobs)
    nodes = nodes_of(runner.graph, jobs)
    scans = {n.plan.digest: runner.inputs.running[n.id] for n in nodes if isinstance(n.plan, Scan)}
    unstarted = runner.inputs.unstarted
    return JobSnapshot(
        {job: runner.jobs[job] for job in jobs},
        runner.name,
        runner.epoch,
        {digest: SourceAt(dict(s.positions), s.ended) for digest, s in scans.items()},
        [n.plan.digest for n in nodes if isinstance(n.plan, Values) and n.id not in unstarted],
        {
            (n.plan.digest, name): t.dump()
            for n in nodes
            for name, t in runner.executor.tables_of(n.id).items()
        },
        unsent,
        {digest: _version(s) for digest, s in scans.items() if s.full_cache is not None},
    )


def _version(source: RunningSource) -> pa.Table:
    """As a table of state, of which it has the hidden columns."""
    assert source.full_cache is not None
    (at,) = source.positions.values()
    lines = source.full_cache.lines_at(at)
    nothing = pa.array([0] * len(lines))
    return pa.table({LINE: lines, SEQUENCE: nothing, BUCKET: nothing.cast(pa.uint8())})


def bind(
    belongings: JobSnapshot,
    graph: Graph,
    runner: GraphRunner,
    handover: str,
    ends: Mapping[str, pa.Table] = MappingProxyType({}),
) -> RestoredJob:
    """The belongings for the jobs' nodes in `graph`: that to which the runner is to change, which
    has the jobs. `ends`: tables of nodes that only the plan of a part has."""
    mine = belongings.nodes(graph)
    fresh = {n.plan.digest: n.id for n in mine if n.id not in runner.executor.running}
    held = {key: rows for key, rows in belongings.tables.items() if key[0] in fresh}
    scans = {n.id: belongings.sources[n.plan.digest] for n in mine if isinstance(n.plan, Scan)}
    return RestoredJob(
        handover,
        {f"{fresh[digest]}@{graph.version}/{name}": rows for (digest, name), rows in held.items()}
        | {f"{end}@{graph.version}/{WATERMARKS}": rows for end, rows in ends.items()},
        dict.fromkeys([*(fresh[digest] for digest, _ in held), *ends], graph.version),
        {name: source.positions for name, source in scans.items()},
        frozenset(name for name, source in scans.items() if source.ended),
        frozenset(
            n.id for n in mine if isinstance(n.plan, Values) and n.plan.digest in belongings.given
        ),
        runner.outputs.opener.open_pending(lower(graph), belongings.unsent)
        if belongings.unsent
        else {},
    )


def common_positions(graph: Graph, runner: GraphRunner, job: str) -> dict[str, dict[str, int]]:
    """How far the sources are read, by scan and shard, that a job of `graph` reads and the runner,
    too: those of which all graphs count alike."""
    scans = [(n, runner.inputs.running[n]) for n in graph.jobs[job] if n in runner.inputs.running]
    return {name: dict(source.positions) for name, source in scans if source.full_cache is None}


def obstacles(belongings: JobSnapshot, graph: Graph, runner: GraphRunner) -> Iterator[str]:
    """Why the jobs cannot go on here between two epochs: what they share with others must stand
    where they stand. `graph` as for `bind`. In a part time is told of each shard; how far all of
    them are, others know, too."""
    alone = INCOMING not in runner.inputs.running
    for node in belongings.nodes(graph):
        if node.id in runner.inputs.running:
            source, mine = runner.inputs.running[node.id], belongings.sources[node.plan.digest]
            if not _stands(source, mine, belongings.versions.get(node.plan.digest)):
                yield f"'{name_of(node.plan)}' is read to another position"
        for name, table in runner.executor.tables_of(node.id).items():
            if not _same(table, belongings.tables.get((node.plan.digest, name)), alone):
                yield f"'{name_of(node.plan)}' has come to another time"


def _stands(source: RunningSource, mine: SourceAt, version: pa.Table | None) -> bool:
    """Whether a source that jobs share is read as far as the job has read it."""
    if source.full_cache is None or version is None:
        return (source.positions, source.ended) == (mine.positions, mine.ended)
    return (
        bool(_version(source)[LINE].sort() == version[LINE].sort()) and source.ended == mine.ended
    )


def restore_job(
    belongings: JobSnapshot, sources: Mapping[str, RunningSource], runner: GraphRunner
) -> dict[str, dict[str, int]] | None:
    """Where new `sources` of the runner go on that are files in which rows are looked up, by scan
    and shard: behind the version that the jobs have, which is the last one here then, too. None
    where others here look up in another one."""
    shared = {
        s.full_cache.topic for s in runner.inputs.running.values() if s.full_cache is not None
    }
    starts = {}
    for name, source in sources.items():
        version = belongings.versions.get(source.scan.digest)
        if source.full_cache is not None and version is not None:
            lines = version[LINE].combine_chunks()
            at = source.full_cache.restore(lines, exclusive=source.full_cache.topic not in shared)
            if at is None:
                return None
            starts[name] = dict.fromkeys(source.source.shards(), at)
    return starts


def _same(table: KeyedTable, rows: pa.Table | None, alone: bool) -> bool:
    """Whether a table that jobs share holds what the job brings. When a shard spoke last each graph
    knows by its own clock: that is no difference."""
    if rows is None:
        return False
    count = len(table)
    if not alone:
        if "shard" not in rows.column_names:
            return True
        rows = rows.filter(pc.is_valid(rows["shard"]))
        count -= table.array("shard", table.live()).null_count
    return count == rows.num_rows and all(
        _holds(table, batch) for batch in rows.combine_chunks().to_batches()
    )


def _holds(table: KeyedTable, rows: pa.RecordBatch) -> bool:
    slots, _ = table.slots_for(
        [rows.column(n) for n in table.keys.names], rows.num_rows, insert=False
    )
    names = [n for n in table.values.names if n not in _BY_THE_CLOCK]
    return bool((slots >= 0).all()) and all(
        _equal(table.array(n, slots), rows.column(n)) for n in names
    )


def _equal(here: pa.Array, there: pa.Array) -> bool:
    """To Arrow NaN is no NaN."""
    return bool(here.equals(there)) or repr(here.to_pylist()) == repr(there.to_pylist())


def renamed(belongings: JobSnapshot, names: Mapping[str, str]) -> JobSnapshot:
    """The same with other digests of its operations."""
    tables = {
        (names.get(digest, digest), name): rows
        for (digest, name), rows in belongings.tables.items()
    }
    return replace(belongings, tables=tables)
