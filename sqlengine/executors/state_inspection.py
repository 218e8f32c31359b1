"""What the operations of a job keep, to be shown: in one graph, or in all parts of a divided
one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from parser.errors import JobError
from sqlengine.batch import MIN_WATERMARK
from sqlengine.executors.memory_limits import OperationState, TableSize, footprint
from sqlengine.executors.runner import GraphRunner
from sqlengine.snapshots.rescaling import TIMES, in_order, least
from sqlengine.state.table import KeyedTable


@dataclass(frozen=True)
class OperationView:
    """`keys`: how many different keys its rows have, in the table that has most."""

    state: OperationState
    keys: int


@dataclass(frozen=True)
class TableView:
    """The first rows of a table as a stream of Arrow, oldest key first: `total` is how many there
    are."""

    name: str
    total: int
    rows: bytes


@dataclass(frozen=True)
class StateView:
    """The operations of a job in the order of its plan, and the tables of one of them."""

    operations: tuple[OperationView, ...]
    tables: tuple[TableView, ...] = ()


def inspect_state(
    runner: GraphRunner, job: str, number: int, limit: int
) -> Callable[[], StateView]:
    """Copies what is seen (in the graph's thread), with at most `limit` rows of each table of
    operation `number`, 0 for none; what comes of the copies takes longer and may be found out
    elsewhere. JobError where there is no such operation."""
    held = list(footprint(runner.executor, runner.graph, job))
    if number > len(held):
        raise JobError(
            f"job '{job}' has no operation {number} that keeps state",
            detail=f"it has {len(held)}",
            hint=f"'sql state {job}' numbers them",
        )
    keys = [[_keys(t) for t in runner.executor.tables_of(o.node).values()] for o in held]
    shown = runner.executor.tables_of(held[number - 1].node) if number else {}
    heads = [(name, len(t), t.head(limit)) for name, t in shown.items()]
    return lambda: StateView(
        tuple(OperationView(o, max(map(_distinct, k))) for o, k in zip(held, keys, strict=True)),
        tuple(
            TableView(name, total, _stream(pa.Table.from_batches([rows])))
            for name, total, rows in heads
        ),
    )


def merge_views(parts: Sequence[StateView], limit: int) -> StateView:
    """What is seen in all parts, in their order, as of one graph."""
    if len(parts) == 1:
        return parts[0]
    operations = tuple(
        _operation(found) for found in zip(*(p.operations for p in parts), strict=True)
    )
    layouts = {t.name: t.layout for o in operations for t in o.state.tables}
    return StateView(
        operations,
        tuple(
            _table(found, layouts, limit) for found in zip(*(p.tables for p in parts), strict=True)
        ),
    )


def rows_of(table: TableView) -> pa.Table:
    return pa.ipc.open_stream(table.rows).read_all()


def _operation(parts: Sequence[OperationView]) -> OperationView:
    tables = tuple(_size(found) for found in zip(*(p.state.tables for p in parts), strict=True))
    timed = all(t.name in TIMES for t in tables)
    keys = max(t.rows for t in tables) if timed else sum(p.keys for p in parts)
    return OperationView(replace(parts[0].state, tables=tables), keys)


def _size(parts: Sequence[TableSize]) -> TableSize:
    rows = _count(parts[0].name, parts[0].layout, [p.rows for p in parts])
    return replace(parts[0], rows=rows, bytes=sum(p.bytes for p in parts))


def _count(name: str, layout: str, parts: Sequence[int]) -> int:
    """Rows of state are in one part each; of those that tell times each part has one of all shards,
    or of all inputs."""
    if name not in TIMES:
        return sum(parts)
    return sum(n - 1 for n in parts if n) + 1 if layout.startswith("shard") else max(parts)


def _table(parts: Sequence[TableView], layouts: dict[str, str], limit: int) -> TableView:
    name, found = parts[0].name, [rows_of(p) for p in parts]
    rows = least(found, MIN_WATERMARK) if name in TIMES else in_order(pa.concat_tables(found))
    total = _count(name, layouts[name], [p.total for p in parts])
    return TableView(name, total, _stream(rows.slice(0, limit)))


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _keys(table: KeyedTable) -> int | pa.Table:
    """The number of its keys; where rows of one key are numbered, the keys without the number."""
    own = [c for c in table.keys if not c.name.startswith("#")]
    if len(own) == len(table.keys) or any(pa.types.is_nested(c.type.arrow) for c in own):
        return len(table)
    if not own:
        return min(1, len(table))
    slots = table.live()
    return pa.table({c.name: table.array(c.name, slots) for c in own})


def _distinct(keys: int | pa.Table) -> int:
    """How many different ones there are."""
    return (
        keys
        if isinstance(keys, int)
        else int(keys.group_by(keys.column_names).aggregate([]).num_rows)
    )
