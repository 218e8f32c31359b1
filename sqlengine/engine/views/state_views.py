"""Inspection of the state of jobs, as tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from parser.errors import JobError
from parser.types import Column, Schema
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.executors.memory_limits import OperationState
from sqlengine.executors.state_inspection import StateView, inspect_state, merge_views, rows_of
from sqlengine.formats.results import JsonValue, column_to_json
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.job import JobState
from sqlengine.registry import Registry


@dataclass(frozen=True)
class OperationView:
    """The state of an operation of a job. `keys`: distinct keys in the table that has most."""

    number: int
    state: OperationState
    keys: int


@dataclass(frozen=True)
class TableView:
    """The first rows of a table, oldest key first: `total` is how many there are."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
    total: int


class StateViews:
    """Shows the state of running jobs, as it is between two epochs. May be called from any
    thread."""

    def __init__(self, registry: Registry, graphs: GraphManager) -> None:
        self._registry = registry
        self._graphs = graphs

    def operations(self, job: str) -> list[OperationView]:
        """Returns the state of the job's operations, in the order of its plan. Raises JobError if
        it does not run."""
        view = self._inspect(self._graph(job), job, 0, 0)
        return [OperationView(n, o.state, o.keys) for n, o in enumerate(view.operations, 1)]

    def rows(self, job: str, number: int, limit: int) -> list[TableView]:
        """Returns the tables of an operation, by its number, with at most `limit` rows each."""
        graph = self._graph(job)
        view = self._inspect(graph, job, max(number, 1), limit)
        tables = graph.runner.executor.tables_of(view.operations[number - 1].state.node)
        schemas = {name: Schema((*t.keys, *t.values)) for name, t in tables.items()}
        return [_view(t.name, schemas[t.name], rows_of(t), t.total) for t in view.tables]

    def _inspect(self, graph: ManagedGraph, job: str, number: int, limit: int) -> StateView:
        if isinstance(graph, DistributedGraph):
            return merge_views(graph.pauses.inspect_state(job, number, limit), limit)
        return graph.loop.call(lambda: inspect_state(graph.runner, job, number, limit))()

    def _graph(self, job: str) -> ManagedGraph:
        known = self._registry.job(job)
        if known.state is not JobState.RUNNING:
            raise JobError(
                f"job '{job}' does not run: its state is shown while it runs",
                detail=f"it is {known.state.value}",
                hint="'sql start' goes on with what it has kept; 'sql savepoint show' shows what"
                " is in a savepoint",
            )
        return self._graphs.of(job)


def _view(name: str, schema: Schema, rows: pa.Table, total: int) -> TableView:
    columns = [_json(c, rows.column(c.name)) for c in schema]
    return TableView(name, tuple(schema.names), tuple(zip(*columns, strict=True)), total)


def _json(column: Column, array: pa.ChunkedArray) -> list[JsonValue]:
    return column_to_json(array.combine_chunks(), column.type)
