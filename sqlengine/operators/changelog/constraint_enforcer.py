"""Enforces NOT NULL and length constraints of a sink table, as Flink's ConstraintEnforcer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from parser.types import DataType, Root
from planner.logical import Constrain
from planner.logical.constraints import has_length, parts
from sqlengine.batch import Batch
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.dead_letters import dead_letters
from udf.time.plain import as_plain, from_plain, plain_type

# Returns the value to write, given a value and its path. Raises _Drop if the row is dropped, or
# _Violation with the reason.
_Converter: TypeAlias = Callable[[object, str], object]


class _Drop(Exception):
    """The row is dropped silently."""


class _Violation(Exception):
    """The row violates a constraint."""


class ConstraintEnforcerOperator:
    """Checks the constrained columns value by value, as Flink's ConstraintEnforcer, and passes the
    others unchanged.

    Stateless. Depending on `table.exec.sink.not-null-enforcer` and
    `table.exec.sink.type-length-enforcer`, a row that violates a constraint is dropped, or leaves
    by the error port, or its values are trimmed and padded.
    """

    def __init__(self, node: Constrain) -> None:
        self._node = node
        self._converters = {
            c.name: self._converter(c.type, top=True)
            for c in node.columns
            if self._is_constrained(c.type)
        }

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows or not self._converters:
            return [(0, batch)]
        columns = {c.name: batch.column(c.name) for c in batch.schema}
        keep, reasons = np.ones(batch.num_rows, np.bool_), dict[int, str]()
        for name, convert in self._converters.items():
            columns[name] = self._convert(name, convert, columns[name], keep, reasons)
        rows = batch.with_columns(batch.schema, [columns[n] for n in batch.schema.names])
        if not keep.all():
            rows = replace(rows.take(np.flatnonzero(keep)), watermark=batch.watermark)
        errors: Output = [(ERROR_PORT, self._failed(batch, reasons))] if reasons else []
        return [*errors, (0, rows)]

    def close(self) -> None: ...

    def _convert(
        self,
        name: str,
        convert: _Converter,
        column: pa.Array,
        keep: np.ndarray[tuple[int], np.dtype[np.bool_]],
        reasons: dict[int, str],
    ) -> pa.Array:
        """Returns the column to write; clears `keep` for rows that are not written."""
        values = as_plain(column).to_pylist()
        # A row that an earlier column dropped is not looked at again: it gets one reason.
        for i in np.flatnonzero(keep).tolist():
            try:
                values[i] = convert(values[i], name)
            except _Drop:
                keep[i] = False
            except _Violation as error:
                keep[i] = False
                reasons[i] = str(error)
        return from_plain(pa.array(values, plain_type(column.type)), column.type)

    def _is_constrained(self, kind: DataType) -> bool:
        if self._node.nulls == "DROP" and not kind.nullable:
            return True
        inner = [p for p in parts(kind, self._node.nested) if p is not kind]
        lengths = self._node.lengths != "IGNORE" and any(map(has_length, (kind, *inner)))
        return lengths or any(not p.nullable for p in inner)

    def _converter(self, kind: DataType, *, top: bool = False) -> _Converter:
        convert_value = self._non_null_converter(kind)
        drops = self._node.nulls == "DROP"

        def convert(value: object, path: str) -> object:
            if value is not None:
                return convert_value(value, path)
            # The plan itself checks NULLs at the top level that are errors.
            if kind.nullable or (top and not drops):
                return None
            if drops:
                raise _Drop
            raise _Violation(
                f"column '{path}' is NOT NULL, but a null value is being written into it"
            )

        return convert

    def _non_null_converter(self, kind: DataType) -> _Converter:
        """Returns the converter of values that are not NULL."""
        nested = self._node.nested
        if self._node.lengths != "IGNORE" and has_length(kind):
            return self._length_converter(kind)
        if nested != "IGNORE" and kind.root is Root.ROW:
            fields = [
                (n, self._converter(t)) for n, t in zip(kind.names, kind.children, strict=True)
            ]
            return lambda value, path: {n: f(value[n], f"{path}.{n}") for n, f in fields}  # type: ignore[index]
        if nested == "ROWS_AND_COLLECTIONS" and kind.root is Root.ARRAY:
            element = self._converter(kind.children[0])
            return lambda value, path: [element(v, f"{path}[{i}]") for i, v in enumerate(value)]  # type: ignore[var-annotated,arg-type]
        if nested == "ROWS_AND_COLLECTIONS" and kind.root is Root.MAP:
            key, item = map(self._converter, kind.children)
            return lambda value, path: [
                (key(k, f"{path}.key"), item(v, f"{path}[{k}]"))
                for k, v in value  # type: ignore[attr-defined]
            ]
        return lambda value, path: value

    def _length_converter(self, kind: DataType) -> _Converter:
        fixed = kind.root in (Root.CHAR, Root.BINARY)
        strict, length = self._node.lengths == "ERROR", kind.length

        def convert(value: object, path: str) -> object:
            assert isinstance(value, str | bytes)
            size = len(value)
            if size == length or (size < length and not fixed):
                return value
            if strict:
                raise _Violation(
                    f"column '{path}' is {kind.plain.with_nullable(True)}, but a string of length"
                    f" {size} is being written into it"
                )
            if size > length:
                return value[:length]
            return value.ljust(length) if isinstance(value, str) else value.ljust(length, b"\0")

        return convert

    def _failed(self, batch: Batch, reasons: dict[int, str]) -> Batch:
        rows = sorted(reasons)
        self._counters["rows_in_error"] += len(rows)
        return dead_letters(
            batch.take(np.array(rows, np.int64)),
            place="",
            subject="the row to write",
            reason=[reasons[i] for i in rows],
        )
