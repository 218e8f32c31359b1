"""Columns as the texts that Flink's text formats hold."""

from __future__ import annotations

from binascii import b2a_base64

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root
from sqlengine.formats import times
from sqlengine.formats.java import EXACT, java_double, java_float32

_TIMES = (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
# Java writes other numbers with an exponent.
_LEAST, _GREATEST = 1e-3, 1e7


def java_texts(column: pa.Array, kind: DataType, standard: str = times.SQL) -> pa.StringArray:
    """Writes values as Java does; for types without elements.

    Numbers as Java prints them, decimals without zeros at the end (12.70 is 12.7, 100 is 1E+2),
    times by `standard`, bytes in Base64, strings as they are; NULL stays NULL."""
    if kind.root in _TIMES:
        return times.format_times(column, kind, standard)
    if kind.is_binary:
        values = [
            None if v is None else b2a_base64(v, newline=False).decode() for v in column.to_pylist()
        ]
        return pa.array(values, pa.string())
    if kind.root in (Root.FLOAT, Root.DOUBLE):
        return _float_texts(column, kind)
    if kind.root is Root.DECIMAL:
        return _decimal_texts(column)
    return column.cast(pa.string())


def plain_texts(column: pa.Array) -> pa.StringArray:
    """Decimals with the digits of their scale and no exponent."""
    texts = column.cast(pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py() is not True:
        return texts
    return pa.array(
        [None if v is None else format(v, "f") for v in column.to_pylist()], pa.string()
    )


def trimmed_texts(column: pa.Array) -> pa.StringArray:
    """Decimals without zeros at the end and without an exponent."""
    texts = plain_texts(column)
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".") if column.type.scale > 0 else texts


def written_plainly(column: pa.Array) -> bool:
    """True if all values of a FLOAT or DOUBLE column are numbers, and Java prints none with an
    exponent."""
    return bool(_plain(np.asarray(column.fill_null(0))).all())


def _plain(numbers: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    values = np.abs(numbers)
    found: npt.NDArray[np.bool_] = (values == 0) | ((values >= _LEAST) & (values < _GREATEST))
    return found


def _float_texts(column: pa.Array, kind: DataType) -> pa.StringArray:
    """Plain ones as Arrow writes them, with a digit behind the point."""
    texts = column.cast(pa.string())
    texts = pc.if_else(
        pc.match_substring(texts, "."), texts, pc.binary_join_element_wise(texts, ".0", "")
    )
    numbers = np.asarray(column.fill_null(0))
    odd = ~_plain(numbers)
    if not odd.any():
        return texts
    double, values = kind.root is Root.DOUBLE, numbers[odd]
    exact = (
        [java_double(v) for v in values.tolist()] if double else [java_float32(v) for v in values]
    )
    return pc.replace_with_mask(texts, pa.array(odd), pa.array(exact, pa.string()))


def _decimal_texts(column: pa.Array) -> pa.StringArray:
    """Most are plain without their last zeros; those that then still end in 0, or are very small,
    have an exponent."""
    texts = column.cast(pa.string())
    odd = pc.match_substring(texts, "E")
    if column.type.scale > 0:
        texts = pc.if_else(odd, texts, pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), "."))
    tens = pc.and_(pc.ends_with(texts, "0"), pc.not_equal(texts, "0"))
    odd = np.asarray(pc.or_(odd, tens).fill_null(False))
    if not odd.any():
        return texts
    exact = [str(EXACT.normalize(v)) for v in column.filter(pa.array(odd)).to_pylist()]
    return pc.replace_with_mask(texts, pa.array(odd), pa.array(exact, pa.string()))
