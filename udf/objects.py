"""OBJECT_OF and OBJECT_UPDATE: values with named fields and the name of a class, which nothing
loads."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from parser.errors import PlanError
from parser.types import DataType, Root
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom


def _of_types(types: Types) -> tuple[DataType, ...] | None:
    fits = len(types) % 2 == 1 and types[0].is_string and _pairs_fit(types[1:])
    return tuple(types) if fits else None


def _update_types(types: Types) -> tuple[DataType, ...] | None:
    fits = len(types) % 2 == 1 and types[0].root is Root.STRUCTURED and _pairs_fit(types[1:])
    return tuple(types) if fits else None


def _pairs_fit(types: Types) -> bool:
    return all(t.is_string for t in types[::2]) and all(
        t.root is not Root.NULL for t in types[1::2]
    )


def _named(types: Types, literals: Literals) -> dict[str, DataType]:
    """The types of the values by their fields' names."""
    fields: dict[str, DataType] = {}
    for i in range(1, len(types), 2):
        name = literals[i]
        if not isinstance(name, str):
            raise PlanError(f"argument {i + 1} is the name of a field, which is a literal")
        if name in fields:
            raise PlanError(f"field '{name}' is given twice")
        fields[name] = types[i + 1]
    return fields


def _made(types: Types, literals: Literals) -> DataType:
    if not isinstance(literals[0], str):
        raise PlanError("the name of a class is a literal")
    named = _named(types, literals)
    return DataType(
        Root.STRUCTURED, children=tuple(named.values()), names=tuple(named), class_name=literals[0]
    )


def _updated(types: Types, literals: Literals) -> DataType:
    fields, named = types[0], _named(types, literals)
    for name in named:
        if name not in fields.names:
            raise PlanError(
                f"an object has no field '{name}'", hint=f"its fields are {', '.join(fields.names)}"
            )
    children = tuple(named.get(n, c) for n, c in zip(fields.names, fields.children, strict=True))
    return replace(fields, children=children, nullable=True)


@function(
    "OBJECT_OF",
    signature=Custom(
        _of_types, _made, "the name of a class, then names of fields and their values,"
    ),
)
def object_of(ctx: KernelContext, class_name: Values, *pairs: Values) -> Values:
    """OBJECT_OF(class, name, value, …): a structured value with these fields; the class and the
    names are literals. No class is loaded. Fields are read as value.name.

    >>> OBJECT_OF('User', 'name', 'Bob', 'age', 42).age
    42
    """
    kind = ctx.result_type.arrow
    columns = [_column(v, f.type, ctx.num_rows) for v, f in zip(pairs[1::2], kind, strict=True)]
    if not columns:
        return pa.array([{}] * ctx.num_rows, kind)
    return pa.StructArray.from_arrays(columns, fields=list(kind))


@function(
    "OBJECT_UPDATE",
    signature=Custom(_update_types, _updated, "an object, then names of fields and their values,"),
)
def object_update(ctx: KernelContext, subject: Values, *pairs: Values) -> Values:
    """OBJECT_UPDATE(object, name, value, …): the object with new values in these fields, which take
    the values' types.

    >>> OBJECT_UPDATE(OBJECT_OF('User', 'name', 'Bob', 'age', 42), 'age', 43).age
    43
    """
    whole = _column(subject, subject.type, ctx.num_rows)
    kind = ctx.result_type.arrow
    if not ctx.num_rows:
        return pa.array([], kind)
    names = [(n if isinstance(n, pa.Scalar) else n[0]).as_py() for n in pairs[::2]]
    given = dict(zip(names, pairs[1::2], strict=True))
    columns = [
        _column(given[f.name], f.type, ctx.num_rows) if f.name in given else whole.flatten()[i]
        for i, f in enumerate(kind)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=whole.is_null())


def _column(values: Values, kind: pa.DataType, num_rows: int) -> pa.Array:
    column = pa.repeat(values, num_rows) if isinstance(values, pa.Scalar) else values
    return column.cast(kind)
