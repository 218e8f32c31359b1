"""Columns as the texts that Flink's text formats hold."""

from __future__ import annotations

from binascii import b2a_base64

import numpy as np
import pyarrow as pa

from parser.types import DataType, Root
from sqlengine.formats import times
from sqlengine.formats.java import java_double, java_float32

_TIMES = (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


def java_texts(column: pa.Array, kind: DataType, standard: str = times.SQL) -> pa.StringArray:
    """Numbers as Java writes them, times by `standard`, bytes in Base64, strings as they are; NULL stays NULL. For
    types without elements."""
    if kind.root in _TIMES:
        return times.format_times(column, kind, standard)
    if kind.is_binary:
        values = [None if v is None else b2a_base64(v, newline=False).decode() for v in column.to_pylist()]
        return pa.array(values, pa.string())
    if kind.root is Root.DOUBLE:
        return pa.array([None if v is None else java_double(v) for v in column.to_pylist()], pa.string())
    if kind.root is Root.FLOAT:
        numbers = np.asarray(column.fill_null(0))
        return pa.array([java_float32(v) for v in numbers], pa.string(), mask=np.asarray(column.is_null()))
    return column.cast(pa.string())
