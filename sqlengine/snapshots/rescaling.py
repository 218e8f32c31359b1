"""Merges the snapshots of all subtasks into one, and splits one over subtasks.

Rows of state belong to a bucket and each bucket to one subtask, so rows are only collected and
distributed, as with Flink's key groups. Watermarks must be derived anew: behind an exchange the
watermark is the least of all subtasks, and each exchange has a table for it that a graph which is
not distributed does without. All subtasks must be quiesced."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from planner.graph.distribution import SubtaskAssignment, exchange_input, exchange_inputs
from planner.graph.merge import Graph, GraphNode
from planner.logical import AssignWatermark, LogicalPlan, Values
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK
from sqlengine.executors.runner import GraphRunner
from sqlengine.operators.ports import ALL, WATERMARKS, reached
from sqlengine.operators.watermark_pace import PACE
from sqlengine.operators.windows.sessions import FIRES
from sqlengine.snapshots.job_snapshot import JobSnapshot, SourcePosition, TableKey, capture
from sqlengine.state.keys import BUCKETS
from sqlengine.state.table import BUCKET, SEQUENCE

# In the snapshot of a subtask, the table of the exchange in front of input port n of an operation
# is called "in.n".
_EXCHANGE_PREFIX: Final = "in."
# Tables of watermarks, whose rows belong to no bucket, and their columns that are watermarks.
WATERMARK_TABLES: Final = (WATERMARKS, PACE)
_WATERMARK_COLUMNS: Final = ("watermark", "told", "reached")
# The keys of the combined watermark of all shards, of all inputs, and of a pace.
_COMBINED_KEYS: Final = (None, ALL, 0)


def subtask_snapshot(runner: GraphRunner, job: str) -> JobSnapshot:
    """Captures a job in one subtask, which is quiesced (its thread), with the watermarks of the
    exchanges in front of its operations."""
    snapshot = capture(runner, job)
    return replace(snapshot, tables={**snapshot.tables, **dict(_exchange_tables(runner, job))})


def _exchange_tables(runner: GraphRunner, job: str) -> Iterator[tuple[TableKey, pa.Table]]:
    for node in (runner.graph.nodes[i] for i in runner.graph.jobs[job]):
        for port in range(len(node.inputs)):
            for table in runner.executor.tables_of(exchange_input(node.id, port)).values():
                yield (node.plan.digest, f"{_EXCHANGE_PREFIX}{port}"), table.dump()


def merge_snapshots(snapshots: Sequence[JobSnapshot], graph: Graph) -> JobSnapshot:
    """Merges the snapshots of all subtasks, in their order, for a graph that is not distributed.

    `graph`: that of the subtasks, which has the job."""
    first = snapshots[0]
    return replace(
        first,
        epoch=max(s.epoch for s in snapshots),
        sources={
            digest: _merge_positions([s.sources[digest] for s in snapshots])
            for digest in first.sources
        },
        emitted_values=[
            digest
            for digest in first.emitted_values
            if all(digest in s.emitted_values for s in snapshots)
        ],
        tables=_merge_tables(snapshots, graph),
        pending_commits=tuple(commit for s in snapshots for commit in s.pending_commits),
    )


def _merge_tables(snapshots: Sequence[JobSnapshot], graph: Graph) -> dict[TableKey, pa.Table]:
    """Merges the tables of all subtasks, of each the rows that it owns."""
    # Subtasks at different watermarks have emitted up to the greatest: the merged graph must not go
    # back.
    exchanged = _exchanged_watermarks(snapshots, graph)
    merged = {}
    for key in dict.fromkeys(key for snapshot in snapshots for key in snapshot.tables):
        digest, name = key
        if name.startswith(_EXCHANGE_PREFIX):
            continue
        owned = [
            _owned_rows(key, snapshot.tables[key], SubtaskAssignment(index, len(snapshots)))
            for index, snapshot in enumerate(snapshots)
        ]
        if name in WATERMARK_TABLES:
            merged[key] = merge_watermarks(owned, exchanged.get(digest, MIN_WATERMARK))
        else:
            merged[key] = in_order(pa.concat_tables(owned))
    return merged


def split_snapshot(snapshot: JobSnapshot, assignment: SubtaskAssignment) -> JobSnapshot:
    """Returns the share of one subtask: its buckets, and its shards of each source."""
    tables = {key: _owned_rows(key, table, assignment) for key, table in snapshot.tables.items()}
    sources = {
        digest: replace(
            source,
            positions={
                shard: offset
                for shard, offset in source.positions.items()
                if assignment.has(int(shard))
            },
        )
        for digest, source in snapshot.sources.items()
    }
    first_windows = _first_windows(snapshot)
    return replace(snapshot, sources=sources, tables=tables, first_windows=first_windows)


def exchange_times(
    snapshot: JobSnapshot, graph: Graph, nodes: Iterable[str]
) -> dict[str, pa.Table]:
    """Returns, for each of the nodes that is the input end of an exchange, its watermark table.

    The watermark of a snapshot that was not distributed is that of the operation below."""
    return {
        exchange: reached(
            _watermark_behind(snapshot, graph, graph.nodes[graph.nodes[name].inputs[port]])
        )
        for exchange, (name, port) in exchange_inputs(nodes).items()
    }


def _merge_positions(subtasks: Sequence[SourcePosition]) -> SourcePosition:
    """Merges a source's positions; it has ended if it has in all subtasks, as one without a shard
    does at once."""
    # Each shard belongs to one subtask: no position overwrites another.
    positions = {shard: at for subtask in subtasks for shard, at in subtask.positions.items()}
    marks = {shard: mark for subtask in subtasks for shard, mark in subtask.marks.items()}
    return SourcePosition(dict(sorted(positions.items())), all(s.ended for s in subtasks), marks)


def in_order(rows: pa.Table) -> pa.Table:
    """Sorts rows of one table from several subtasks by arrival of their keys."""
    return rows.sort_by([(SEQUENCE, "ascending"), (BUCKET, "ascending")])


def _owned_rows(key: TableKey, table: pa.Table, assignment: SubtaskAssignment) -> pa.Table:
    """Returns the rows of a table that belong to a subtask: by bucket, or by shard for
    watermarks."""
    if key[1] not in WATERMARK_TABLES:
        index, parallelism = assignment.index, assignment.parallelism
        # With 128 buckets and 3 subtasks: 0 to 43, 43 to 86, 86 to 128 (exclusive).
        low, high = (-(-BUCKETS * n // parallelism) for n in (index, index + 1))  # rounded up
        buckets = table[BUCKET]
        return table.filter(pc.and_(pc.greater_equal(buckets, low), pc.less(buckets, high)))
    # Watermarks of inputs, not of shards: every subtask has all of them.
    if table.column_names[0] != "shard":
        return table
    owned = [shard is None or assignment.has(int(shard)) for shard in table["shard"].to_pylist()]
    return table.filter(pa.array(owned, pa.bool_()))


# ---- watermarks ----------------------------------------------------------------------------------


def _exchanged_watermarks(snapshots: Sequence[JobSnapshot], graph: Graph) -> dict[str, int]:
    """Returns, by the digest of an operation that keeps a watermark, the greatest watermark that
    the exchanges behind it have emitted in any subtask (ms).

    A merged watermark must not be less: results may have been emitted for it."""
    nodes = {node.plan.digest: node for node in snapshots[0].nodes(graph)}
    watermarks: dict[str, int] = {}
    for snapshot in snapshots:
        for (digest, name), table in snapshot.tables.items():
            if not name.startswith(_EXCHANGE_PREFIX):
                continue
            port = int(name.removeprefix(_EXCHANGE_PREFIX))
            origin = _watermark_origin(graph, graph.nodes[nodes[digest].inputs[port]])
            if origin is not None:
                known = watermarks.get(origin.plan.digest, MIN_WATERMARK)
                watermarks[origin.plan.digest] = max(known, _combined_watermark(table))
    return watermarks


def _watermark_origin(graph: Graph, node: GraphNode) -> GraphNode | None:
    """Returns the operation that determines the watermark of a node: itself, or the first one below
    it that keeps a watermark, or constant rows, after which it is at its maximum."""
    while not _keeps_watermark(node.plan):
        if not node.inputs:
            return None
        node = graph.nodes[node.inputs[0]]
    return node


def _keeps_watermark(plan: LogicalPlan) -> bool:
    return isinstance(plan, AssignWatermark | Values) or len(plan.inputs) > 1


def _watermark_behind(snapshot: JobSnapshot, graph: Graph, node: GraphNode) -> int:
    """Returns the watermark (ms) that a node had emitted.

    Windows may be left that are due: the watermark behind them is before the first."""
    origin, first = _watermark_origin(graph, node), _first_windows(snapshot)
    left = []
    while node is not origin and node.inputs:
        left.append(first.get(node.plan.digest, MAX_WATERMARK))
        node = graph.nodes[node.inputs[0]]
    digest = "" if origin is None else origin.plan.digest
    watermarks = [
        _combined_watermark(snapshot.tables[digest, table])
        for table in WATERMARK_TABLES
        if (digest, table) in snapshot.tables
    ]
    ended = digest in snapshot.emitted_values
    watermark = MAX_WATERMARK if ended else min(watermarks, default=MIN_WATERMARK)
    return min([watermark, *(fires - 1 for fires in left if fires < MAX_WATERMARK)])


def _first_windows(snapshot: JobSnapshot) -> Mapping[str, int]:
    """Returns, by the digest of an operation that keeps windows, the instant (ms) at which the
    first fires; in the share of a subtask that in any of them."""
    if snapshot.first_windows is not None:
        return snapshot.first_windows
    first: dict[str, int] = {}
    for (digest, _), table in snapshot.tables.items():
        if FIRES in table.column_names and table.num_rows:
            fires = pc.min(table[FIRES]).as_py()
            first[digest] = min(fires, first.get(digest, fires))
    return first


def _combined_watermark(table: pa.Table) -> int:
    """Returns the combined watermark of all shards, or inputs: it is in a row without a shard, or
    with a number that no input has."""
    rows = {next(iter(row.values())): row for row in table.to_pylist()}
    row = rows.get(_combined_key(rows), {})
    return next((int(row[c]) for c in _WATERMARK_COLUMNS if c in row), MIN_WATERMARK)


def _combined_key(keys: Collection[object]) -> object:
    return next((key for key in _COMBINED_KEYS if key in keys), None)


def merge_watermarks(tables: Sequence[pa.Table], at_least: int) -> pa.Table:
    """Merges the watermark tables of all subtasks into one.

    A shard keeps its own watermark; an input gets the least of those that are not idle; the
    combined one is not less than `at_least`."""
    rows: dict[object, dict[str, int]] = {}
    for row in (row for table in tables for row in table.to_pylist()):
        key = next(iter(row.values()))
        # False sorts before True: an idle input is chosen only if all are idle.
        rows[key] = min(rows.get(key, row), row, key=_idle_last)
    combined = rows.get(_combined_key(rows), {})
    combined |= {c: max(combined[c], at_least) for c in _WATERMARK_COLUMNS if c in combined}
    # Numbers of several subtasks collide, so that they are given anew.
    numbered = [{**row, SEQUENCE: number} for number, row in enumerate(rows.values())]
    return pa.Table.from_pylist(numbered, schema=tables[0].schema)


def _idle_last(row: Mapping[str, int]) -> tuple[bool, int]:
    """Idle inputs do not hold the watermark back."""
    return bool(row.get("idle")), next(row[c] for c in _WATERMARK_COLUMNS if c in row)
