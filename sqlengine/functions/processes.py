"""Process functions on the server's side: what is asked of the worker for a batch, and what it has
answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from parser.errors import ExecutionError
from parser.types import DataType, Schema
from sqlengine.functions.answers import run
from sqlengine.functions.host import Binding, Failure
from sqlengine.functions.kernels import field_of
from sqlengine.functions.process_wire import (
    CHANGES,
    KEYS_AFTER,
    LOST_TIMERS,
    Shape,
    instants,
    keys_schema,
    output_schema,
    rows_schema,
)
from sqlengine.functions.protocol import Header, batch_blob, read_batch
from sqlengine.state.columns import IntArray
from udf.user import UserFunction, columns_of

_processes: dict[str, UserFunction] = {}


def register_process(function: UserFunction) -> None:
    """Makes a process function known by its identity."""
    _processes[function.identity] = function


@dataclass(frozen=True)
class Memories:
    """The memories of some keys: encoded states and timers, and when the first timer of each
    is due (ms), None where there is none."""

    states: list[bytes | None]
    timers: list[bytes | None]
    nexts: list[int | None]


@dataclass(frozen=True)
class Times:
    """`before`: the watermark before each row, and the one after all rows; `since`: that before the
    batch; `steps`: all of them, sorted (ms)."""

    since: int
    before: IntArray
    steps: IntArray


@dataclass
class Given:
    """The outcome of a batch. `rows`: what the function gave, with their origins (`process_wire`).
    `failures`: rows of the batch that failed, with the reason; `lost_timers`: those that failed."""

    memories: Memories
    rows: list[pa.RecordBatch] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    lost_timers: list[pa.RecordBatch] = field(default_factory=list)


class HeldViews(Protocol):
    """The views of the keys of a batch: entries that the worker asks for, and those it writes."""

    def answer(self, header: Header, blobs: list[pa.Buffer]) -> tuple[Header, list[pa.Buffer]]: ...

    def take(self, changes: pa.RecordBatch) -> None: ...


class ProcessKernel:
    """A process function for tables of certain columns."""

    def __init__(
        self,
        identity: str,
        shape: Shape,
        columns: Schema,
        scalars: Sequence[tuple[str, DataType, object]],
        keys: Schema,
    ) -> None:
        """`columns`: of all tables, as requests name them. ExecutionError where the module of the
        function is not loaded."""
        if identity not in _processes:
            raise ExecutionError(
                f"function '{identity}' is not loaded", hint="submit the job that defines it again"
            )
        self._function = _processes[identity]
        self.rows_schema = rows_schema(shape, [pa.field(c.name, c.type.arrow) for c in columns])
        constants = pa.schema([pa.field(n, t.arrow) for n, t, _ in scalars])
        self._keys = keys_schema([pa.field(f"k{i}", c.type.arrow) for i, c in enumerate(keys)])
        self.result_schema = output_schema(
            [field_of(name, kind) for name, kind in columns_of(self._function)]
        )
        schemas = (self.rows_schema, constants, self._keys, self.result_schema)
        self._binding = Binding(self._function.place, schemas)
        values = [pa.array([value], t.arrow) for _, t, value in scalars]
        self._constants = batch_blob(pa.RecordBatch.from_arrays(values, schema=constants))

    def __call__(
        self,
        rows: pa.RecordBatch,
        memories: Memories,
        keys: Sequence[pa.Array],
        times: Times,
        views: HeldViews | None = None,
    ) -> Given:
        """Calls the function for rows and timers that are due; never raises for data."""
        given = Given(memories)
        count = 2 * rows.num_rows + 2
        steps = batch_blob(instants(times.steps))

        def ask(start: int, end: int) -> tuple[dict[str, object], list[pa.Buffer]]:
            first, last = start // 2, (end - 1) // 2
            before = times.since if start < 2 else int(times.before[first - 1])
            known = (given.memories.states, given.memories.timers, given.memories.nexts)
            columns = [pa.array(v, f.type) for v, f in zip(known, KEYS_AFTER, strict=True)]
            blobs = (
                rows.slice(first, min(last + 1, rows.num_rows) - first),
                pa.RecordBatch.from_arrays([*columns, *keys], schema=self._keys),
                instants(times.before[first : last + 1]),
            )
            part, key_part, watermarks = map(batch_blob, blobs)
            about: dict[str, object] = {"first": start, "watermark": before}
            return about, [part, self._constants, key_part, watermarks, steps]

        def take(start: int, end: int, blobs: list[pa.Buffer]) -> None:
            given.rows.append(read_batch(blobs[0], self.result_schema))
            after = read_batch(blobs[1], KEYS_AFTER)
            given.memories = Memories(*(column.to_pylist() for column in after.columns))
            given.lost_timers.append(read_batch(blobs[2], LOST_TIMERS))
            if views is not None:
                views.take(read_batch(blobs[3], CHANGES))

        serve = None if views is None else views.answer
        for event, reason in run(self._function, self._binding, count, ask, take, serve):
            # The timers of an event that cost the worker its life are told one by one, and behind
            # the last watermark there is no row.
            if event % 2 and event // 2 < rows.num_rows:
                given.failures.append((event // 2, reason))
        return given
