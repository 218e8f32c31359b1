"""Columns of messages, a field at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from parser.types import Root
from sqlengine.formats.protobuf.fields import ENUM, MESSAGE, UINT32, UINT64, Field
from sqlengine.formats.times import NANOS

if TYPE_CHECKING:
    from google.protobuf.message import Message

_SIZES: Final = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_SECOND: Final = 10**9

# From all messages of a batch to a column.
Read = Callable[[Sequence["Message"]], pa.Array]


def reader_of(field: Field, *, defaults: bool) -> Read:
    """Returns a reader of a column. `defaults`: a field that a message has not is its default, and
    not NULL."""
    get = attrgetter(field.name)
    name = field.name
    if field.mapped:
        return _maps(field, defaults=defaults)
    if field.repeated:
        return _lists(field, defaults=defaults)
    make = values_of(field, defaults=defaults)
    if defaults or not field.present:
        return lambda messages: make([get(m) for m in messages])

    def read(messages: Sequence[Message]) -> pa.Array:
        there = [m for m in messages if m.HasField(name)]
        values = make([get(m) for m in there])
        if len(there) == len(messages):
            return values
        return _scattered(values, [m.HasField(name) for m in messages])

    return read


def values_of(field: Field, *, defaults: bool) -> Callable[[Sequence[object]], pa.Array]:
    """Returns what makes a column of values of a field that are there."""
    kind = field.kind
    if field.is_instant:
        return lambda values: _instants(field, values)
    if field.form == MESSAGE:
        readers = [reader_of(f, defaults=defaults) for f in field.inner]
        fields = list(kind.arrow)

        def rows(values: Sequence[object]) -> pa.Array:
            return pa.StructArray.from_arrays([r(values) for r in readers], fields=fields)  # type: ignore[arg-type]

        return rows
    if field.form == ENUM and kind.is_string:
        names = dict(reversed(field.enum))  # of several the first one
        return lambda values: pa.array([_symbol(names, v) for v in values], pa.string())
    if field.form in (UINT32, UINT64) and not (field.form == UINT32 and kind.root is Root.BIGINT):
        # As Java has them: the highest bit is the sign.
        bits = _SIZES[kind.root]
        return lambda values: pa.array(np.array(values, f"u{bits // 8}").view(f"i{bits // 8}"))
    return lambda values: pa.array(values, kind.arrow)


def _symbol(names: dict[int, str], number: object) -> str:
    """Returns the name of an enum's value; one that is not known is its number."""
    assert isinstance(number, int)
    return names.get(number, str(number))


def _instants(field: Field, values: Sequence[object]) -> pa.Array:
    unit = NANOS[str(field.kind.arrow.unit)]
    instants = [_nanos(v) // unit for v in values]
    return pa.array(instants, pa.int64()).view(field.kind.arrow)


def _nanos(value: object) -> int:
    seconds, nanos = getattr(value, "seconds", 0), getattr(value, "nanos", 0)
    assert isinstance(seconds, int)
    assert isinstance(nanos, int)
    return seconds * _SECOND + nanos


def _lists(field: Field, *, defaults: bool) -> Read:
    get = attrgetter(field.name)
    make = values_of(field.inner[0], defaults=defaults)

    def read(messages: Sequence[Message]) -> pa.Array:
        lists = [get(m) for m in messages]
        sizes = [len(v) for v in lists]
        items = make(list(chain.from_iterable(lists)))
        return pa.ListArray.from_arrays(_offsets(sizes, defaults=defaults), items)

    return read


def _maps(field: Field, *, defaults: bool) -> Read:
    get = attrgetter(field.name)
    keys, values = (values_of(f, defaults=defaults) for f in field.inner)

    def read(messages: Sequence[Message]) -> pa.Array:
        maps = [get(m) for m in messages]
        sizes = [len(v) for v in maps]
        entries = list(chain.from_iterable(sorted(m.items(), key=lambda e: e[0]) for m in maps))
        return pa.MapArray.from_arrays(
            _offsets(sizes, defaults=defaults),
            keys([k for k, _ in entries]),
            values([v for _, v in entries]),
        )

    return read


def _offsets(sizes: Sequence[int], *, defaults: bool) -> pa.Array:
    """Returns the offsets of lists; one without elements is NULL unless `defaults`."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    empty = np.array([not s for s in sizes] + [False], np.bool_)
    return pa.array(offsets) if defaults else pa.array(offsets, mask=empty)


def _scattered(values: pa.Array, filled: Sequence[bool]) -> pa.Array:
    mask = np.array(filled, np.bool_)
    return values.take(pa.array(np.cumsum(mask) - 1, mask=~mask))
