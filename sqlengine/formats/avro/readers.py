"""Readers of records, arrays, maps and unions of Avro: what was written, as a column has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import INT, STRING, DataType, Root
from sqlengine.formats.avro.cursor import Cursor, Failures, IntArray, Mask
from sqlengine.formats.avro.leaves import (
    Booleans,
    Enums,
    Floats,
    Numbers,
    Reader,
    Texts,
    mismatch,
)
from sqlengine.formats.avro.schemas import AvroType, BadSchema
from sqlengine.formats.avro.skipping import skip, steps

_LEAVES: Final[dict[str, Callable[[str, AvroType, DataType], Reader]]] = {
    "boolean": Booleans,
    "int": Numbers,
    "long": Numbers,
    "float": Floats,
    "double": Floats,
    "bytes": Texts,
    "string": Texts,
    "fixed": Texts,
    "enum": Enums,
}


def reader_of(path: str, written: AvroType, kind: DataType) -> Reader:
    """Returns a reader of a column from what was written. BadSchema where that is not of its
    type."""
    if written.kind == "union":
        return Optional(path, written, kind)
    if written.kind == "null":
        return Nulls(path, kind)
    if written.kind in _LEAVES:
        return _LEAVES[written.kind](path, written, kind)
    match (written.kind, kind.root):
        case ("array", Root.ARRAY):
            return Arrays(path, written, kind)
        case ("map", Root.MAP | Root.MULTISET) if kind.children[0].is_string:
            return Maps(path, written, kind)
        case ("record" | "error", Root.ROW):
            return Structs(path, written, kind)
    raise mismatch(path, written, kind)


class Nulls:
    """Reads nothing as NULL."""

    def __init__(self, path: str, kind: DataType) -> None:
        if not kind.nullable:
            raise BadSchema(f"{path}: it is always null, and NOT NULL")
        self._type = kind.arrow

    def read(self, cursor: Cursor, lanes: IntArray) -> pa.Array:
        return pa.nulls(len(lanes), self._type)

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> pa.Array:
        return pa.nulls(len(lanes), self._type)


class Optional:
    """Reads a union of one type, and perhaps null."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        filled = [i for i, branch in enumerate(written.inner) if branch.kind != "null"]
        if len(filled) != 1:
            raise BadSchema(f"{path}: a union of several types is no {kind.plain}")
        (self._branch,) = filled
        self._inner = reader_of(path, written.inner[self._branch], kind)
        self._path, self._kind, self._branches = path, kind, len(written.inner)

    def read(self, cursor: Cursor, lanes: IntArray) -> pa.Array:
        branches = cursor.numbers(lanes)
        wrong = (branches < 0) | (branches >= self._branches)
        if wrong.any():
            cursor.fail(lanes[wrong], f"{self._path}: a union has no such branch")
        filled: Mask = branches == self._branch
        if filled.all():
            return self._inner.read(cursor, lanes)
        self._check(filled, cursor.failures, lanes)
        return _scattered(self._inner.read(cursor, lanes[filled]), filled)

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> pa.Array:
        filled = np.array([v is not None for v in values], np.bool_)
        self._check(filled, failures, lanes)
        there = [v for v in values if v is not None]
        return _scattered(self._inner.of(there, failures, lanes[filled]), filled)

    def _check(self, filled: Mask, failures: Failures, lanes: IntArray) -> None:
        if not self._kind.nullable and not filled.all():
            failures.add(lanes[~filled], f"{self._path}: it is null, and NOT NULL")


def _scattered(values: pa.Array, filled: Mask) -> pa.Array:
    """Returns the values where `filled` is True, NULL elsewhere."""
    at = np.cumsum(filled) - 1
    return values.take(pa.array(at, mask=~filled))


class Arrays:
    """Reads an array."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        self._inner = reader_of(path, written.inner[0], kind.children[0])
        self._type = kind.arrow

    def read(self, cursor: Cursor, lanes: IntArray) -> pa.Array:
        places: list[IntArray] = []
        pieces: list[pa.Array] = []
        for active in steps(cursor, lanes):
            places.append(active)
            pieces.append(self._inner.read(cursor, lanes[active]))
        offsets, order = _in_order(places, len(lanes))
        items = _together(pieces, order, self._type.value_type)
        return pa.ListArray.from_arrays(offsets, items)

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> pa.Array:
        lists = [v if isinstance(v, list) else [] for v in values]
        sizes = [len(v) for v in lists]
        items = self._inner.of([i for v in lists for i in v], failures, np.repeat(lanes, sizes))
        return pa.ListArray.from_arrays(_offsets(sizes), items)


class Maps:
    """Reads a map with texts as keys. Of a key that stands twice the last value counts."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        key = STRING.with_nullable(False)
        value = kind.children[1] if kind.root is Root.MAP else INT.with_nullable(False)
        self._keys = Texts(path, AvroType("string"), key)
        self._values = reader_of(path, written.inner[0], value)
        self._type = kind.arrow

    def read(self, cursor: Cursor, lanes: IntArray) -> pa.Array:
        places: list[IntArray] = []
        keys: list[pa.Array] = []
        values: list[pa.Array] = []
        for active in steps(cursor, lanes):
            places.append(active)
            keys.append(self._keys.read(cursor, lanes[active]))
            values.append(self._values.read(cursor, lanes[active]))
        offsets, order = _in_order(places, len(lanes))
        return self._made(
            offsets,
            _together(keys, order, self._type.key_type),
            _together(values, order, self._type.item_type),
        )

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> pa.Array:
        maps = [v if isinstance(v, dict) else {} for v in values]
        sizes = [len(v) for v in maps]
        keys = pa.array([k for v in maps for k in v], pa.string())
        items = [i for v in maps for i in v.values()]
        owners = np.repeat(lanes, sizes)
        return self._made(_offsets(sizes), keys, self._values.of(items, failures, owners))

    def _made(self, offsets: pa.Array, keys: pa.Array, values: pa.Array) -> pa.Array:
        return _distinct(pa.MapArray.from_arrays(offsets, keys, values), self._type)


def _distinct(maps: pa.Array, kind: pa.DataType) -> pa.Array:
    """Drops all but the last value of a key."""
    owners = np.repeat(np.arange(len(maps)), np.diff(np.asarray(maps.offsets)))
    entries = pa.table({"owner": owners, "key": maps.keys})
    if entries.group_by(["owner", "key"]).aggregate([]).num_rows == len(entries):
        return maps
    return pa.array([None if m is None else list(dict(m).items()) for m in maps.to_pylist()], kind)


class Structs:
    """Reads a record as a ROW: fields by name; what was not written is NULL."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        columns = dict(zip(kind.names, kind.children, strict=True))
        self._fields = Fields(f"{path}.", written, columns)
        self._type = kind.arrow

    def read(self, cursor: Cursor, lanes: IntArray) -> pa.Array:
        return self._made(self._fields.read(cursor, lanes))

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> pa.Array:
        return self._made(self._fields.of(values, failures, lanes))

    def _made(self, columns: Sequence[pa.Array]) -> pa.Array:
        return pa.StructArray.from_arrays(columns, fields=list(self._type))


class Fields:
    """Reads the fields of a record that are columns, and leaves the others out."""

    def __init__(self, path: str, written: AvroType, columns: Mapping[str, DataType]) -> None:
        if written.kind not in ("record", "error"):
            raise BadSchema(f"it is written as {written.kind}, and no record")
        self._columns = columns
        self._written = list(zip(written.names, written.inner, strict=True))
        self._readers: dict[str, Reader] = {}
        for name, kind in self._written:
            if name in columns:
                self._readers[name] = reader_of(f"{path}{name}", kind, columns[name])
        for name, column in columns.items():
            if name not in self._readers and not column.nullable:
                raise BadSchema(f"{path}{name}: it is not written, and NOT NULL")

    def read(self, cursor: Cursor, lanes: IntArray) -> list[pa.Array]:
        """Reads the columns, in their order."""
        found: dict[str, pa.Array] = {}
        for name, kind in self._written:
            if name in self._readers:
                found[name] = self._readers[name].read(cursor, lanes)
            else:
                skip(kind, cursor, lanes)
        return [
            found[name] if name in found else pa.nulls(len(lanes), column.arrow)
            for name, column in self._columns.items()
        ]

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> list[pa.Array]:
        """Makes the columns of what fastavro has read."""
        rows = [v if isinstance(v, dict) else {} for v in values]
        return [
            self._readers[name].of([r.get(name) for r in rows], failures, lanes)
            if name in self._readers
            else pa.nulls(len(lanes), column.arrow)
            for name, column in self._columns.items()
        ]


def _in_order(places: list[IntArray], lanes: int) -> tuple[pa.Array, IntArray]:
    """Returns the offsets of lists, and the order in which elements that were read step by step
    stand in them."""
    owners = np.concatenate([*places, np.zeros(0, np.int64)]).astype(np.int64)
    sizes = np.bincount(owners, minlength=lanes)
    return _offsets(sizes.tolist()), np.argsort(owners, kind="stable")


def _offsets(sizes: Sequence[int]) -> pa.Array:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.array(offsets)


def _together(pieces: list[pa.Array], order: IntArray, kind: pa.DataType) -> pa.Array:
    if not pieces:
        return pa.array([], kind)
    return pa.concat_arrays(pieces).take(pa.array(order))
