"""Evaluates scalar expressions: each is compiled once to a closure over batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias, cast
from zlib import crc32

import numpy as np
import pyarrow as pa

from parser.errors import PlanError
from parser.types import DataType
from planner.scalar import Call, ColumnRef, Literal, Scalar, is_deterministic
from sqlengine.batch import Batch
from udf.guard import joined
from udf.registry import Definition, KernelContext, call, lookup
from udf.vector import ColumnTooLarge, Vector

Evaluator: TypeAlias = Callable[[Batch], Vector]

# Counts values computed and reused within a batch. `memo_enabled` is the switch of
# 'optimizer.expression-memo'.
counters: Counter[str] = Counter()
memo_enabled = True


def evaluate(expression: Scalar, batch: Batch) -> Vector:
    """Computes the expression's value for every row, and which rows are in error.

    A deterministic call is computed once per batch, however many expressions contain it."""
    return compile_expression(expression)(batch)


def in_parts(compute: Evaluator, batch: Batch) -> Vector:
    """Evaluates for as many rows at a time as 'column-size' allows. For operators with state, whose
    input cannot be divided, and for results that are short themselves."""
    try:
        return compute(batch)
    except ColumnTooLarge:
        half = batch.num_rows // 2
        sizes = (half, batch.num_rows - half)
        parts = (part_of(batch, 0, half), part_of(batch, half, sizes[1]))
        return joined([in_parts(compute, part) for part in parts], sizes)


def part_of(batch: Batch, start: int, length: int) -> Batch:
    """Some rows of a batch that is evaluated in parts: random values of each part differ."""
    part = batch.slice(start, length)
    return replace(part, seed=part.seed ^ crc32(start.to_bytes(8, "little"))) if start else part


_compiled: dict[str, Evaluator] = {}
_MAX_COMPILED = 65536


def compile_expression(expression: Scalar) -> Evaluator:
    """Returns a closure that evaluates the expression. PlanError for an unknown function.

    Expressions with the same digest share it. (Equality would not do: 0.0 equals -0.0.)"""
    evaluator = _compiled.get(expression.digest)
    if evaluator is None:
        if len(_compiled) >= _MAX_COMPILED:
            _compiled.clear()
        evaluator = _compiled[expression.digest] = _compile(expression)
    return evaluator


def _compile(expression: Scalar) -> Evaluator:
    match expression:
        case Literal():
            constant = Vector(to_scalar(expression))
            return lambda batch: constant
        case ColumnRef(name=name):
            return lambda batch: Vector(batch.column(name))
        case Call():
            return _compile_call(expression)


def compile_column(expression: Scalar, column: str) -> Evaluator:
    """Compiles the expression of a column of that name. Random values differ by the name: UUID() in
    another column, INSERT or job is another value, as long as the names say which."""
    compute = compile_expression(expression)
    if is_deterministic(expression):
        return compute
    seed = crc32(column.encode())
    return lambda batch: compute(replace(batch, seed=batch.seed ^ seed))


def to_scalar(literal: Literal) -> pa.Scalar:
    """Converts a literal to an Arrow scalar. Dates and times are integers in their Arrow unit."""
    kind = literal.type.arrow
    if literal.value is not None and pa.types.is_temporal(kind):
        storage = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.scalar(literal.value, storage).cast(kind)
    return pa.scalar(literal.value, kind)


def _compile_call(expression: Call) -> Evaluator:
    definition = lookup(expression.function)
    if definition is None:
        raise PlanError(f"unknown function '{expression.function}'", position=expression.position)
    arguments = [compile_expression(a) for a in expression.args]
    types = tuple(a.type for a in expression.args)
    compute = _kernel(definition, arguments, types, expression)
    return _memoized(expression.digest, compute) if expression.deterministic else compute


def _kernel(
    definition: Definition,
    arguments: Sequence[Evaluator],
    types: tuple[DataType, ...],
    expression: Call,
) -> Evaluator:
    own = int(expression.digest[:15], 16)  # two calls of RAND in one batch are two random numbers

    def compute(batch: Batch) -> Vector:
        context = KernelContext(
            num_rows=batch.num_rows,
            result_type=expression.type,
            arg_types=types,
            proctime_ms=batch.proctime,
            seed=batch.seed ^ own,
            zone=expression.zone,
            watermarks=batch.watermarks,
        )
        return call(definition, [a(batch) for a in arguments], context)

    return compute


def _memoized(digest: str, compute: Evaluator) -> Evaluator:
    def reuse(batch: Batch) -> Vector:
        if not memo_enabled:
            return compute(batch)
        value = batch.memo.get(digest)
        if value is None:
            value = batch.memo[digest] = compute(batch)
            counters["expressions_computed"] += 1
        else:
            counters["expressions_reused"] += 1
        return cast(Vector, value)

    return reuse


def truth(vector: Vector, num_rows: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Returns a mask of the rows where a BOOLEAN is TRUE: not FALSE, not NULL, not in error."""
    values = vector.array(num_rows)
    if values.null_count:
        values = values.fill_null(False)
    result = np.asarray(values.to_numpy(zero_copy_only=False), dtype=bool)
    return result if vector.errors is None else result & ~vector.errors.mask
