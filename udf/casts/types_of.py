"""Functions that planning answers: the type of an expression, the session's database."""

from __future__ import annotations

import pyarrow as pa

from parser.types import MAX_LENGTH, STRING, DataType, Root, TimeAttribute
from udf.registry import KernelContext, Types, Values, function
from udf.signatures import Custom, always_nullable, takes, text


def _types(types: Types) -> tuple[DataType, ...] | None:
    fits = len(types) == 1 or (len(types) == 2 and types[1].root is Root.BOOLEAN)
    return tuple(types) if fits else None


def _full(t: DataType) -> str:
    """The name without the short forms STRING and BYTES."""
    written = str(t)
    return written.replace("STRING", f"VARCHAR({MAX_LENGTH})").replace(
        "BYTES", f"VARBINARY({MAX_LENGTH})"
    )


@function("TYPEOF", signature=Custom(_types, always_nullable(STRING), "a value and a BOOLEAN"))
def typeof(ctx: KernelContext, value: Values, full: Values | None = None) -> Values:
    """TYPEOF(value [, full]): the name of the value's type; if `full` is TRUE, without the short
    forms STRING and BYTES.

    >>> TYPEOF(1.5)
    'DECIMAL(2, 1) NOT NULL'
    """
    t = ctx.arg_types[0].as_attribute(TimeAttribute.NONE)
    if full is None:
        return pa.repeat(pa.scalar(str(t)), ctx.num_rows)
    column = pa.repeat(full, ctx.num_rows) if isinstance(full, pa.Scalar) else full
    return pa.array([_full(t) if flag else str(t) for flag in column.to_pylist()], pa.string())


@function("CURRENT_DATABASE", signature=takes(text, result=STRING))
def current_database(ctx: KernelContext, name: Values) -> Values:
    """CURRENT_DATABASE(): the session's database when the statement was planned.

    >>> CURRENT_DATABASE()
    'default_database'
    """
    return name
