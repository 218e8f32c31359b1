"""The exact way to read JSON records: one by one, in Flink's rules of conversion, with the bad ones
apart.

Most records take a middle way: msgspec reads all of them at once into structs that hold the needed
fields only."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import Column, DataType, Root, Schema
from sqlengine.formats.base import BadRecord, of_column
from sqlengine.formats.json_values import Convert, Rules, Unreadable, converter, nullable

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_NULL = msgspec.Raw(b"null")

# The texts of a record's columns.
Fields: TypeAlias = Sequence[msgspec.Raw]


@dataclass(frozen=True)
class Sieved:
    """Columns by the sieve's schema, row i from record `rows[i]`.

    `bad` records gave no row. `malformed` holds those of `bad` that are no JSON by the strict
    rules; a record that is neither in `rows` nor in `bad` gives nothing."""

    columns: tuple[pa.Array, ...]
    rows: npt.NDArray[np.int64]
    bad: tuple[BadRecord, ...] = ()
    malformed: frozenset[int] = frozenset()


class Malformed(Exception):
    """A record is no JSON object (or array of them)."""


@dataclass(slots=True)
class _Rows:
    """The result so far of reading records one by one."""

    values: list[tuple[object, ...]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)
    malformed: set[int] = field(default_factory=set)


class Sieve:
    """Reads the columns of `schema`. Where `rules` are lenient, a bad value is NULL and a malformed
    record gives nothing; where fields are required, a record without one of them is bad."""

    def __init__(self, schema: Schema, rules: Rules) -> None:
        self.schema = schema
        self._rules = rules
        self._decode, self._quick, self._getters = _structs(schema, rules)
        self._converters = [_converter(c, rules) for c in schema]
        self._nullable = [nullable(c.type, rules) for c in schema]

    def read(self, records: Sequence[bytes], *, clean: bool = False) -> Sieved:
        """`clean` says that every record begins with { and ends with }: then they may be read
        together."""
        columns = self._together(records) if clean and not self._rules.required else None
        if columns is not None:
            return Sieved(columns, np.arange(len(records)))
        return self._one_by_one(records)

    def _together(self, records: Sequence[bytes]) -> tuple[pa.Array, ...] | None:
        """Reads all columns at once; None when any record needs a closer look.

        A record cannot run into the next one: that would need a raw line break in a string, which
        msgspec refuses, or a { directly after a }."""
        if self._quick is None:
            return None
        joined = b"\n".join(records)
        try:
            if not joined.isascii():
                # msgspec does not look into strings that nobody needs; Flink and the fast path do
                joined.decode()
            structs = self._quick.decode_lines(joined)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if len(structs) != len(records):
            return None
        try:
            return tuple(
                _column([get(s) for s in structs], c.type, convert, records)
                for get, c, convert in zip(self._getters, self.schema, self._nullable, strict=True)
            )
        except (
            Unreadable,
            _CloserLook,
            OverflowError,
            RecursionError,
            ValueError,  # pa.ArrowInvalid and errors of texts among them
            msgspec.DecodeError,
        ):
            return None

    def _one_by_one(self, records: Sequence[bytes]) -> Sieved:
        out = _Rows()
        for i, record in enumerate(records):
            if not record:
                continue
            try:
                self._read(i, record, out)
            except _MissingField as error:
                out.bad.append(BadRecord(i, f"missing field {error}"))
            except Malformed as error:
                out.malformed.add(i)
                if not self._rules.lenient:
                    out.bad.append(BadRecord(i, f"malformed JSON: {error}"))
        columns = tuple(
            pa.array([row[k] for row in out.values], c.type.arrow)
            for k, c in enumerate(self.schema)
        )
        return Sieved(
            columns, np.array(out.rows, np.int64), tuple(out.bad), frozenset(out.malformed)
        )

    def _read(self, i: int, record: bytes, out: _Rows) -> None:
        """Adds the record's row, its rows when it is an array of objects, or the reason why there
        is none."""
        rows: list[tuple[object, ...]] = []
        for item in self._objects(record):
            row = self._row(i, item, out)
            if row is None:
                return
            rows.append(row)
        out.values += rows
        out.rows += [i] * len(rows)

    def _objects(self, record: bytes) -> list[Fields]:
        try:
            record.decode()
            return [self._decode(record)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = str(error)
        if self._rules.rewritten and record.strip(_SPACE) == b"null":
            return []
        try:
            clean = normalise(record)
        except (ValueError, RecursionError):
            raise Malformed(reason.removeprefix("JSON is malformed: ")) from None
        items = [bytes(i) for i in _array.decode(clean)] if clean.startswith(b"[") else [clean]
        return [fields for item in items if (fields := self._item(item)) is not None]

    def _item(self, item: bytes) -> Fields | None:
        """The fields of one object; None for what gives no row."""
        try:
            return self._decode(item)
        except msgspec.ValidationError as error:
            missing = re.match("Object missing required field `(.*?)`", str(error))
            if missing:
                raise _MissingField(f"'{missing[1]}'") from None
            if self._rules.lenient or (self._rules.rewritten and item == b"null"):
                return None
            raise Malformed(str(error)) from None

    def _row(self, i: int, fields: Fields, out: _Rows) -> tuple[object, ...] | None:
        values: list[object] = []
        for given, column, convert in zip(fields, self.schema, self._converters, strict=True):
            raw = bytes(given)
            try:
                values.append(None if raw == b"null" else convert(raw))
            except (
                Unreadable,
                msgspec.DecodeError,
                UnicodeDecodeError,
                ValueError,
                RecursionError,
            ) as error:
                if not self._rules.lenient:
                    out.bad.append(BadRecord(i, f"column '{column.name}': {error}"))
                    return None
                values.append(None)
        return tuple(values)


def _structs(
    schema: Schema, rules: Rules
) -> tuple[
    Callable[[bytes], Fields],
    msgspec.json.Decoder[msgspec.Struct] | None,
    list[Callable[[object], object]],
]:
    """Returns a reader of one record's fields, a decoder of many records, and a getter per column.

    The decoder is None for a schema with a name that msgspec does not take."""
    if any(_NO_NAME.search(name) for name in schema.names):
        return _by_name(schema.names, rules), None, []
    names = [f"f{i}" for i in range(len(schema))]
    rename = {n: c.name for n, c in zip(names, schema, strict=True)}
    given = [(n, msgspec.Raw) if rules.required else (n, msgspec.Raw, _NULL) for n in names]
    quick = [(n, *_quick_type(c.type)) for n, c in zip(names, schema, strict=True)]
    decoder = msgspec.json.Decoder(msgspec.defstruct("Given", given, rename=rename, gc=False))
    getters: list[Callable[[object], object]] = [attrgetter(n) for n in names]

    def fields(record: bytes) -> Fields:
        found = decoder.decode(record)
        return [getattr(found, n) for n in names]

    return (
        fields,
        msgspec.json.Decoder(msgspec.defstruct("Quick", quick, rename=rename, gc=False)),
        getters,
    )


def _by_name(names: Sequence[str], rules: Rules) -> Callable[[bytes], Fields]:
    def fields(record: bytes) -> Fields:
        found = _fields.decode(record)
        missing = [n for n in names if n not in found] if rules.required else []
        if missing:
            raise _MissingField(f"'{missing[0]}'")
        return [found.get(n, _NULL) for n in names]

    return fields


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NO_NAME = re.compile('["\\\\\x00-\x1f]')
_array = msgspec.json.Decoder(list[msgspec.Raw])
_any_object = msgspec.json.Decoder(msgspec.defstruct("Any", [], gc=False))


def is_object(record: bytes) -> bool:
    """True if the record is one JSON object, by the strict rules."""
    try:
        record.decode()
        _any_object.decode(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def are_objects(lines: bytes) -> bool:
    """True if lines of records are JSON by the strict rules; texts are not looked into."""
    try:
        _any_object.decode_lines(lines)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


class _MissingField(Exception):
    """The record has no such field, and the table says that this is an error."""


class _CloserLook(Exception):
    """A column's values are read differently one by one."""


def _quick_type(kind: DataType) -> tuple[object, object]:
    """Returns the type that msgspec may read directly with the same result as `converter`, and the
    value where there is none; other values are converted from their text."""
    if kind.is_string:
        return str | int | None, None
    if kind.root in (Root.INT, Root.BIGINT):
        return int | None, None
    # Not `Raw | None`, for which msgspec accepts nothing but null.
    return msgspec.Raw, _NULL


def _column(
    values: list[object], kind: DataType, convert: Convert, records: Sequence[bytes]
) -> pa.Array:
    if kind.is_string:
        return _strings(values, records)
    if kind.root not in (Root.INT, Root.BIGINT):
        values = [convert(bytes(v)) for v in values]  # type: ignore[call-overload]
    return pa.array(values, kind.arrow)


def _strings(values: list[object], records: Sequence[bytes]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        if any(v == 0 and b"-0" in r for v, r in zip(values, records, strict=True)):
            raise _CloserLook from None  # -0 keeps its sign as text
        return pa.array(
            [v if v is None or v.__class__ is str else str(v) for v in values], pa.string()
        )


class _Number(str):
    """A number's text, kept as it was written."""

    __slots__ = ()


def normalise(record: bytes) -> bytes:
    """Rewrites JSON without what Flink accepts and msgspec refuses.

    That is a byte order mark, raw control characters and lone surrogates in strings, also as bytes
    (these become ?). ValueError where it is no object or array of them, or invalid UTF-8."""
    text = record.removeprefix(_BOM).strip(_SPACE).decode("utf-8", "surrogatepass")
    value = json.loads(
        text, strict=False, parse_int=_Number, parse_float=_Number, parse_constant=_refuse
    )
    if not isinstance(value, dict | list):
        raise ValueError("not an object")
    return _write(value).encode()


def _refuse(text: str) -> object:
    raise ValueError(f"{text} is not JSON")


def _write(value: object) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_write(k)}:{_write(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_write, value)) + "]"
        case _Number():
            return str(value)
        case str():
            return json.dumps(value.encode("utf-8", "replace").decode())
    return json.dumps(value)


def merge_sieved(parts: Sequence[tuple[npt.NDArray[np.int64], tuple[pa.Array, ...]]]) -> tuple[
    npt.NDArray[np.int64], tuple[pa.Array, ...]
]:  # fmt: skip
    """Parts of a batch (row i of a part is from record `rows[i]`) as one, in the order of the
    records."""
    filled = [p for p in parts if len(p[0])] or list(parts[:1])
    rows = np.concatenate([p[0] for p in filled])
    columns = tuple(pa.concat_arrays(group) for group in zip(*(p[1] for p in filled), strict=True))
    order = np.argsort(rows, kind="stable")
    if np.array_equal(order, np.arange(len(rows))):
        return rows, columns
    index = pa.array(order)
    return rows[order], tuple(c.take(index) for c in columns)


def _converter(column: Column, rules: Rules) -> Convert:
    with of_column(column.name):
        return converter(column.type, rules)
