"""Values of the test programs, which are JSON forms of Java's, as Arrow columns and as Flink prints
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

from parser.types import INT, Column, DataType, Root, Schema
from sqlengine.batch import Batch, RowKind
from sqlengine.connectors.print.values import printer

KINDS = {kind.short: kind for kind in RowKind}

# A row of a changelog: its kind and its values as Flink prints them.
Printed = tuple[str, tuple[str, ...]]


def batch_of(columns: Sequence[Column], rows: Sequence[tuple[str, Sequence[object]]]) -> Batch:
    """`[kind, [values…]]` as a batch; a value that a row lacks at its end is NULL."""
    arrays = []
    for i, column in enumerate(columns):
        values = [_value(row[i] if i < len(row) else None, column.type) for _, row in rows]
        arrays.append(pa.array(values, column.type.arrow))
    kinds = np.array([KINDS[kind] for kind, _ in rows], np.int8)
    return Batch(
        Schema(tuple(columns)), tuple(arrays), len(rows), kinds=kinds if kinds.any() else None
    )


def _value(value: object, kind: DataType) -> object:
    """One JSON value as what Arrow takes for the type."""
    if value is None:
        return None
    match kind.root:
        case Root.ROW:
            assert isinstance(value, list | dict)
            fields = value if isinstance(value, list) else list(value.values())
            return {
                n: _value(v, t) for n, v, t in zip(kind.names, fields, kind.children, strict=True)
            }
        case Root.ARRAY:
            assert isinstance(value, list)
            return [_value(v, kind.children[0]) for v in value]
        case Root.MAP | Root.MULTISET:
            assert isinstance(value, list | dict)
            pairs = value.items() if isinstance(value, dict) else value
            number = INT if kind.root is Root.MULTISET else kind.children[1]
            return [(_value(k, kind.children[0]), _value(v, number)) for k, v in pairs]
        case _:
            return _scalar(value, kind)


def _scalar(value: object, kind: DataType) -> object:
    text = str(value)
    match kind.root:
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ | Root.DATE | Root.TIME:
            unit = "D" if kind.root is Root.DATE else kind.arrow.unit
            moment = f"1970-01-01T{text}" if kind.root is Root.TIME else text.removesuffix("Z")
            return int(np.array(moment, f"datetime64[{unit}]").astype(np.int64))
        case Root.DECIMAL:
            return Decimal(text).quantize(Decimal(1).scaleb(-kind.scale))
        case Root.BINARY | Root.VARBINARY:
            return bytes(b & 255 for b in value) if isinstance(value, list) else bytes.fromhex(text)
        case Root.BOOLEAN:
            return value if isinstance(value, bool) else text.lower() == "true"
        case Root.FLOAT | Root.DOUBLE:
            return float(text)
        case Root.CHAR | Root.VARCHAR:
            return text
    return int(text) if kind.is_integer else value


def printed(batch: Batch) -> list[Printed]:
    """The rows as Flink prints them."""
    columns = [printer(c.type)(a) for c, a in zip(batch.schema, batch.columns, strict=True)]
    kinds = [0] * batch.num_rows if batch.kinds is None else batch.kinds.tolist()
    rows = zip(*columns, strict=True) if columns else [()] * batch.num_rows
    return [(RowKind(kind).short, tuple(row)) for kind, row in zip(kinds, rows, strict=True)]


def parsed(text: str) -> Printed:
    """`+I[1, {a=b, c=d}, x]` as kind and values."""
    values, depth, start, body = [], 0, 0, text[3:-1]
    for i, letter in enumerate(body):
        depth += (letter in "[{(") - (letter in "]})")
        if depth == 0 and body.startswith(", ", i):
            values.append(body[start:i])
            start = i + 2
    return text[:2], (*values, body[start:])


def joined(rows: Sequence[Printed]) -> Counter[str]:
    """Rows as texts, counted: what a value looks like inside does not matter."""
    return Counter(f"{kind}[{', '.join(values)}]" for kind, values in rows)


def materialised(rows: Sequence[Printed], key: Sequence[int]) -> Counter[str]:
    """What is there after all changes: by `key` (places of its columns), or as a bag of rows where
    there is none."""
    if not key:
        bag: Counter[str] = Counter()
        for kind, values in rows:
            bag[", ".join(values)] += 1 if kind in ("+I", "+U") else -1
        return Counter({row: count for row, count in bag.items() if count})
    held: dict[tuple[str, ...], str] = {}
    for kind, values in rows:
        place = tuple(values[i] for i in key)
        if kind in ("+I", "+U"):
            held[place] = ", ".join(values)
        else:
            held.pop(place, None)
    return Counter(held.values())


def difference(expected: Counter[str], found: Counter[str]) -> str | None:
    """What is missing and what is too many, None when they are equal."""
    missing, extra = sorted((expected - found).elements()), sorted((found - expected).elements())
    if not missing and not extra and expected == found:
        return None
    return f"{len(missing)} missing {missing[:3]}, {len(extra)} too many {extra[:3]}"
