"""Columns of texts as columns of a type."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import DataType, Root
from sqlengine.formats import times
from sqlengine.formats.csv_values import Dialect, FromText, from_text
from sqlengine.formats.java import TRIM
from sqlengine.formats.json_values import Unreadable

_CAST: Final = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_HELD: Final = (
    *_CAST,
    Root.BOOLEAN,
    Root.FLOAT,
    Root.DOUBLE,
    Root.DECIMAL,
    Root.CHAR,
    Root.VARCHAR,
    Root.BINARY,
    Root.VARBINARY,
    Root.DATE,
    Root.TIME,
    Root.TIMESTAMP,
    Root.TIMESTAMP_LTZ,
)


class TextColumn:
    """Reads texts as values of a column, at once where Arrow can. Times are read as the option
    'timestamp-format.standard' = 'ANY' of JSON does; bytes are those of the text."""

    def __init__(self, name: str, kind: DataType) -> None:
        self._name, self._kind = name, kind
        self._one: FromText = self._instant if kind.is_timestamp else from_text(kind, Dialect())

    @staticmethod
    def holds(kind: DataType) -> bool:
        """True if a text can be read as this type."""
        return kind.root in _HELD

    def __call__(self, texts: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """Returns the column, NULL where a text is of another type, and the reasons by row."""
        kind = self._kind
        if kind.is_string or kind.is_binary:
            return texts.cast(kind.arrow), {}
        if kind.is_timestamp:
            return self._times(texts)
        if kind.root in _CAST:
            try:
                return texts.cast(kind.arrow), {}
            except pa.ArrowInvalid:
                pass
        return self._one_by_one(texts)

    def _times(self, texts: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        column, doubtful = times.parse_timestamps(texts, self._kind, times.ANY)
        if not doubtful.any():
            return column, {}
        rows = np.flatnonzero(doubtful)
        read, wrong = self._one_by_one(texts.take(pa.array(rows)))
        at = np.arange(len(texts))
        at[rows] = len(texts) + np.arange(len(rows))
        whole = pa.concat_arrays([column, read]).take(pa.array(at))
        return whole, {int(rows[row]): reason for row, reason in wrong.items()}

    def _one_by_one(self, texts: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        values: list[object] = []
        wrong: dict[int, str] = {}
        for row, text in enumerate(texts.to_pylist()):
            try:
                values.append(None if text is None else self._one(text))
            except Unreadable as error:
                values.append(None)
                wrong[row] = f"{self._name}: {error}"
        return pa.array(values, self._kind.arrow), wrong

    def _instant(self, text: str) -> object:
        kind = self._kind
        value = times.parse_timestamp(text.strip(TRIM), kind.root, times.ANY, kind.precision)
        if value is None:
            raise Unreadable(f"'{text[:60]}' is not a {kind}")
        return value
