"""Kernels of users' functions: the same contract as all others (values and an error mask, nothing
raised for data), with the work done by the module's worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parser.types import DataType
from sqlengine.functions.answers import run
from sqlengine.functions.host import Binding, Failure
from sqlengine.functions.protocol import batch_blob, read_batch
from udf.arrays.arrays import valid
from udf.registry import Kernel, KernelContext
from udf.tables import Expanded
from udf.user import UserFunction, columns_of, parameters_for
from udf.vector import BoolArray, Errors, Vector

ROW = "#row"


def kernel_of(function: UserFunction) -> Kernel:
    """The kernel of a scalar function. A table function's or aggregate's has other forms: `expand`,
    `UserAggregate`."""
    calls: dict[tuple[tuple[DataType, ...], DataType], ScalarKernel] = {}

    def kernel(args: Sequence[Vector], ctx: KernelContext) -> Vector:
        key = (ctx.arg_types, ctx.result_type)
        kernel = calls.get(key)
        if kernel is None:
            kernel = calls[key] = ScalarKernel(function, ctx.arg_types, ctx.result_type)
        return kernel(args, ctx.num_rows)

    return kernel


def field_of(name: str, kind: DataType, *, null: bool = True) -> pa.Field:
    return pa.field(name, kind.arrow, null, {"sql": str(kind.plain)})


def argument_schema(types: Sequence[DataType]) -> pa.Schema:
    return pa.schema([pa.field(f"a{i}", t.arrow) for i, t in enumerate(types)])


def errors_of(failures: Sequence[Failure], rows: int) -> Errors | None:
    """Failures as an error mask."""
    if not failures:
        return None
    mask, codes = np.zeros(rows, np.bool_), np.zeros(rows, np.int32)
    reasons: dict[str, int] = {}
    for row, reason in failures:
        mask[row], codes[row] = True, reasons.setdefault(reason, len(reasons))
    return Errors(mask, codes, tuple(reasons))


def shown_rows(function: UserFunction, args: Sequence[Vector], rows: int) -> BoolArray | None:
    """The rows that the function sees: not those with an error in an argument, and none with a NULL
    where its parameter takes none. None: all."""
    keep: BoolArray | None = None
    for arg, parameter in zip(args, parameters_for(function, len(args)), strict=True):
        masks = [] if arg.errors is None else [~arg.errors.mask]
        values = arg.values
        if not parameter.takes_null and (isinstance(values, pa.Scalar) or values.null_count):
            masks.append(valid(arg.array(rows), rows))
        for mask in masks:
            if not mask.all():
                keep = mask if keep is None else keep & mask
    return keep


def arguments(
    args: Sequence[Vector], rows: int, schema: pa.Schema, keep: BoolArray | None
) -> pa.RecordBatch:
    """The arguments of the rows to be shown, as they travel."""
    columns = [a.array(rows) for a in args]
    columns = [
        c if c.type.equals(f.type) else c.cast(f.type) for c, f in zip(columns, schema, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    return batch if keep is None else batch.filter(pa.array(keep))


def spread(parts: Sequence[tuple[int, pa.Array]], rows: int, kind: pa.DataType) -> pa.Array:
    """Parts that begin at certain rows, in order, as one array, NULL between them."""
    if len(parts) == 1 and len(parts[0][1]) == rows:
        return parts[0][1]
    pieces: list[pa.Array] = []
    at = 0
    for start, part in parts:
        pieces += [pa.nulls(start - at, kind), part]
        at = start + len(part)
    return pa.concat_arrays([*pieces, pa.nulls(rows - at, kind)])


@dataclass(frozen=True)
class _Slices:
    """Parts of a batch as a worker is asked for them; a function without arguments has rows all the
    same."""

    batch: pa.RecordBatch
    whole: int

    def __call__(self, start: int, end: int) -> tuple[dict[str, object], list[pa.Buffer]]:
        part = self.batch if end - start == self.whole else self.batch.slice(start, end - start)
        return {}, [batch_blob(part)]


class ScalarKernel:
    """A scalar function for arguments of certain types."""

    def __init__(self, function: UserFunction, types: Sequence[DataType], result: DataType) -> None:
        self._function = function
        self._schema = argument_schema(types)
        # Whether None is an error is the function's own affair: a row that it does not see is NULL
        # in any case.
        self._result = pa.schema([field_of("value", result, null=function.gives_null)])
        self._kind = result.arrow
        whole = function.vectorized or function.asynchronous
        self._binding = Binding(function.place, (self._schema, self._result), whole)

    def __call__(self, args: Sequence[Vector], rows: int) -> Vector:
        keep = shown_rows(self._function, args, rows)
        count = rows if keep is None else int(keep.sum())
        if count == 0:
            return Vector(pa.nulls(rows, self._kind))
        batch = arguments(args, rows, self._schema, keep)
        parts: list[tuple[int, pa.Array]] = []

        def take(start: int, end: int, blobs: list[pa.Buffer]) -> None:
            parts.append((start, read_batch(blobs[0], self._result).column(0)))

        failures = run(self._function, self._binding, count, _Slices(batch, count), take)
        values = spread(parts, count, self._kind)
        if keep is None:
            return Vector(values, errors_of(failures, rows))
        places = np.flatnonzero(keep)
        index = np.full(rows, -1, np.int64)
        index[places] = np.arange(count)
        everywhere = values.take(pa.array(index, mask=~keep))
        return Vector(
            everywhere, errors_of([(int(places[row]), reason) for row, reason in failures], rows)
        )


class TableKernel:
    """A table function for arguments of certain types."""

    def __init__(self, function: UserFunction, types: Sequence[DataType]) -> None:
        self._function = function
        self._schema = argument_schema(types)
        fields = [field_of(name, kind) for name, kind in columns_of(function)]
        self._result = pa.schema([pa.field(ROW, pa.int32()), *fields])
        schemas = (self._schema, self._result)
        self._binding = Binding(function.place, schemas, function.asynchronous)

    def __call__(self, args: Sequence[Vector], rows: int) -> Expanded:
        keep = shown_rows(self._function, args, rows)
        places = np.arange(rows) if keep is None else np.flatnonzero(keep)
        batches: list[tuple[int, pa.RecordBatch]] = []
        failures: list[Failure] = []
        if len(places):
            batch = arguments(args, rows, self._schema, keep)

            def take(start: int, end: int, blobs: list[pa.Buffer]) -> None:
                batches.append((start, read_batch(blobs[0], self._result)))

            failures = run(
                self._function, self._binding, len(places), _Slices(batch, len(places)), take
            )
        origins = [
            b.column(0).to_numpy(zero_copy_only=False).astype(np.int64) + start
            for start, b in batches
        ]
        origin = np.concatenate(origins) if origins else np.empty(0, np.int64)
        columns = [
            pa.concat_arrays([b.column(i) for _, b in batches])
            if batches
            else pa.array([], self._result.field(i).type)
            for i in range(1, len(self._result))
        ]
        good = (
            ~np.isin(origin, [row for row, _ in failures])
            if failures
            else np.ones(len(origin), np.bool_)
        )
        if not good.all():
            origin, columns = origin[good], [c.filter(pa.array(good)) for c in columns]
        errors = errors_of([(int(places[row]), reason) for row, reason in failures], rows)
        return Expanded(places[origin].astype(np.int64), tuple(columns), errors)
