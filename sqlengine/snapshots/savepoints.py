"""From a running job to its savepoint, and from a savepoint to the checkpoint of a graph in which
the job goes on."""

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
from sqlengine.snapshots.checkpoints import Position
from sqlengine.snapshots.job_snapshot import LINE, JobSnapshot
from sqlengine.snapshots.job_snapshot import snapshot as belongings_of
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
class About:
    """What a savepoint says of its job besides what runs. `drained`: its sources ended where it was
    stopped."""

    sql: str
    version: int
    settings: Mapping[str, str]
    now_ms: int
    drained: bool = False


def capture(runner: GraphRunner, job: str, about: About) -> tuple[Savepoint, Rows]:
    """The job as it is behind the epoch that ran last, with copies of its rows (in the graph's
    thread). All output of that epoch is out."""
    runner.complete()
    return savepoint_of(belongings_of(runner, job), runner.graph, runner.executor.layouts, about)


def savepoint_of_plan(
    has: JobSnapshot, sinks: Sequence[Sink], factory: OperatorFactory, about: About
) -> tuple[Savepoint, Rows]:
    """The same of what a job of these plans has, wherever it runs."""
    graph = merge(Graph(), {has.job: sinks})
    layouts = {n.id: layouts_of(n, factory) for n in _operators(graph)}
    return savepoint_of(has, graph, lambda node: layouts.get(node, {}), about)


def savepoint_of(
    has: JobSnapshot, graph: Graph, layouts: Callable[[str], Mapping[str, str]], about: About
) -> tuple[Savepoint, Rows]:
    """What a job has as a savepoint. `layouts`: those of the tables of a node, by their names."""
    nodes = [graph.nodes[i] for i in graph.jobs[has.job]]
    operations: list[SavedOperation] = []
    rows: dict[tuple[int, str] | str, pa.Table] = dict(has.versions.items())
    for node in nodes:
        tables = {name: has.tables[node.plan.digest, name] for name in layouts(node.id)}
        if tables:
            saved = tuple(SavedTable(n, layouts(node.id)[n], t.num_rows) for n, t in tables.items())
            rows |= {(len(operations), name): table for name, table in tables.items()}
            operation = operation_of(node.plan, node.id, node.plan.digest)
            operations.append(SavedOperation(operation, node.plan.stateful, saved))
    savepoint = Savepoint(
        job=has.job,
        version=about.version,
        sql=about.sql,
        fingerprint=digest_of(*(n.plan.digest for n in nodes if isinstance(n.plan, Sink))),
        graph=has.graph,
        epoch=has.epoch,
        created_ms=about.now_ms,
        sources=tuple(_saved_source(n.plan, has) for n in nodes if isinstance(n.plan, Scan)),
        operations=tuple(operations),
        constants=tuple(has.given),
        settings=dict(about.settings),
        drained=about.drained,
    )
    return savepoint, rows


def _saved_source(scan: Scan, has: JobSnapshot) -> SavedSource:
    source, table = has.sources[scan.digest], scan.table
    lines = has.versions.get(scan.digest)
    return SavedSource(
        scan.digest,
        table.display,
        table.connector,
        stored(table.options),
        dict(source.positions),
        source.ended,
        None if lines is None else SavedTable(LINE, "", lines.num_rows),
    )


@dataclass(frozen=True)
class Restoration:
    """The checkpoint that a job begins with, but for the name of its graph and the place in the log
    of epochs. `versions`: the lines that sources go on from which read files in which rows are
    looked up."""

    savepoint: Savepoint
    graph: Graph
    decisions: tuple[Decision, ...]
    positions: Mapping[str, dict[str, int]]
    ended: tuple[str, ...]
    unstarted: tuple[str, ...]
    tables: Mapping[str, TableDelta]
    versions: Mapping[str, pa.Array]

    def position(
        self,
        name: str,
        job: str,
        version: int,
        log_offset: int,
        taken_up: Positions = MappingProxyType({}),
    ) -> Position:
        """`taken_up`: where sources go on that have `versions`."""
        positions = {name: dict(at) for name, at in {**self.positions, **taken_up}.items()}
        return Position(
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
            began={name: (0, dict(at)) for name, at in positions.items()},
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
    """What a job of these plans takes up. JobError where it leaves something of the savepoint,
    unless it may, and for a savepoint that cannot be read."""
    why_not = unreadable(savepoint)
    if why_not is not None and policy is not Policy.RESET:
        raise why_not
    graph = merge(Graph(), {job: sinks})
    layouts = {n.id: found for n in _operators(graph) if (found := layouts_of(n, factory))}
    decisions = tuple(_decisions(savepoint, graph, layouts, policy))
    sources = _sources(savepoint, graph)
    if not ignore_unclaimed and policy is not Policy.RESET:
        _check_claimed(savepoint, decisions, list(sources.values()))
    anew = _read_anew(graph, decisions)
    sources = {name: source for name, source in sources.items() if name not in anew}
    versions = {
        name: source.version for name, source in sources.items() if source.version is not None
    }
    return Restoration(
        savepoint,
        graph,
        tuple(d for d in decisions if _is_told(savepoint, graph, d)),
        {name: dict(s.positions) for name, s in sources.items() if name not in versions},
        tuple(name for name, s in sources.items() if s.ended and not savepoint.drained),
        tuple(_unstarted(savepoint, graph)),
        _tables(disk, savepoint, decisions, graph.version) if why_not is None else {},
        {
            name: read_rows(disk, savepoint, v)[LINE].combine_chunks()
            for name, v in versions.items()
        },
    )


def _read_anew(graph: Graph, decisions: Iterable[Decision]) -> set[str]:
    """Scans of tables in which rows are looked up, where nobody keeps what was read of them."""
    kept = {d.operation.id for d in decisions if d.outcome is Outcome.KEPT}
    plan = lower(graph)
    return lookup_scans(plan, graph.nodes.keys() - kept) - lookup_scans(plan, kept)


def _operators(graph: Graph) -> Iterator[PhysicalNode]:
    return (n for n in lower(graph).in_order if not isinstance(n.plan, RulesPlan))


def _decisions(
    savepoint: Savepoint, graph: Graph, layouts: Mapping[str, Mapping[str, str]], policy: Policy
) -> Iterator[Decision]:
    """Those for the job's state, and those for how far the time is, which `reset` does not touch:
    as in Flink it begins anew, but where it says which rows are late."""
    held = {o.operation.id: {t.name: t.layout for t in o.tables} for o in savepoint.operations}

    def obstacle(source: Operation, wanted: Operation) -> str | None:
        return difference(held[source.id], layouts[wanted.id])

    for own in (True, False):
        taken = own or (
            _judges(graph) and not savepoint.drained
        )  # what was drained stands at the end of time
        old = [o.operation for o in savepoint.operations if o.job_state is own] if taken else []
        nodes = [n for n in graph.in_order if n.id in layouts and n.plan.stateful is own]
        new = [operation_of(n.plan, n.id, n.plan.digest) for n in nodes]
        yield from decide(
            old, new, Policy.AUTO if policy is Policy.RESET and not own else policy, obstacle
        )


def _judges(graph: Graph) -> bool:
    return any(isinstance(n.plan, Stateful) and n.plan.drops_late for n in graph.in_order)


def _sources(savepoint: Savepoint, graph: Graph) -> dict[str, SavedSource]:
    """Those of the scans of a graph that it has."""
    scans = (node for node in graph.in_order if isinstance(node.plan, Scan))
    return {
        node.id: found for node in scans if (found := _source_of(node.plan, savepoint)) is not None
    }


def _source_of(plan: LogicalPlan, savepoint: Savepoint) -> SavedSource | None:
    """The source as it was, or one of other columns over the same records."""
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
    lost = [
        f"{d.source.name}: {d.reason}"
        for d in decisions
        if d.source is not None and d.outcome is not Outcome.KEPT and _is_state(savepoint, d.source)
    ]
    lost += [
        f"table {s.table}: the job does not read it" for s in savepoint.sources if s not in sources
    ]
    if lost:
        raise JobError(
            f"the job does not take up all that is in savepoint '{savepoint.path}'",
            detail="; ".join(lost),
            hint=(
                "SET 'job.state' = 'keep' takes up state over changed input, and SET"
                " 'execution.state-recovery.ignore-unclaimed-state' = 'true' leaves the rest behind"
            ),
        )


def _is_told(savepoint: Savepoint, graph: Graph, decision: Decision) -> bool:
    """Whether it is about state of the job."""
    if decision.outcome is Outcome.DROPPED:
        return _is_state(savepoint, decision.operation)
    return graph.nodes[decision.operation.id].plan.stateful


def _is_state(savepoint: Savepoint, operation: Operation) -> bool:
    return any(o.job_state and o.operation.id == operation.id for o in savepoint.operations)


def _unstarted(savepoint: Savepoint, graph: Graph) -> Iterator[str]:
    values = (n for n in graph.in_order if isinstance(n.plan, Values))
    return (n.id for n in values if n.plan.digest not in savepoint.constants)


def _tables(
    disk: Disk, savepoint: Savepoint, decisions: Iterable[Decision], version: int
) -> dict[str, TableDelta]:
    """The tables of operations that are kept, by the names that they have in the new graph."""
    found = {}
    held = {o.operation.id: o for o in savepoint.operations}
    for decision in decisions:
        if decision.outcome is Outcome.KEPT and decision.source is not None:
            for table in held[decision.source.id].tables:
                rows = read_rows(disk, savepoint, table).combine_chunks()
                batch = rows.to_batches()[0] if rows.num_rows else _empty(rows.schema)
                name = f"{decision.operation.id}@{version}/{table.name}"
                found[name] = TableDelta(batch, batch.slice(0, 0).select([SEQUENCE, BUCKET]), 0)
    return found


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
