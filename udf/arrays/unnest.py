"""UNNEST: the elements of an array or multiset, or the entries of a map, as rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from parser.types import INT, Column, DataType, Root
from udf.arrays.arrays import valid
from udf.tables import BindTable, Expanded, TableKernel, register_table
from udf.vector import Vector

UNNEST, WITH_ORDINALITY = "UNNEST", "UNNEST WITH ORDINALITY"


def unnested_columns(kind: DataType, *, ordinality: bool) -> tuple[Column, ...] | None:
    """The columns that UNNEST of a value of this type gives; None where it gives none. A row's
    fields are a column each."""
    match kind.root:
        case Root.ARRAY | Root.MULTISET:
            (element,) = kind.children
            if element.root is Root.ROW:
                pairs = zip(element.names, element.children, strict=True)
                columns = tuple(
                    Column(n, t.with_nullable(t.nullable or element.nullable)) for n, t in pairs
                )
            else:
                columns = (Column("EXPR$0", element),)
        case Root.MAP:
            columns = tuple(
                Column(n, t) for n, t in zip(("KEY", "VALUE"), kind.children, strict=True)
            )
        case _:
            return None
    return (*columns, Column("ORDINALITY", INT.with_nullable(False))) if ordinality else columns


def _bind(*, ordinality: bool) -> BindTable:
    def bind(types: Sequence[DataType]) -> TableKernel:
        (kind,) = types
        return lambda arguments, num_rows: _expanded(kind, arguments[0], num_rows, ordinality)

    return bind


def _expanded(kind: DataType, value: Vector, num_rows: int, ordinality: bool) -> Expanded:
    """NULL has no elements, and as in Flink a row that is NULL is none."""
    array = value.array(num_rows)
    offsets = np.asarray(array.offsets)
    sizes = np.where(valid(array, num_rows), np.diff(offsets), 0)
    rows = np.repeat(np.arange(num_rows), sizes)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = pa.array(np.repeat(offsets[:-1].astype(np.int64), sizes) + within)
    if kind.root is Root.ARRAY:
        elements = array.values.take(places)
        if pa.types.is_struct(elements.type) and elements.null_count:
            there = np.flatnonzero(valid(elements, len(elements)))
            elements, rows, within = elements.take(pa.array(there)), rows[there], within[there]
        columns = _fields(elements)
    elif kind.root is Root.MAP:
        columns = [array.keys.take(places), array.items.take(places)]
    else:
        times = np.asarray(array.items.take(places)).astype(np.int64)
        columns = [
            c.take(pa.array(np.repeat(np.arange(len(rows)), times)))
            for c in _fields(array.keys.take(places))
        ]
        rows = np.repeat(rows, times)
        within = np.arange(len(rows)) - np.searchsorted(rows, rows)
    numbers = [pa.array((within + 1).astype(np.int32))] if ordinality else []
    return Expanded(rows, (*columns, *numbers))


def _fields(elements: pa.Array) -> list[pa.Array]:
    """The fields of rows, or the elements themselves."""
    return list(elements.flatten()) if pa.types.is_struct(elements.type) else [elements]


register_table(UNNEST, _bind(ordinality=False))
register_table(WITH_ORDINALITY, _bind(ordinality=True))
