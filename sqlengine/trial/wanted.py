"""Derives of which rows of its tables a row of a plan can come: a condition for each table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa

from parser.types import BOOLEAN, DataType
from planner.logical import (
    BinaryJoin,
    Filter,
    LogicalPlan,
    Project,
    Scan,
)
from planner.rewrite import conjunction, substitute
from planner.scalar import Call, ColumnRef, Literal, Scalar, columns_of, is_deterministic, walk
from planner.tables import Identifier
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import evaluate
from udf.vector import LiteralValue

_BOOLEAN = BOOLEAN.with_nullable(True)


def equalities(row: Batch, names: Sequence[str]) -> list[Scalar]:
    """Returns the conditions that columns are those of the only row of a batch, where they can be
    compared exactly."""
    found: list[Scalar] = []
    for name in names:
        kind, value = row.schema.type(name), row.column(name)[0]
        column = ColumnRef(name, kind)
        if not value.is_valid:
            found.append(Call("IS NULL", (column,), BOOLEAN))
        elif (literal := _literal(kind, value)) is not None:
            found.append(Call("=", (column, literal), _BOOLEAN))
    return found


def _literal(kind: DataType, value: pa.Scalar) -> Literal | None:
    arrow = value.type
    plain: LiteralValue
    if pa.types.is_temporal(arrow) and not pa.types.is_duration(arrow):
        plain = value.value
    elif pa.types.is_floating(arrow) or pa.types.is_nested(arrow) or pa.types.is_duration(arrow):
        return None
    else:
        plain = value.as_py()
    return Literal(plain, kind.with_nullable(False))


def wanted_rows(plan: LogicalPlan, conditions: Sequence[Scalar]) -> dict[Identifier, Scalar | None]:
    """Returns, for each table that a plan reads, a condition that all of its rows fulfil of which
    a row with these conditions can come; None where any row can be one.

    A condition goes through state only where it is about its keys: what is known of a key stays
    as it is without the rows of others."""
    found: dict[Identifier, Scalar | None] = {}
    for scan, condition in _scans(plan, list(conditions)):
        name = scan.table.name
        other = found.get(name)
        if name in found:
            both = condition is not None and other is not None
            found[name] = _or(condition, other) if both else None
        else:
            found[name] = condition
    return found


def _or(one: Scalar | None, other: Scalar | None) -> Scalar:
    assert one is not None
    assert other is not None
    return one if one.digest == other.digest else Call("OR", (one, other), _BOOLEAN)


def _scans(node: LogicalPlan, conditions: list[Scalar]) -> Iterator[tuple[Scan, Scalar | None]]:
    """Yields the scans below a node, each with the condition that its rows must fulfil."""
    match node:
        case Scan():
            yield node, conjunction(conditions) if conditions else None
        case Filter():
            own = [node.predicate] if is_deterministic(node.predicate) else []
            yield from _scans(node.input, [*conditions, *own])
        case Project():
            values = {n: e for n, e in node.items if is_deterministic(e)}
            kept = [c for c in conditions if columns_of(c) <= values.keys()]
            yield from _scans(node.input, [substitute(c, values) for c in kept])
        case _:
            for port, source in enumerate(node.inputs):
                names = _forwarded(node, port)
                kept = [c for c in conditions if columns_of(c) <= names.keys()]
                yield from _scans(source, [_renamed(c, names) for c in kept])


def _forwarded(node: LogicalPlan, port: int) -> Mapping[str, str]:
    """The columns of a node that are those of an input, by which its rows may be told apart."""
    names = node.column_sources(port)
    if isinstance(node, BinaryJoin):
        equal = dict(zip(node.keys(1 - port), node.keys(port), strict=True))
        others = node.column_sources(1 - port).items()
        names = {**{n: equal[c] for n, c in others if c in equal}, **names}
    if not node.stateful or (isinstance(node, BinaryJoin) and node.filters(port)):
        return names
    keys = node.exchange(port) or ()
    return {n: c for n, c in names.items() if c in keys}


def _renamed(condition: Scalar, names: Mapping[str, str]) -> Scalar:
    columns = {c.name: c for c in walk(condition) if isinstance(c, ColumnRef)}
    return substitute(
        condition, {name: replace(column, name=names[name]) for name, column in columns.items()}
    )


def rows_that(condition: Scalar | None, rows: Batch) -> IntArray:
    """Returns the numbers of the rows that fulfil a condition, or for which it fails."""
    if condition is None:
        return np.arange(rows.num_rows)
    value = evaluate(condition, rows)
    chosen = np.asarray(value.array(rows.num_rows).fill_null(False), np.bool_)
    if value.errors is not None:
        chosen = chosen | value.errors.mask
    return np.flatnonzero(chosen)


def volatile(plan: LogicalPlan, name: str) -> bool:
    """True if a column of a plan may have another value each time, such as that of NOW()."""
    while True:
        if isinstance(plan, Project):
            expression = dict(plan.items)[name]
            return not is_deterministic(expression) or any(
                volatile(plan.input, column) for column in columns_of(expression)
            )
        sources = [
            (source, names[name])
            for port, source in enumerate(plan.inputs)
            if name in (names := plan.column_sources(port))
        ]
        if not sources:
            return False
        plan, name = sources[0]


def any_of(conditions: Sequence[Scalar | None]) -> Scalar | None:
    """Returns a condition that one of these is fulfilled; None where any row fulfils one."""
    if any(c is None for c in conditions):
        return None
    return reduce(_or, conditions) if conditions else None
