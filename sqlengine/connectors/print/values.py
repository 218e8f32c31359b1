"""Values of a column as Java prints them, which is how Flink's print connector writes rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from parser.types import DataType, Root
from sqlengine.formats import times
from sqlengine.formats.texts import java_texts

Printer = Callable[[pa.Array], list[str]]


def printer(kind: DataType) -> Printer:
    """Returns a function from a column of `kind` to a text per row, 'null' for NULL."""
    if kind.is_binary:
        return _bytes
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.TIME):
        return partial(_time, kind)
    if kind.root in (Root.ARRAY, Root.MAP, Root.MULTISET):
        return partial(_many, kind)
    if kind.root is Root.ROW:
        return partial(_row, kind)
    return partial(_texts, kind)


def _time(kind: DataType, column: pa.Array) -> list[str]:
    zone = kind.root is Root.TIMESTAMP_LTZ
    texts = times.format_times(column, kind, times.ISO).to_pylist()
    return [
        "null" if t is None else (_java_time(t[:-1], instant=True) + "Z" if zone else _java_time(t))
        for t in texts
    ]


def _java_time(text: str, *, instant: bool = False) -> str:
    """Formats a time: the fraction has three, six or nine digits; LocalTime leaves out seconds
    that are zero, Instant does not."""
    whole, _, fraction = text.partition(".")
    if fraction:
        return f"{whole}.{fraction.ljust(-len(fraction) // 3 * -3, '0')}"
    return whole.removesuffix(":00") if whole.endswith(":00") and not instant else whole


def _many(kind: DataType, column: pa.Array) -> list[str]:
    """Formats [1, 2] and {k=1}: the elements of all rows are printed together."""
    ends = column.offsets.to_pylist()
    if kind.root is Root.ARRAY:
        items = printer(kind.children[0])(column.values)
        rows = ["[" + ", ".join(items[a:b]) + "]" for a, b in pairwise(ends)]
    else:
        counts = DataType(Root.INT) if kind.root is Root.MULTISET else kind.children[1]
        pairs = zip(
            printer(kind.children[0])(column.keys), printer(counts)(column.items), strict=True
        )
        items = [f"{k}={v}" for k, v in pairs]
        rows = ["{" + ", ".join(items[a:b]) + "}" for a, b in pairwise(ends)]
    return [
        "null" if missing else r
        for r, missing in zip(rows, column.is_null().to_pylist(), strict=True)
    ]


def _row(kind: DataType, column: pa.Array) -> list[str]:
    fields = [printer(child)(column.field(i)) for i, child in enumerate(kind.children)]
    rows = ["+I[" + ", ".join(values) + "]" for values in zip(*fields, strict=True)]
    return [
        "null" if missing else r
        for r, missing in zip(rows, column.is_null().to_pylist(), strict=True)
    ]


def _bytes(column: pa.Array) -> list[str]:
    """Formats bytes as signed numbers, as Java's are."""
    return [
        "null" if v is None else str(np.frombuffer(v, np.int8).tolist()) for v in column.to_pylist()
    ]


def _texts(kind: DataType, column: pa.Array) -> list[str]:
    if kind.root is Root.DECIMAL:
        return [str(text) for text in column.cast(pa.string()).fill_null("null").to_pylist()]
    texts: list[str] = java_texts(column, kind).fill_null("null").to_pylist()
    return texts
