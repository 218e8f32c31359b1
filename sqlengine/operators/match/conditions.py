"""Conditions of DEFINE that read earlier rows, as closures over Python values.

Subexpressions over the current row alone are evaluated for whole batches by the kernels; the
closures combine them with values of the match's rows. What they cannot compute is passed to the
kernels, as a batch of one row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from parser.types import Column, DataType, Root, Schema
from planner.scalar import Call, ColumnRef, Literal, Scalar, columns_of, is_deterministic
from sqlengine.batch import Batch
from sqlengine.expressions import compile_expression, in_parts
from sqlengine.state.columns import storage, to_arrow, to_numpy
from udf.vector import Errors

# Reads a value of `history` by name; a closure takes the place of the row in the batch, and this.
Ask: TypeAlias = Callable[[str], object]
Evaluate: TypeAlias = Callable[[int, Ask], object]


class RowError(Exception):
    """A condition failed for a row."""


def python_values(kind: DataType, array: pa.Array) -> list[object]:
    """Returns the values as stored (dates and times as integers), None for NULL."""
    values, valid = to_numpy(kind, array)
    items: list[object] = values.tolist()
    if not valid.all():
        for row in np.flatnonzero(~valid).tolist():
            items[row] = None
    return items


def arrow_values(kind: DataType, values: Sequence[object]) -> pa.Array:
    """Reverses `python_values`."""
    valid = np.fromiter((v is not None for v in values), np.bool_, len(values))
    dtype = storage(kind)
    empty: object = None if dtype.kind == "O" else dtype.type(0)
    filled = np.fromiter((empty if v is None else v for v in values), dtype, len(values))
    return to_arrow(kind, filled, valid)


@dataclass
class RowExpressions:
    """The values of expressions over the row alone, for the current batch."""

    expressions: dict[str, Scalar]
    values: dict[str, list[object]]
    errors: dict[str, Errors | None]

    def load(self, batch: Batch) -> None:
        for digest, expression in self.expressions.items():
            vector = in_parts(compile_expression(expression), batch)
            self.values[digest] = python_values(expression.type, vector.array(batch.num_rows))
            self.errors[digest] = vector.errors

    def register(self, expression: Scalar) -> Evaluate:
        """Adds an expression; returns the closure that reads its value."""
        digest = expression.digest
        self.expressions[digest] = expression

        def value(row: int, ask: Ask) -> object:
            errors = self.errors[digest]
            if errors is not None and errors.mask[row]:
                raise RowError(errors.reason(row))
            return self.values[digest][row]

        return value


def compile_condition(
    expression: Scalar, history: frozenset[str], facts: RowExpressions
) -> Evaluate:
    """Compiles `expression` to a closure that asks for the columns in `history`."""
    # The largest subexpression without history goes to the kernels, once for a whole batch.
    if not columns_of(expression) & history:
        if isinstance(expression, Literal):
            return _literal(expression)
        return facts.register(expression)
    if isinstance(expression, ColumnRef):
        name = expression.name
        return lambda row, ask: ask(name)
    assert isinstance(expression, Call)
    arguments = [compile_condition(a, history, facts) for a in expression.args]
    make = _CLOSURES.get(expression.function)
    closure = (
        None if make is None or not is_deterministic(expression) else make(expression, arguments)
    )
    return closure or _by_kernel(expression, arguments)


def _literal(expression: Literal) -> Evaluate:
    if isinstance(expression.value, str | bytes):
        (constant,) = python_values(expression.type, compile_expression(expression)(_ONE).array(1))
        return lambda row, ask: constant
    value = expression.value
    return lambda row, ask: value


_ONE = Batch(Schema(()), (), 1)


def _by_kernel(expression: Call, arguments: Sequence[Evaluate]) -> Evaluate:
    """Compiles the call to the kernel over a batch of one row, whose columns are the arguments."""
    types = [a.type for a in expression.args]
    constant = [isinstance(a, Literal) for a in expression.args]
    names = [f"a{i}" for i in range(len(types))]
    columns = zip(names, types, expression.args, constant, strict=True)
    args = tuple(a if fixed else ColumnRef(n, t) for n, t, a, fixed in columns)
    call = Call(
        expression.function, args, expression.type, False, expression.position, expression.zone
    )
    compute = compile_expression(call)
    # Literals stay in the call: kernels may read them while they are compiled (a pattern, a unit).
    moving = [i for i, fixed in enumerate(constant) if not fixed]
    schema = Schema(tuple(Column(names[i], types[i]) for i in moving))

    def evaluate(row: int, ask: Ask) -> object:
        arrays = tuple(arrow_values(types[i], [arguments[i](row, ask)]) for i in moving)
        vector = compute(Batch(schema, arrays, 1))
        if vector.errors is not None and vector.errors.mask[0]:
            raise RowError(vector.errors.reason(0))
        return python_values(expression.type, vector.array(1))[0]

    return evaluate


# ---- what Python computes as the kernels do ------------------------------------------------------

Make: TypeAlias = Callable[[Call, Sequence[Evaluate]], Evaluate | None]


def _and(call: Call, arguments: Sequence[Evaluate]) -> Evaluate:
    def evaluate(row: int, ask: Ask) -> object:
        result: object = True
        for argument in arguments:
            value = argument(row, ask)
            if value is None:
                result = None
            elif not value:
                return False
        return result

    return evaluate


def _or(call: Call, arguments: Sequence[Evaluate]) -> Evaluate:
    def evaluate(row: int, ask: Ask) -> object:
        result: object = False
        for argument in arguments:
            value = argument(row, ask)
            if value is None:
                result = None
            elif value:
                return True
        return result

    return evaluate


def _not(call: Call, arguments: Sequence[Evaluate]) -> Evaluate:
    (inner,) = arguments

    def evaluate(row: int, ask: Ask) -> object:
        value = inner(row, ask)
        return None if value is None else not value

    return evaluate


def _is(holds: Callable[[object], bool]) -> Make:
    def make(call: Call, arguments: Sequence[Evaluate]) -> Evaluate:
        (inner,) = arguments
        return lambda row, ask: holds(inner(row, ask))

    return make


def _compared(compare: Callable[..., object]) -> Make:
    def make(call: Call, arguments: Sequence[Evaluate]) -> Evaluate | None:
        left, right = arguments
        if not _comparable(call.args[0].type, call.args[1].type):
            return None

        def evaluate(row: int, ask: Ask) -> object:
            a, b = left(row, ask), right(row, ask)
            return None if a is None or b is None else compare(a, b)

        return evaluate

    return make


def _comparable(left: DataType, right: DataType) -> bool:
    """True if Python compares the values as the kernels do: integers, and times of one unit."""
    if left.is_integer and right.is_integer:
        return True
    return left.root is right.root and left.root in _TIMES and left.arrow.equals(right.arrow)


_TIMES = (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.DOUBLE)
_WIDTHS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}


def _arithmetic(compute: Callable[..., int]) -> Make:
    """Compiles integer arithmetic, which wraps around."""

    def make(call: Call, arguments: Sequence[Evaluate]) -> Evaluate | None:
        bits = _WIDTHS.get(call.type.root)
        if bits is None or len(arguments) != 2 or not all(a.type.is_integer for a in call.args):
            return None
        left, right = arguments
        # Two's complement: for TINYINT, 127 + 1 becomes (128 + 128) & 255 - 128 = -128.
        half, mask = 1 << (bits - 1), (1 << bits) - 1

        def evaluate(row: int, ask: Ask) -> object:
            a, b = left(row, ask), right(row, ask)
            return None if a is None or b is None else ((compute(a, b) + half) & mask) - half

        return evaluate

    return make


def _case(call: Call, arguments: Sequence[Evaluate]) -> Evaluate:
    pairs = [(arguments[i], arguments[i + 1]) for i in range(0, len(arguments) - 1, 2)]
    default = arguments[-1]

    def evaluate(row: int, ask: Ask) -> object:
        for condition, value in pairs:
            if condition(row, ask):
                return value(row, ask)
        return default(row, ask)

    return evaluate


def _coalesce(call: Call, arguments: Sequence[Evaluate]) -> Evaluate:
    def evaluate(row: int, ask: Ask) -> object:
        for argument in arguments:
            value = argument(row, ask)
            if value is not None:
                return value
        return None

    return evaluate


def _cast(call: Call, arguments: Sequence[Evaluate]) -> Evaluate | None:
    """Passes the value for a cast to a wider integer, and for one that only drops nullability."""
    source, target = call.args[0].type, call.type
    if (
        source.root in _WIDTHS
        and target.root in _WIDTHS
        and _WIDTHS[source.root] <= _WIDTHS[target.root]
    ):
        return arguments[0]
    return None


_CLOSURES: Mapping[str, Make] = {
    "AND": _and,
    "OR": _or,
    "NOT": _not,
    "IS NULL": _is(lambda v: v is None),
    "IS NOT NULL": _is(lambda v: v is not None),
    "IS TRUE": _is(lambda v: v is True),
    "IS FALSE": _is(lambda v: v is False),
    "IS NOT TRUE": _is(lambda v: v is not True),
    "IS NOT FALSE": _is(lambda v: v is not False),
    "=": _compared(operator.eq),
    "<>": _compared(operator.ne),
    "<": _compared(operator.lt),
    "<=": _compared(operator.le),
    ">": _compared(operator.gt),
    ">=": _compared(operator.ge),
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "CASE": _case,
    "COALESCE": _coalesce,
    "CAST": _cast,
}


def truths(expression: Scalar, batch: Batch) -> tuple[list[int], Errors | None]:
    """Returns 1 where a condition over the row alone is TRUE, 2 where it fails, else 0."""
    vector = in_parts(compile_expression(expression), batch)
    values = np.asarray(
        vector.array(batch.num_rows).fill_null(False).to_numpy(zero_copy_only=False)
    ).astype(np.int64)
    if vector.errors is not None:
        values[vector.errors.mask] = 2
    return values.tolist(), vector.errors
