"""CURRENT_WATERMARK: how far a stream has come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parser.types import DataType
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom

_NONE = np.iinfo(np.int64).min


def _types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 1 and types[0].is_timestamp else None


def _result(types: Types, literals: Literals) -> DataType:
    return DataType(types[0].root, precision=3)


@function(
    "CURRENT_WATERMARK", signature=Custom(_types, _result, "a time attribute"), deterministic=False
)
def current_watermark(ctx: KernelContext, rowtime: Values) -> Values:
    """CURRENT_WATERMARK(rowtime): the watermark before the row; NULL where there is none yet. The
    argument is the column for which a table declares a WATERMARK.

    >>> CURRENT_WATERMARK(ts)
    1970-01-01T00:00:01
    """
    if ctx.watermarks is None:
        return pa.nulls(ctx.num_rows, ctx.result_type.arrow)
    before = ctx.watermarks()
    return pa.array(before, mask=before == _NONE).view(ctx.result_type.arrow)
