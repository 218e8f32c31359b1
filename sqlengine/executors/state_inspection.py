"""Shows the state of a job's operations, in one graph or in all subtasks of a distributed one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from parser.errors import JobError
from sqlengine.batch import MIN_WATERMARK
from sqlengine.executors.memory_limits import OperationState, TableSize, footprint
from sqlengine.executors.runner import GraphRunner
from sqlengine.snapshots.rescaling import WATERMARK_TABLES, in_order, merge_watermarks
from sqlengine.state.table import KeyedTable


@dataclass(frozen=True)
class OperationView:
    """The state of one operation. `keys`: distinct keys in its largest table."""

    state: OperationState
    keys: int


@dataclass(frozen=True)
class TableView:
    """The first rows of a table as an Arrow IPC stream, oldest key first. `total`: all its rows."""

    name: str
    total: int
    rows: bytes


@dataclass(frozen=True)
class StateView:
    """The operations of a job in the order of its plan, and rows of the tables of one of them."""

    operations: tuple[OperationView, ...]
    tables: tuple[TableView, ...] = ()


def inspect_state(
    runner: GraphRunner, job: str, number: int, limit: int
) -> Callable[[], StateView]:
    """Copies the state of a job's operations, with at most `limit` rows of each table of operation
    `number` (from 1; 0 for none). JobError where there is no such operation.

    Graph thread only. The function that it returns builds the view from the copies, which takes
    longer, in any thread."""
    operations = list(footprint(runner.executor, runner.graph, job))
    if number > len(operations):
        raise JobError(
            f"job '{job}' has no operation {number} that keeps state",
            detail=f"it has {len(operations)}",
            hint=f"'sql state {job}' numbers them",
        )
    keys = [[_keys(t) for t in runner.executor.tables_of(o.node).values()] for o in operations]
    shown = runner.executor.tables_of(operations[number - 1].node) if number else {}
    heads = [(name, len(t), t.head(limit)) for name, t in shown.items()]
    return lambda: StateView(
        tuple(
            OperationView(o, max(map(_distinct, k))) for o, k in zip(operations, keys, strict=True)
        ),
        tuple(
            TableView(name, total, _stream(pa.Table.from_batches([rows])))
            for name, total, rows in heads
        ),
    )


def merge_views(parts: Sequence[StateView], limit: int) -> StateView:
    """Merges the views of all subtasks, in their order, to one as of a single graph."""
    if len(parts) == 1:
        return parts[0]
    operations = tuple(
        _operation(pieces) for pieces in zip(*(p.operations for p in parts), strict=True)
    )
    layouts = {t.name: t.layout for o in operations for t in o.state.tables}
    return StateView(
        operations,
        tuple(
            _table(pieces, layouts, limit)
            for pieces in zip(*(p.tables for p in parts), strict=True)
        ),
    )


def rows_of(table: TableView) -> pa.Table:
    """Decodes the rows of a table."""
    return pa.ipc.open_stream(table.rows).read_all()


def _operation(parts: Sequence[OperationView]) -> OperationView:
    tables = tuple(_size(pieces) for pieces in zip(*(p.state.tables for p in parts), strict=True))
    timed = all(t.name in WATERMARK_TABLES for t in tables)
    keys = max(t.rows for t in tables) if timed else sum(p.keys for p in parts)
    return OperationView(replace(parts[0].state, tables=tables), keys)


def _size(parts: Sequence[TableSize]) -> TableSize:
    rows = _count(parts[0].name, parts[0].layout, [p.rows for p in parts])
    return replace(parts[0], rows=rows, bytes=sum(p.bytes for p in parts))


def _count(name: str, layout: str, parts: Sequence[int]) -> int:
    """Adds the rows of a table over all subtasks.

    Rows of state are in one subtask each. A table of watermarks has a row of all inputs in each
    subtask, or rows of its own shards and one more for all of them together."""
    if name not in WATERMARK_TABLES:
        return sum(parts)
    return sum(n - 1 for n in parts if n) + 1 if layout.startswith("shard") else max(parts)


def _table(parts: Sequence[TableView], layouts: dict[str, str], limit: int) -> TableView:
    name, tables = parts[0].name, [rows_of(p) for p in parts]
    rows = (
        merge_watermarks(tables, MIN_WATERMARK)
        if name in WATERMARK_TABLES
        else in_order(pa.concat_tables(tables))
    )
    total = _count(name, layouts[name], [p.total for p in parts])
    return TableView(name, total, _stream(rows.slice(0, limit)))


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _keys(table: KeyedTable) -> int | pa.Table:
    """The number of a table's keys, or the keys to count, if one key has several numbered rows."""
    own = [c for c in table.keys if not c.name.startswith("#")]
    if len(own) == len(table.keys) or any(pa.types.is_nested(c.type.arrow) for c in own):
        return len(table)
    if not own:
        return min(1, len(table))
    slots = table.live()
    return pa.table({c.name: table.array(c.name, slots) for c in own})


def _distinct(keys: int | pa.Table) -> int:
    """The number of distinct keys."""
    if isinstance(keys, int):
        return keys
    return int(keys.group_by(keys.column_names).aggregate([]).num_rows)
