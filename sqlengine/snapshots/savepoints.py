"""Makes savepoints of running jobs, and the first checkpoint of a graph from a savepoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

from parser.errors import JobError
from planner.graph.merge import Graph, merge
from planner.graph.physical import PhysicalNode, lower
from planner.graph.rule_sets import RulesPlan
from planner.graph.takeover import Decision, Operation, Outcome, Policy, decide, operation_of
from planner.logical import LogicalPlan, Scan, Sink, Stateful, Values
from planner.scalar import digest_of
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dead_letters import stored
from sqlengine.executors.inputs import lookup_scans
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.sources import Positions
from sqlengine.snapshots.checkpoints import CheckpointMetadata
from sqlengine.snapshots.job_snapshot import LINE, JobSnapshot, capture
from sqlengine.snapshots.layouts import difference, layouts_of
from sqlengine.snapshots.savepoint_files import (
    Rows,
    SavedOperation,
    SavedSource,
    SavedTable,
    Savepoint,
    read_rows,
    unreadable,
)
from sqlengine.state.table import BUCKET, SEQUENCE, TableDelta
from sqlengine.system.disk import Disk


@dataclass(frozen=True)
class SavepointInfo:
    """Metadata of a savepoint that is not in the job's snapshot. `drained`: the job's sources ended
    right before it, as with Flink's stop --drain."""

    sql: str
    version: int
    settings: Mapping[str, str]
    now_ms: int
    drained: bool = False


def capture_savepoint(runner: GraphRunner, job: str, info: SavepointInfo) -> tuple[Savepoint, Rows]:
    """Makes a savepoint of a job after the last epoch, with copies of its rows (graph thread). All
    output of that epoch has been committed."""
    runner.complete()
    return _savepoint(capture(runner, job), runner.graph, runner.executor.layouts, info)


def savepoint_of_plan(
    snapshot: JobSnapshot, sinks: Sequence[Sink], factory: OperatorFactory, info: SavepointInfo
) -> tuple[Savepoint, Rows]:
    """Makes a savepoint of the snapshot of a job with these plans, wherever it runs."""
    graph = merge(Graph(), {snapshot.job: sinks})
    layouts = {n.id: layouts_of(n, factory) for n in _operators(graph)}
    return _savepoint(snapshot, graph, lambda node: layouts.get(node, {}), info)


def _savepoint(
    snapshot: JobSnapshot,
    graph: Graph,
    layouts: Callable[[str], Mapping[str, str]],
    info: SavepointInfo,
) -> tuple[Savepoint, Rows]:
    """Makes a savepoint of a snapshot. `layouts`: those of the tables of a node, by their names."""
    nodes = [graph.nodes[i] for i in graph.jobs[snapshot.job]]
    operations: list[SavedOperation] = []
    rows: dict[tuple[int, str] | str, pa.Table] = dict(snapshot.file_versions.items())
    for node in nodes:
        tables = {name: snapshot.tables[node.plan.digest, name] for name in layouts(node.id)}
        if tables:
            saved = tuple(SavedTable(n, layouts(node.id)[n], t.num_rows) for n, t in tables.items())
            rows |= {(len(operations), name): table for name, table in tables.items()}
            operation = operation_of(node.plan, node.id, node.plan.digest)
            operations.append(SavedOperation(operation, node.plan.stateful, saved))
    savepoint = Savepoint(
        job=snapshot.job,
        version=info.version,
        sql=info.sql,
        fingerprint=digest_of(*(n.plan.digest for n in nodes if isinstance(n.plan, Sink))),
        graph=snapshot.graph,
        epoch=snapshot.epoch,
        created_ms=info.now_ms,
        sources=tuple(_saved_source(n.plan, snapshot) for n in nodes if isinstance(n.plan, Scan)),
        operations=tuple(operations),
        constants=tuple(snapshot.emitted_values),
        settings=dict(info.settings),
        drained=info.drained,
    )
    return savepoint, rows


def _saved_source(scan: Scan, snapshot: JobSnapshot) -> SavedSource:
    source, table = snapshot.sources[scan.digest], scan.table
    lines = snapshot.file_versions.get(scan.digest)
    return SavedSource(
        scan.digest,
        table.display,
        table.connector,
        stored(table.options),
        dict(source.positions),
        source.ended,
        None if lines is None else SavedTable(LINE, "", lines.num_rows),
        dict(source.marks),
    )


@dataclass(frozen=True)
class Restoration:
    """The first checkpoint of a job's graph, but for the graph's name and its offset in the epoch
    log. `file_versions`: by scan, the lines from which sources continue that look rows up in
    files."""

    savepoint: Savepoint
    graph: Graph
    decisions: tuple[Decision, ...]
    positions: Mapping[str, dict[str, int]]
    ended: tuple[str, ...]
    unstarted: tuple[str, ...]
    tables: Mapping[str, TableDelta]
    file_versions: Mapping[str, pa.Array]
    marks: Mapping[str, dict[str, str]]

    def position(
        self,
        name: str,
        job: str,
        version: int,
        log_offset: int,
        lookup_positions: Positions = MappingProxyType({}),
    ) -> CheckpointMetadata:
        """Returns the checkpoint's metadata. `lookup_positions`: the offsets of the sources in
        `file_versions`."""
        positions = {scan: dict(at) for scan, at in {**self.positions, **lookup_positions}.items()}
        return CheckpointMetadata(
            graph=name,
            epoch=0,
            version=self.graph.version,
            log_offset=log_offset,
            positions=positions,
            ended=list(self.ended),
            unstarted=list(self.unstarted),
            jobs={job: version},
            stateful={job: list(self.graph.stateful[job])} if job in self.graph.stateful else {},
            created_at_version={name.split("@")[0]: self.graph.version for name in self.tables},
            began={scan: (0, dict(at)) for scan, at in positions.items()},
            marks={scan: dict(told) for scan, told in self.marks.items()},
        )


def restoration(
    disk: Disk,
    savepoint: Savepoint,
    job: str,
    sinks: Sequence[Sink],
    factory: OperatorFactory,
    policy: Policy = Policy.AUTO,
    ignore_unclaimed: bool = False,
) -> Restoration:
    """Decides what a job with these plans restores from a savepoint, and reads it.

    JobError if state of the savepoint would be left behind, unless `ignore_unclaimed`, or if the
    savepoint cannot be read."""
    error = unreadable(savepoint)
    if error is not None and policy is not Policy.RESET:
        raise error
    graph = merge(Graph(), {job: sinks})
    decisions = tuple(_decisions(savepoint, graph, factory, policy))
    claimed = _claimed_sources(savepoint, graph)
    if not ignore_unclaimed and policy is not Policy.RESET:
        _check_claimed(savepoint, decisions, list(claimed.values()))
    # A source whose rows nobody kept must not continue at its end: the lookup table would be empty.
    reread = _reread_scans(graph, decisions)
    sources = {name: source for name, source in claimed.items() if name not in reread}
    return Restoration(
        savepoint,
        graph,
        tuple(d for d in decisions if _is_about_job_state(savepoint, graph, d)),
        {name: dict(s.positions) for name, s in sources.items() if s.version is None},
        tuple(name for name, s in sources.items() if s.ended and not savepoint.drained),
        tuple(_unstarted(savepoint, graph)),
        _tables(disk, savepoint, decisions, graph.version) if error is None else {},
        _file_versions(disk, savepoint, sources),
        {name: s.marks for name, s in sources.items() if s.marks and s.version is None},
    )


def _file_versions(
    disk: Disk, savepoint: Savepoint, sources: Mapping[str, SavedSource]
) -> dict[str, pa.Array]:
    """Reads, by scan, the lines of sources that look rows up in files."""
    return {
        name: read_rows(disk, savepoint, source.version)[LINE].combine_chunks()
        for name, source in sources.items()
        if source.version is not None
    }


def _reread_scans(graph: Graph, decisions: Iterable[Decision]) -> set[str]:
    """Returns the scans of lookup tables whose rows no restored operation keeps: they are read from
    the beginning."""
    kept = {d.operation.id for d in decisions if d.outcome is Outcome.KEPT}
    plan = lower(graph)
    return lookup_scans(plan, graph.nodes.keys() - kept) - lookup_scans(plan, kept)


def _operators(graph: Graph) -> Iterator[PhysicalNode]:
    return (n for n in lower(graph).in_order if not isinstance(n.plan, RulesPlan))


def _decisions(
    savepoint: Savepoint, graph: Graph, factory: OperatorFactory, policy: Policy
) -> Iterator[Decision]:
    """Yields the decisions for the job's state, then those for watermarks.

    `reset` does not apply to watermarks, as they decide which rows are late; but they are restored
    only where an operation drops late rows, else they begin anew, as in Flink. After a drain they
    are at their maximum, and not restored."""
    new_layouts = _layouts_by_node(graph, factory)
    old_layouts = {
        o.operation.id: {t.name: t.layout for t in o.tables} for o in savepoint.operations
    }

    def obstacle(source: Operation, target: Operation) -> str | None:
        return difference(old_layouts[source.id], new_layouts[target.id])

    for job_state in (True, False):
        restored = job_state or (_drops_late_rows(graph) and not savepoint.drained)
        saved = [o.operation for o in savepoint.operations if restored and o.job_state is job_state]
        nodes = [n for n in graph.in_order if n.id in new_layouts and n.plan.stateful is job_state]
        operations = [operation_of(n.plan, n.id, n.plan.digest) for n in nodes]
        keeps_watermarks = policy is Policy.RESET and not job_state
        yield from decide(saved, operations, Policy.AUTO if keeps_watermarks else policy, obstacle)


def _layouts_by_node(graph: Graph, factory: OperatorFactory) -> dict[str, dict[str, str]]:
    """Returns the layouts of the tables of each node that keeps any."""
    layouts = {n.id: layouts_of(n, factory) for n in _operators(graph)}
    return {node: tables for node, tables in layouts.items() if tables}


def _drops_late_rows(graph: Graph) -> bool:
    return any(isinstance(n.plan, Stateful) and n.plan.drops_late for n in graph.in_order)


def _claimed_sources(savepoint: Savepoint, graph: Graph) -> dict[str, SavedSource]:
    """Returns the saved source of each scan of a graph that has one."""
    scans = (node for node in graph.in_order if isinstance(node.plan, Scan))
    matches = {node.id: _source_of(node.plan, savepoint) for node in scans}
    return {name: source for name, source in matches.items() if source is not None}


def _source_of(plan: LogicalPlan, savepoint: Savepoint) -> SavedSource | None:
    """Returns the same source, or one with other columns over the same records."""
    assert isinstance(plan, Scan)
    for source in savepoint.sources:
        if source.scan == plan.digest:
            return source
    place = stored(plan.table.options)
    same = [
        s
        for s in savepoint.sources
        if place and (s.connector, s.stored) == (plan.table.connector, place)
    ]
    return same[0] if same else None


def _check_claimed(
    savepoint: Savepoint, decisions: Iterable[Decision], sources: Sequence[SavedSource]
) -> None:
    """JobError if the job restores less than the savepoint has."""
    unclaimed = [
        f"{d.source.name}: {d.reason}"
        for d in decisions
        if d.source is not None
        and d.outcome is not Outcome.KEPT
        and _is_job_state(savepoint, d.source)
    ]
    unclaimed += [
        f"table {s.table}: the job does not read it" for s in savepoint.sources if s not in sources
    ]
    if unclaimed:
        raise JobError(
            f"the job does not take up all that is in savepoint '{savepoint.path}'",
            detail="; ".join(unclaimed),
            hint=(
                "SET 'job.state' = 'keep' takes up state over changed input, and SET"
                " 'execution.state-recovery.ignore-unclaimed-state' = 'true' leaves the rest behind"
            ),
        )


def _is_about_job_state(savepoint: Savepoint, graph: Graph, decision: Decision) -> bool:
    """True if a decision is about state of the job, and not about a watermark."""
    if decision.outcome is Outcome.DROPPED:
        return _is_job_state(savepoint, decision.operation)
    return graph.nodes[decision.operation.id].plan.stateful


def _is_job_state(savepoint: Savepoint, operation: Operation) -> bool:
    return any(o.job_state and o.operation.id == operation.id for o in savepoint.operations)


def _unstarted(savepoint: Savepoint, graph: Graph) -> Iterator[str]:
    """Yields the constant rows that had not been emitted."""
    values = (n for n in graph.in_order if isinstance(n.plan, Values))
    return (n.id for n in values if n.plan.digest not in savepoint.constants)


def _tables(
    disk: Disk, savepoint: Savepoint, decisions: Iterable[Decision], version: int
) -> dict[str, TableDelta]:
    """Reads the tables of operations that are kept, by their names in the new graph."""
    tables = {}
    saved = {o.operation.id: o for o in savepoint.operations}
    for decision in decisions:
        if decision.outcome is Outcome.KEPT and decision.source is not None:
            for table in saved[decision.source.id].tables:
                rows = read_rows(disk, savepoint, table).combine_chunks()
                batch = rows.to_batches()[0] if rows.num_rows else _empty(rows.schema)
                name = f"{decision.operation.id}@{version}/{table.name}"
                # The first checkpoint of a graph removes nothing.
                removed = batch.slice(0, 0).select([SEQUENCE, BUCKET])
                tables[name] = TableDelta(batch, removed, 0)
    return tables


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
