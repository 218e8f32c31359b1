"""The snapshot of jobs that move from one graph to another.

It holds their state, the positions of their sources, and which of their constant rows were emitted.
Operations are identified by the digest of what they compute and not by their nodes: the same
operation is another node in another graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from planner.graph.distribution import INCOMING
from planner.graph.merge import Graph, GraphNode
from planner.graph.physical import lower
from planner.logical import AssignWatermark, LookupJoin, Scan, Values
from planner.wording import named
from sqlengine.executors.graph_change import RestoredJob
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.sinks.pending_commits import PendingCommit
from sqlengine.executors.sources import RunningSource
from sqlengine.operators.joins.mapped import VERSION
from sqlengine.operators.ports import WATERMARKS
from sqlengine.state.table import BUCKET, SEQUENCE, KeyedTable

# The column of a file version that has its lines.
LINE: Final = "line"
# Columns whose values depend on the clock or the order of arrival in one graph.
_LOCAL_COLUMNS: Final = frozenset({SEQUENCE, BUCKET, "active"})

# A table of an operation: the operation's digest, and the name of the table.
TableKey = tuple[str, str]


@dataclass(frozen=True)
class SourcePosition:
    """The next offset of a source by shard, whether the source has ended, and what it has to say of
    its shards (`Source.marks`)."""

    positions: dict[str, int]
    ended: bool
    marks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobSnapshot:
    """State and positions of jobs (with their versions) after an epoch of the graph they leave.

    `sources`: by the digest of the scan; `emitted_values`: the digests of constant rows that were
    emitted; `tables`: the state; `pending_commits`: output for which their sinks had no space, in
    the order of epochs; `file_versions`: by the digest of the scan, the lines last read of a file
    in which rows are looked up, as each graph numbers versions in its own way.

    `first_windows`: in the share of a subtask, by the digest of an operation, the instant (ms) at
    which the first window fires that it has in any subtask."""

    jobs: dict[str, int]
    graph: str
    epoch: int
    sources: dict[str, SourcePosition]
    emitted_values: list[str]
    tables: Mapping[TableKey, pa.Table]
    pending_commits: tuple[PendingCommit, ...] = ()
    file_versions: Mapping[str, pa.Table] = field(default_factory=dict)
    first_windows: Mapping[str, int] | None = None

    @property
    def job(self) -> str:
        """The name of the job, if there is exactly one."""
        (name,) = self.jobs
        return name

    def nodes(self, graph: Graph) -> list[GraphNode]:
        """Returns the nodes of the jobs in a graph that has them, inputs first."""
        return nodes_of(graph, self.jobs)


def nodes_of(graph: Graph, jobs: Iterable[str]) -> list[GraphNode]:
    """Returns the nodes of some jobs, each once, inputs first."""
    return [
        graph.nodes[name]
        for name in dict.fromkeys(name for job in jobs for name in graph.jobs[job])
    ]


def groups_of(graph: Graph, jobs: Iterable[str]) -> Iterator[list[str]]:
    """Yields jobs whose state fits into one snapshot, which names it by the digest of the
    operation: jobs with equal operations must share the node."""
    left = list(jobs)
    while left:
        together: list[str] = []
        apart: list[str] = []
        known: dict[str, str] = {}
        for job in left:
            nodes = {n.plan.digest: n.id for n in nodes_of(graph, [job])}
            if all(known.get(digest, name) == name for digest, name in nodes.items()):
                together.append(job)
                known |= nodes
            else:
                apart.append(job)
        yield together
        left = apart


def capture(runner: GraphRunner, *jobs: str) -> JobSnapshot:
    """Copies the present state of jobs into a snapshot (graph thread).

    TryAgain if output that other jobs share has no space in a sink."""
    # First, as it completes the last epoch: the state below belongs to that epoch.
    pending_commits = runner.pending_commits(jobs)
    nodes = nodes_of(runner.graph, jobs)
    scans = {n.plan.digest: runner.inputs.running[n.id] for n in nodes if isinstance(n.plan, Scan)}
    values = [n for n in nodes if isinstance(n.plan, Values)]
    return JobSnapshot(
        jobs={job: runner.jobs[job] for job in jobs},
        graph=runner.name,
        epoch=runner.epoch,
        sources={
            digest: SourcePosition(dict(s.positions), s.ended, dict(s.source.marks()))
            for digest, s in scans.items()
        },
        emitted_values=[n.plan.digest for n in values if n.id not in runner.inputs.unstarted],
        tables={
            (node.plan.digest, name): table.dump()
            for node in nodes
            for name, table in runner.executor.tables_of(node.id).items()
        },
        pending_commits=pending_commits,
        file_versions={
            digest: _file_version(s) for digest, s in scans.items() if s.full_cache is not None
        },
    )


def _file_version(source: RunningSource) -> pa.Table:
    """Returns the lines of a file that is looked up, with the hidden columns of a state table."""
    assert source.full_cache is not None
    (at,) = source.positions.values()
    lines = source.full_cache.lines_at(at)
    # Lines have neither a key nor an order of arrival: the hidden columns are zeros.
    zeros = pa.array([0] * len(lines))
    return pa.table({LINE: lines, SEQUENCE: zeros, BUCKET: zeros.cast(pa.uint8())})


def bind(
    snapshot: JobSnapshot,
    graph: Graph,
    runner: GraphRunner,
    migration: str,
    exchange_times: Mapping[str, pa.Table] = MappingProxyType({}),
) -> RestoredJob:
    """Assigns the state in a snapshot to the nodes that the jobs have in `graph`.

    `graph`: that to which the runner is to switch. Nodes that run already keep their own state.
    `exchange_times`: tables of the exchanges in the plan of a subtask, by node."""
    nodes = snapshot.nodes(graph)
    # Shared nodes keep the state that they have, which `obstacles` has compared with the snapshot.
    new = {n.plan.digest: n.id for n in nodes if not runner.executor.runs(n.id)}
    lookups = (n.plan for n in nodes if isinstance(n.plan, LookupJoin))
    mapped = {plan.digest for plan in lookups if plan.shares_table}
    tables = {
        # Each graph has names of its own for versions: it tells the look-up its own.
        f"{new[digest]}@{graph.version}/{name}": rows.slice(0, 0)
        if name == VERSION and digest in mapped
        else rows
        for (digest, name), rows in snapshot.tables.items()
        if digest in new
    }
    tables |= {f"{node}@{graph.version}/{WATERMARKS}": t for node, t in exchange_times.items()}
    stateful = [new[digest] for digest, _ in snapshot.tables if digest in new]
    scans = {n.id: snapshot.sources[n.plan.digest] for n in nodes if isinstance(n.plan, Scan)}
    pending = snapshot.pending_commits
    return RestoredJob(
        migration,
        tables,
        created_at_version=dict.fromkeys([*stateful, *exchange_times], graph.version),
        positions={name: source.positions for name, source in scans.items()},
        marks={name: source.marks for name, source in scans.items()},
        ended=frozenset(name for name, source in scans.items() if source.ended),
        emitted_values=frozenset(_emitted(nodes, snapshot.emitted_values)),
        pending_commits=runner.outputs.opener.open_pending(lower(graph), pending)
        if pending
        else {},
    )


def _emitted(nodes: Iterable[GraphNode], digests: Iterable[str]) -> Iterator[str]:
    """Yields the ids of constant rows that were emitted."""
    emitted = set(digests)
    return (n.id for n in nodes if isinstance(n.plan, Values) and n.plan.digest in emitted)


def common_positions(graph: Graph, runner: GraphRunner, job: str) -> dict[str, dict[str, int]]:
    """Returns the offsets, by scan and shard, of the sources that both the job of `graph` and the
    runner read. Files that are looked up are left out: each graph counts their versions itself."""
    scans = [(n, runner.inputs.running[n]) for n in graph.jobs[job] if n in runner.inputs.running]
    return {name: dict(source.positions) for name, source in scans if source.full_cache is None}


def obstacles(snapshot: JobSnapshot, graph: Graph, runner: GraphRunner) -> Iterator[str]:
    """Yields why the jobs cannot continue in the runner between two epochs.

    Sources and watermarks that they share with other jobs must be at the same position. `graph` as
    for `bind`. A subtask compares the watermarks of its shards alone: the combined one includes
    other subtasks."""
    distributed = INCOMING in runner.inputs.running
    for node in snapshot.nodes(graph):
        digest = node.plan.digest
        if node.id in runner.inputs.running:
            source, position = runner.inputs.running[node.id], snapshot.sources[digest]
            if not _same_position(source, position, snapshot.file_versions.get(digest)):
                yield f"'{named(node.plan)}' is read to another position"
        for name, table in runner.executor.tables_of(node.id).items():
            rows = snapshot.tables.get((digest, name))
            # Tasks of Spark keep no time for jobs that need none: any will do.
            if isinstance(node.plan, AssignWatermark) and rows is not None and not len(rows):
                continue
            if not _same_rows(table, rows, distributed):
                yield f"'{named(node.plan)}' has come to another time"


def _same_position(
    source: RunningSource, position: SourcePosition, file_version: pa.Table | None
) -> bool:
    """True if a shared source is at the position of the snapshot."""
    if source.full_cache is None or file_version is None:
        return (source.positions, source.ended) == (position.positions, position.ended)
    # The same lines in any order are the same version of a file.
    lines = _file_version(source)[LINE].sort()
    return bool(lines == file_version[LINE].sort()) and source.ended == position.ended


def restore_file_versions(
    snapshot: JobSnapshot, sources: Mapping[str, RunningSource], runner: GraphRunner
) -> dict[str, dict[str, int]] | None:
    """Returns the start offsets, by scan and shard, of new sources that look rows up in files.

    They start after the version of the snapshot, which becomes the latest one here, too. None if
    other jobs of the runner look up in another version of the file."""
    shared = {
        s.full_cache.topic for s in runner.inputs.running.values() if s.full_cache is not None
    }
    starts = {}
    for name, source in sources.items():
        version = snapshot.file_versions.get(source.scan.digest)
        if source.full_cache is not None and version is not None:
            lines = version[LINE].combine_chunks()
            at = source.full_cache.restore(lines, exclusive=source.full_cache.topic not in shared)
            if at is None:
                return None
            starts[name] = dict.fromkeys(source.source.shards(), at)
    return starts


def _same_rows(table: KeyedTable, rows: pa.Table | None, distributed: bool) -> bool:
    """True if a shared table has the rows of the snapshot, but for columns that depend on the
    clock of its graph."""
    if rows is None:
        return False
    count = len(table)
    if distributed:
        if "shard" not in rows.column_names:
            return True
        # The row without a shard is the combined watermark, which depends on the other subtasks.
        rows = rows.filter(pc.is_valid(rows["shard"]))
        count -= table.array("shard", table.live()).null_count
    return count == rows.num_rows and all(
        _contains(table, batch) for batch in rows.combine_chunks().to_batches()
    )


def _contains(table: KeyedTable, rows: pa.RecordBatch) -> bool:
    slots, _ = table.slots_for(
        [rows.column(n) for n in table.keys.names], rows.num_rows, insert=False
    )
    names = [n for n in table.values.names if n not in _LOCAL_COLUMNS]
    return bool((slots >= 0).all()) and all(
        _equal(table.array(n, slots), rows.column(n)) for n in names
    )


def _equal(left: pa.Array, right: pa.Array) -> bool:
    """True if two arrays are equal, with NaN equal to NaN, which it is not for Arrow."""
    return bool(left.equals(right)) or repr(left.to_pylist()) == repr(right.to_pylist())


def with_digests(snapshot: JobSnapshot, names: Mapping[str, str]) -> JobSnapshot:
    """Returns the snapshot with other digests of its operations (old to new)."""
    tables = {
        (names.get(digest, digest), name): rows for (digest, name), rows in snapshot.tables.items()
    }
    return replace(snapshot, tables=tables)
