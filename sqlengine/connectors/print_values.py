"""Values of a column as Java prints them, which is how Flink's print connector writes rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from parser.types import DataType, Root
from sqlengine.formats import times
from sqlengine.formats.json_values import java_double, java_float32

Printer = Callable[[pa.Array], list[str]]


def printer(kind: DataType) -> Printer:
    """From a column of `kind` to a text per row, 'null' for NULL."""
    if kind.root in _BY_ROOT:
        return _BY_ROOT[kind.root]
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.TIME):
        return partial(_time, kind)
    if kind.root in (Root.ARRAY, Root.MAP, Root.MULTISET):
        return partial(_many, kind)
    if kind.root is Root.ROW:
        return partial(_row, kind)
    return partial(_plain, str)


def _plain(write: Callable[[object], str], column: pa.Array) -> list[str]:
    return ["null" if v is None else write(v) for v in column.to_pylist()]


def _time(kind: DataType, column: pa.Array) -> list[str]:
    zone = kind.root is Root.TIMESTAMP_LTZ
    texts = times.format_times(column, kind, times.ISO).to_pylist()
    return ["null" if t is None else (_java_time(t[:-1], instant=True) + "Z" if zone else _java_time(t)) for t in texts]


def _java_time(text: str, *, instant: bool = False) -> str:
    """The fraction has three, six or nine digits; LocalTime leaves out seconds that are zero, Instant does not."""
    whole, _, fraction = text.partition(".")
    if fraction:
        return f"{whole}.{fraction.ljust(-len(fraction) // 3 * -3, '0')}"
    return whole.removesuffix(":00") if whole.endswith(":00") and not instant else whole


def _many(kind: DataType, column: pa.Array) -> list[str]:
    """[1, 2] and {k=1}: the elements of all rows are printed together."""
    ends = column.offsets.to_pylist()
    if kind.root is Root.ARRAY:
        items = printer(kind.children[0])(column.values)
        rows = ["[" + ", ".join(items[a:b]) + "]" for a, b in zip(ends, ends[1:], strict=False)]
    else:
        counts = DataType(Root.INT) if kind.root is Root.MULTISET else kind.children[1]
        pairs = zip(printer(kind.children[0])(column.keys), printer(counts)(column.items), strict=True)
        items = [f"{k}={v}" for k, v in pairs]
        rows = ["{" + ", ".join(items[a:b]) + "}" for a, b in zip(ends, ends[1:], strict=False)]
    return ["null" if missing else r for r, missing in zip(rows, column.is_null().to_pylist(), strict=True)]


def _row(kind: DataType, column: pa.Array) -> list[str]:
    fields = [printer(child)(column.field(i)) for i, child in enumerate(kind.children)]
    rows = ["+I[" + ", ".join(values) + "]" for values in zip(*fields, strict=True)]
    return ["null" if missing else r for r, missing in zip(rows, column.is_null().to_pylist(), strict=True)]


def _bytes(value: object) -> str:
    assert isinstance(value, bytes)
    return "[" + ", ".join(map(str, np.frombuffer(value, np.int8).tolist())) + "]"


def _float(column: pa.Array) -> list[str]:
    values = np.asarray(column.fill_null(0))
    return ["null" if m else java_float32(v) for v, m in zip(values, column.is_null().to_pylist(), strict=True)]


_BY_ROOT: dict[Root, Printer] = {
    Root.BOOLEAN: partial(_plain, lambda v: "true" if v else "false"),
    Root.FLOAT: _float,
    Root.DOUBLE: lambda column: ["null" if v is None else java_double(v) for v in column.to_pylist()],
    Root.DATE: lambda column: ["null" if v is None else v for v in column.cast(pa.string()).to_pylist()],
    Root.BINARY: partial(_plain, _bytes),
    Root.VARBINARY: partial(_plain, _bytes),
}
