"""What a job has in all parts of a divided graph, put together, and the share of one part of what
it has as a whole.

Rows of state belong to a bucket and each bucket to one part, so they are only dealt out and
gathered. How far the time is must be found out anew: where parts send each other rows it is the
least of all parts, and each has a table for that which a graph that is not divided does without.
All parts must stand still, with nothing on its way between them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from planner.graph.division import SubtaskAssignment, end_of, ends_among
from planner.graph.merge import Graph, GraphNode
from planner.logical import AssignWatermark, LogicalPlan, Values
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK
from sqlengine.executors.runner import GraphRunner
from sqlengine.operators.ports import ALL, WATERMARKS, reached
from sqlengine.operators.watermark_pace import PACE
from sqlengine.snapshots.job_snapshot import JobSnapshot, SourceAt, snapshot
from sqlengine.state.keys import BUCKETS
from sqlengine.state.table import BUCKET, SEQUENCE

# A table of an operation, by its digest and name. That of what parts send to port n of it is called
# "in.n".
Key: TypeAlias = tuple[str, str]
_IN: Final = "in."
# Tables whose rows belong to no bucket, and the columns of them that are times.
TIMES: Final = (WATERMARKS, PACE)
_COLUMNS: Final = ("watermark", "told", "reached")
# The keys of what all shards, or inputs, have reached together, and of a pace.
_TOGETHER: Final = (None, ALL, 0)


def subtask_snapshot(runner: GraphRunner, job: str) -> JobSnapshot:
    """What a job has in one part, which stands (in its thread), with the time of all parts wherever
    rows come from them."""
    belongings = snapshot(runner, job)
    return replace(belongings, tables={**belongings.tables, **dict(_crossings(runner, job))})


def _crossings(runner: GraphRunner, job: str) -> Iterator[tuple[Key, pa.Table]]:
    for node in (runner.graph.nodes[i] for i in runner.graph.jobs[job]):
        for port in range(len(node.inputs)):
            for table in runner.executor.tables_of(end_of(node.id, port)).values():
                yield (node.plan.digest, f"{_IN}{port}"), table.dump()


def merge_snapshots(pieces: Sequence[JobSnapshot], graph: Graph) -> JobSnapshot:
    """The pieces of all parts, in their order, as one for a graph that is not divided. `graph` has
    the job as the parts have it."""
    first = pieces[0]
    nodes = {n.plan.digest: n for n in first.nodes(graph)}
    known = dict.fromkeys(key for piece in pieces for key in piece.tables)
    told = _told(pieces, graph, nodes)
    tables = {}
    for key in known:
        found = [
            _rows_of(key, p.tables[key], SubtaskAssignment(n, len(pieces)))
            for n, p in enumerate(pieces)
        ]
        if key[1] in TIMES:
            tables[key] = least(found, told.get(key[0], MIN_WATERMARK))
        elif not key[1].startswith(_IN):
            tables[key] = in_order(pa.concat_tables(found))
    sources = {
        digest: _source([piece.sources[digest] for piece in pieces]) for digest in first.sources
    }
    given = [d for d in first.given if all(d in piece.given for piece in pieces)]
    unsent = tuple(u for piece in pieces for u in piece.unsent)
    epoch = max(p.epoch for p in pieces)
    return replace(first, epoch=epoch, sources=sources, given=given, tables=tables, unsent=unsent)


def split_snapshot(belongings: JobSnapshot, share: SubtaskAssignment) -> JobSnapshot:
    """The belongings of one part."""
    tables = {key: _rows_of(key, table, share) for key, table in belongings.tables.items()}
    sources = {
        digest: replace(
            s, positions={shard: at for shard, at in s.positions.items() if share.has(int(shard))}
        )
        for digest, s in belongings.sources.items()
    }
    return replace(belongings, sources=sources, tables=tables)


def times_at_ends(
    belongings: JobSnapshot, graph: Graph, nodes: Iterable[str]
) -> dict[str, pa.Table]:
    """For each of the nodes where rows come from other parts its table, which says how far the time
    is in front of it."""
    found = {}
    for end, (name, port) in ends_among(nodes).items():
        clock = _clock(graph, graph.nodes[graph.nodes[name].inputs[port]])
        digest = "" if clock is None else clock.plan.digest
        told = [
            _combined(belongings.tables[digest, name])
            for name in TIMES
            if (digest, name) in belongings.tables
        ]
        ended = digest in belongings.given
        found[end] = reached(MAX_WATERMARK if ended else min(told, default=MIN_WATERMARK))
    return found


def _source(parts: Sequence[SourceAt]) -> SourceAt:
    """A part without a shard has nothing to end."""
    positions = {shard: at for part in parts for shard, at in part.positions.items()}
    return SourceAt(dict(sorted(positions.items())), all(p.ended for p in parts))


def in_order(rows: pa.Table) -> pa.Table:
    """Rows of one table from several parts, oldest key first."""
    return rows.sort_by([(SEQUENCE, "ascending"), (BUCKET, "ascending")])


def _rows_of(key: Key, table: pa.Table, share: SubtaskAssignment) -> pa.Table:
    if key[1] not in TIMES:
        low, high = (-(-BUCKETS * n // share.parts) for n in (share.index, share.index + 1))
        buckets = table[BUCKET]
        return table.filter(pc.and_(pc.greater_equal(buckets, low), pc.less(buckets, high)))
    if table.column_names[0] != "shard":
        return table
    mine = [shard is None or share.has(int(shard)) for shard in table["shard"].to_pylist()]
    return table.filter(pa.array(mine, pa.bool_()))


# ---- time ----------------------------------------------------------------------------------------


def _told(
    pieces: Sequence[JobSnapshot], graph: Graph, nodes: Mapping[str, GraphNode]
) -> dict[str, int]:
    """By the digest of an operation that keeps a time: how far it was told to those that take rows
    of all parts."""
    found: dict[str, int] = {}
    for piece in pieces:
        for (digest, name), table in piece.tables.items():
            if name.startswith(_IN):
                below = graph.nodes[nodes[digest].inputs[int(name.removeprefix(_IN))]]
                clock = _clock(graph, below)
                if clock is not None:
                    known = found.get(clock.plan.digest, MIN_WATERMARK)
                    found[clock.plan.digest] = max(known, _combined(table))
    return found


def _clock(graph: Graph, node: GraphNode) -> GraphNode | None:
    """The operation from which a node has its time: itself, or the first one below it that keeps
    any, or constant rows, behind which time is over."""
    while not _keeps_time(node.plan):
        if not node.inputs:
            return None
        node = graph.nodes[node.inputs[0]]
    return node


def _keeps_time(plan: LogicalPlan) -> bool:
    return isinstance(plan, AssignWatermark | Values) or len(plan.inputs) > 1


def _combined(table: pa.Table) -> int:
    """The time of all shards, or inputs, together: in a row without a shard, or with a number that
    no input has."""
    rows = {next(iter(row.values())): row for row in table.to_pylist()}
    row = rows.get(_together_in(rows), {})
    return next((int(row[c]) for c in _COLUMNS if c in row), MIN_WATERMARK)


def _together_in(keys: Collection[object]) -> object:
    return next((key for key in _TOGETHER if key in keys), None)


def least(tables: Sequence[pa.Table], reached: int) -> pa.Table:
    """The times of all parts in one table: of each shard its own, of an input the least of those
    for which one waits; of all together no less than was told."""
    rows: dict[object, dict[str, int]] = {}
    for row in (row for table in tables for row in table.to_pylist()):
        key = next(iter(row.values()))
        rows[key] = min(rows.get(key, row), row, key=_rank)
    row = rows.get(_together_in(rows), {})
    row |= {c: max(row[c], reached) for c in _COLUMNS if c in row}
    numbered = [{**row, SEQUENCE: number} for number, row in enumerate(rows.values())]
    return pa.Table.from_pylist(numbered, schema=tables[0].schema)


def _rank(row: Mapping[str, int]) -> tuple[bool, int]:
    """Nobody waits for who is idle."""
    return bool(row.get("idle")), next(row[c] for c in _COLUMNS if c in row)
