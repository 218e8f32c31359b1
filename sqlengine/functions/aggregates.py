"""Aggregates of users: their accumulators are bytes in the job's state, and a worker has them for
one request only, so that nothing is lost with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from parser.types import BYTES, DataType
from sqlengine.functions.answers import run
from sqlengine.functions.calls import ACCUMULATORS, GROUPS, accumulators
from sqlengine.functions.host import Ask, Binding, Failure, Take
from sqlengine.functions.kernels import (
    argument_schema,
    arguments,
    errors_of,
    field_of,
    shown_rows,
    spread,
)
from sqlengine.functions.protocol import batch_blob, read_batch
from udf.aggregates.accumulators import Accumulator, Slots
from udf.user import UserFunction, coerce
from udf.vector import BoolArray, Errors, Vector

_STATE = "state"
_States = list[bytes | None]


class UserAggregate:
    """A user's aggregate, behind the contract of `udf.aggregates.accumulators.Aggregate`.

    `types` are those of its argument, or of the one ROW of all its arguments. Rows with a NULL
    where the function takes none are not shown to it."""

    def __init__(
        self, function: UserFunction, types: Sequence[DataType], retract: bool = False
    ) -> None:
        self._function = function
        self._packed = len(function.parameters) > 1 or function.variadic
        given = types[0].children if self._packed and types else types
        self.result_type = function.result_type.with_nullable(True)
        self.retractable = function.retracts
        self._schema = argument_schema(coerce(function, given))
        self._result = pa.schema([field_of("value", self.result_type)])
        self._binding = Binding(function.place, (self._schema, self._result))

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return ((_STATE, BYTES),)

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> Errors | None:
        """Adds rows; those for which `accumulate` fails are in error, and count for nothing."""
        return self._change("update", acc, slots, values, selected)

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> Errors | None:
        return self._change("retract", acc, slots, values, selected)

    def merge(
        self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots
    ) -> Errors | None:
        """Errors by place in `slots`: there the accumulator stays as it was."""
        left, right = _read(acc, slots), _read(other, others)
        merged = list(left)

        def ask(start: int, end: int) -> tuple[dict[str, object], list[pa.Buffer]]:
            return {"step": "merge"}, [
                batch_blob(accumulators(h[start:end])) for h in (left, right)
            ]

        def take(start: int, end: int, blobs: list[pa.Buffer]) -> None:
            merged[start:end] = read_batch(blobs[0], ACCUMULATORS).column(0).to_pylist()

        failures = self._run(len(slots), ask, take)
        _write(acc, slots, merged)
        return errors_of(failures, len(slots))

    def result(self, acc: Accumulator, slots: Slots) -> Vector:
        states = _read(acc, slots)
        parts: list[tuple[int, pa.Array]] = []

        def ask(start: int, end: int) -> tuple[dict[str, object], list[pa.Buffer]]:
            return {"step": "value"}, [batch_blob(accumulators(states[start:end]))]

        def take(start: int, end: int, blobs: list[pa.Buffer]) -> None:
            parts.append((start, read_batch(blobs[0], self._result).column(0)))

        failures = self._run(len(slots), ask, take)
        return Vector(
            spread(parts, len(slots), self.result_type.arrow), errors_of(failures, len(slots))
        )

    def _change(
        self,
        step: str,
        acc: Accumulator,
        slots: Slots,
        values: pa.Array | None,
        selected: BoolArray,
    ) -> Errors | None:
        args = self._arguments(values)
        keep = shown_rows(self._function, args, len(slots))
        rows = np.flatnonzero(selected if keep is None else selected & keep)
        if not len(rows):
            return None
        batch = (
            arguments(args, len(slots), self._schema, None).take(pa.array(rows)) if args else None
        )
        mine, groups = np.unique(slots[rows], return_inverse=True)
        states = _read(acc, mine)

        def ask(start: int, end: int) -> tuple[dict[str, object], list[pa.Buffer]]:
            about = pa.RecordBatch.from_arrays(
                [pa.array(groups[start:end], pa.int32())], schema=GROUPS
            )
            given = (
                batch.slice(start, end - start)
                if batch is not None
                else pa.RecordBatch.from_arrays([], names=[])
            )
            return {"step": step}, [batch_blob(b) for b in (accumulators(states), about, given)]

        def take(start: int, end: int, blobs: list[pa.Buffer]) -> None:
            states[:] = read_batch(blobs[0], ACCUMULATORS).column(0).to_pylist()

        failures = self._run(len(rows), ask, take)
        _write(acc, mine, states)
        return errors_of([(int(rows[row]), reason) for row, reason in failures], len(slots))

    def _arguments(self, values: pa.Array | None) -> list[Vector]:
        if values is None:
            return []
        return [Vector(a) for a in values.flatten()] if self._packed else [Vector(values)]

    def _run(self, rows: int, ask: Ask, take: Take) -> list[Failure]:
        return run(self._function, self._binding, rows, ask, take)


def _read(acc: Accumulator, slots: Slots) -> _States:
    """The accumulators at these slots; None for one that is new."""
    column, present = acc[_STATE], acc[_STATE + "?"]
    return [column[s] if present[s] else None for s in slots.tolist()]


def _write(acc: Accumulator, slots: Slots, states: _States) -> None:
    for slot, data in zip(slots.tolist(), states, strict=True):
        acc[_STATE][slot], acc[_STATE + "?"][slot] = data, data is not None
