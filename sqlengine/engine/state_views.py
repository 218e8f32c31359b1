"""What jobs keep, shown as tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from parser.errors import JobError
from parser.types import Column, Schema
from sqlengine.engine.fleet import Fleet
from sqlengine.executors.footprint import OperationState, footprint
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.log import JobState
from sqlengine.registry import Registry
from sqlengine.results import JsonValue, column_to_json
from sqlengine.state.table import KeyedTable


@dataclass(frozen=True)
class OperationView:
    """One operation of a job, by its number. `keys`: how many different keys its rows have, in the table that has most."""

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
    """Of the jobs of one engine. What is shown is what was there between two epochs."""

    def __init__(self, registry: Registry, fleet: Fleet) -> None:
        self._registry = registry
        self._fleet = fleet

    def operations(self, job: str) -> list[OperationView]:
        """What the job's operations keep, in the order of its plan. JobError where it does not run."""
        graph = self._graph(job)

        def copies() -> list[tuple[OperationState, list[int | pa.Table]]]:
            runner = graph.runner
            held = footprint(runner.executor, runner.graph, job)
            return [(o, [_keys(t) for t in runner.executor.tables_of(o.node).values()]) for o in held]

        found = graph.loop.call(copies)
        return [OperationView(n, o, max(map(_distinct, keys))) for n, (o, keys) in enumerate(found, 1)]

    def rows(self, job: str, number: int, limit: int) -> list[TableView]:
        """The tables of one operation, by its number, with at most `limit` rows each."""
        graph = self._graph(job)

        def copies() -> list[tuple[str, Schema, pa.RecordBatch, int]]:
            runner = graph.runner
            held = list(footprint(runner.executor, runner.graph, job))
            if not 1 <= number <= len(held):
                raise JobError(
                    f"job '{job}' has no operation {number} that keeps state",
                    detail=f"it has {len(held)}",
                    hint=f"'sql state {job}' numbers them",
                )
            tables = runner.executor.tables_of(held[number - 1].node)
            return [(n, Schema((*t.keys, *t.values)), t.head(limit), len(t)) for n, t in tables.items()]

        return [_view(*copy) for copy in graph.loop.call(copies)]

    def _graph(self, job: str) -> RunningGraph:
        held = self._registry.job(job)
        if held.state is not JobState.RUNNING:
            raise JobError(
                f"job '{job}' does not run: it keeps no state",
                detail=f"it is {held.state.value}",
                hint="'sql savepoint show' tells what is in a savepoint",
            )
        return self._fleet.here(job, "a look at its state")


def _view(name: str, schema: Schema, rows: pa.RecordBatch, total: int) -> TableView:
    columns = [_json(c, rows.column(c.name)) for c in schema]
    return TableView(name, tuple(schema.names), tuple(zip(*columns, strict=True)), total)


def _json(column: Column, array: pa.Array) -> list[JsonValue]:
    return column_to_json(array, column.type)


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
    return keys if isinstance(keys, int) else int(keys.group_by(keys.column_names).aggregate([]).num_rows)
