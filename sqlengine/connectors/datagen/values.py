"""Columns of generated values.

Value `n` of a column is a function of `n`, the column's place and the seed: random bits come from a
counter that is mixed (SplitMix64), so any range of rows can be generated again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.errors import (
    OptionError,
    UnsupportedColumn,
    UnsupportedOption,
)
from parser.types import MAX_LENGTH, DataType, Root
from sqlengine.connectors.column_paths import parts_of
from sqlengine.connectors.datagen.bits import random_bits, random_digits, unit
from sqlengine.formats.times import NANOS

# From the first row and the one behind the last to the column.
Maker = Callable[[int, int], pa.Array]

_RANGES: dict[Root, tuple[int, int]] = {
    Root.TINYINT: (-(2**7), 2**7 - 1),
    Root.SMALLINT: (-(2**15), 2**15 - 1),
    Root.INT: (-(2**31), 2**31 - 1),
    Root.BIGINT: (-(2**63), 2**63 - 1),
}
_FLOATS = {
    Root.FLOAT: float(np.finfo(np.float32).max),
    Root.DOUBLE: float(np.finfo(np.float64).max),
}
_DAY_MS = 86_400_000
_TEXT_LENGTH = 100
# All digits of a DECIMAL: by default 28 are kept.
_WIDE = Context(prec=38, rounding=ROUND_DOWN)
_ENTRIES = 3  # of an ARRAY, a MAP or a MULTISET


@dataclass(frozen=True)
class Rows:
    """Parameters shared by all columns; `start` is the time of row 0 in ms."""

    seed: int
    rate: int
    start: int


@dataclass(frozen=True)
class Field:
    """A column, or a part of one ('tags.element'), and the table's options."""

    name: str
    type: DataType
    index: int
    options: Mapping[str, object]

    def option(self, name: str) -> object:
        """Returns an option of this field: 'min', 'max', …"""
        return self.options[f"fields.{self.name}.{name}"]

    def part(self, place: int) -> Field:
        """A field of a ROW, the element of an ARRAY or MULTISET, the key and the value of a MAP."""
        name, kind = parts_of(self.type)[place]
        return Field(
            f"{self.name}.{name}", kind, (self.index + 1) * 0x100000001B3 + place, self.options
        )

    @property
    def length(self) -> int | None:
        """The number of rows of a sequence; None for random columns."""
        if self.option("kind") != "sequence":
            return None
        return max(self.whole("end") - self.whole("start") + 1, 0)

    @property
    def characters(self) -> int:
        """The most characters, or bytes, of a random text."""
        own = self.type.length if self.type.length != MAX_LENGTH else _TEXT_LENGTH
        given = self.option("length")
        return given if isinstance(given, int) else own

    @property
    def entries(self) -> int:
        """The number of entries of an ARRAY, a MAP or a MULTISET."""
        given = self.option("length")
        return given if isinstance(given, int) else _ENTRIES

    @property
    def column(self) -> str:
        """The column that the field is, or is a part of."""
        return self.name.partition(".")[0]

    def no_range(self) -> OptionError:
        """Returns the error for a least and a greatest value between which there is none."""
        low, high = (f"fields.{self.name}.{name}" for name in ("min", "max"))
        return OptionError(
            f"'{low}' and '.max' are no range of {self.type}",
            subject=low if self.option("max") is None else high,
        )

    def whole(self, name: str) -> int:
        value = self.option(name)
        if not isinstance(value, int):
            kind = f"fields.{self.name}.kind"
            raise OptionError(
                f"column '{self.name}' needs the option 'fields.{self.name}.{name}'",
                detail=f"'{kind}' is 'sequence'",
                subject=kind,
            )
        return value

    def bound(self, name: str, default: float, parse: Callable[[str], float]) -> float:
        text = self.option(name)
        try:
            return default if text is None else parse(str(text))
        except ValueError:
            option = f"fields.{self.name}.{name}"
            raise OptionError(
                f"bad value '{text}' for option '{option}' of a {self.type}", subject=option
            ) from None


def maker(field: Field, rows: Rows) -> Maker:
    """Returns what makes the values of a column. PlanError for options that do not suit its type,
    UnsupportedError for a type that cannot be made up."""
    if field.option("kind") == "sequence":
        return _sequence(field)
    make = _random(field, rows)
    share = field.option("null-rate")
    assert isinstance(share, float)
    if not share:
        return make

    def with_nulls(first: int, end: int) -> pa.Array:
        nulls = unit(random_bits(first, end, field.index, rows.seed, 1)) < share
        return make(first, end).take(pa.array(np.arange(end - first), mask=nulls))

    return with_nulls


def _sequence(field: Field) -> Maker:
    if "." in field.name:
        raise UnsupportedOption(
            f"'{field.name}' cannot be a sequence",
            hint="columns can, their parts cannot",
            subject=f"fields.{field.name}.kind",
        )
    start, kind = field.whole("start"), field.type
    field.whole("end")
    if not (kind.is_numeric or kind.is_string):
        raise UnsupportedOption(
            f"column '{field.name}' of type {kind} cannot be a sequence",
            hint="numbers and texts can",
            subject=f"fields.{field.name}.kind",
        )

    def make(first: int, end: int) -> pa.Array:
        return pa.array(np.arange(start + first, start + end)).cast(kind.arrow, safe=False)

    return make


def _random(field: Field, rows: Rows) -> Maker:
    root = field.type.root
    if root in _RANGES:
        return _integers(field, rows)
    if root in _FLOATS or root is Root.DECIMAL:
        return _numbers(field, rows)
    if field.type.is_string or field.type.is_binary:
        return _texts(field, rows)
    if field.type.is_timestamp or root in (Root.DATE, Root.TIME):
        return _times(field, rows)
    if root is Root.ROW:
        return _row(field, rows)
    if root in (Root.ARRAY, Root.MAP, Root.MULTISET):
        return _collection(field, rows)
    if root is Root.BOOLEAN:
        return lambda first, end: pa.array(
            (random_bits(first, end, field.index, rows.seed, 0) & np.uint64(1)).astype(np.bool_)
        )
    raise UnsupportedColumn(
        f"datagen makes no {field.type}",
        hint=f"leave column '{field.name}' out, or compute it",
        subject=field.column,
    )


def _integers(field: Field, rows: Rows) -> Maker:
    low, high = _RANGES[field.type.root]
    low, high = int(field.bound("min", low, int)), int(field.bound("max", high, int))
    if not _RANGES[field.type.root][0] <= low <= high <= _RANGES[field.type.root][1]:
        raise field.no_range()
    span = high - low + 1

    def make(first: int, end: int) -> pa.Array:
        drawn = random_bits(first, end, field.index, rows.seed, 0)
        drawn = drawn if span == 2**64 else drawn % np.uint64(span)
        return pa.array((drawn + np.uint64(low % 2**64)).view(np.int64)).cast(field.type.arrow)

    return make


def _numbers(field: Field, rows: Rows) -> Maker:
    kind = field.type
    most = _FLOATS.get(kind.root) or float(10 ** (kind.precision - kind.scale)) * (1 - 2.0**-50)
    low, high = field.bound("min", -most, float), field.bound("max", most, float)
    if not -most <= low <= high <= most:
        raise field.no_range()

    def make(first: int, end: int) -> pa.Array:
        share = unit(random_bits(first, end, field.index, rows.seed, 0))
        values = low * (1 - share) + high * share
        if kind.root is not Root.DECIMAL:
            return pa.array(values).cast(kind.arrow, safe=False)
        step = Decimal(1).scaleb(-kind.scale)
        return pa.array(
            [Decimal(v).quantize(step, context=_WIDE) for v in values.tolist()], kind.arrow
        )

    return make


def _texts(field: Field, rows: Rows) -> Maker:
    """Hexadecimal digits, as Flink's."""
    length = field.characters
    if length > field.type.length:
        option = f"fields.{field.name}.length"
        raise OptionError(f"'{option}' is more than {field.type} holds", subject=option)
    varies = bool(field.option("var-len"))

    def make(first: int, end: int) -> pa.Array:
        digits = random_digits(first, end, field.index, rows.seed, length)
        lengths = np.full(end - first, length)
        if varies:
            drawn = random_bits(first, end, field.index, rows.seed, 0) % np.uint64(length)
            lengths = drawn.astype(np.int64) + 1
            digits = digits[np.arange(length) < lengths[:, None]]
        ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(digits))]
        return pa.Array.from_buffers(pa.binary(), end - first, buffers).cast(field.type.arrow)

    return make


def _times(field: Field, rows: Rows) -> Maker:
    past = field.option("max-past")
    reach = past if isinstance(past, int) else 0
    kind = field.type

    def make(first: int, end: int) -> pa.Array:
        millis = rows.start + np.arange(first, end) * 1000 // rows.rate
        if reach:
            millis -= (
                random_bits(first, end, field.index, rows.seed, 0) % np.uint64(reach + 1)
            ).astype(np.int64)
        if kind.root is Root.DATE:
            return pa.array((millis // _DAY_MS).astype(np.int32)).view(pa.date32())
        if kind.root is Root.TIME:
            millis %= _DAY_MS
        values = millis * (NANOS["ms"] // NANOS[kind.arrow.unit])
        return pa.array(values.astype(np.int32) if kind.arrow.bit_width == 32 else values).view(
            kind.arrow
        )

    return make


def _row(field: Field, rows: Rows) -> Maker:
    makers = [maker(field.part(i), rows) for i in range(len(field.type.children))]
    return lambda first, end: pa.StructArray.from_arrays(
        [make(first, end) for make in makers], fields=list(field.type.arrow)
    )


def _collection(field: Field, rows: Rows) -> Maker:
    """Makes values with 'length' entries each. The last of equal keys of a MAP counts; equal
    elements of a MULTISET are counted."""
    length = field.entries
    rows = replace(rows, rate=rows.rate * length)  # what is made is as late as its row
    makers = [maker(field.part(i), rows) for i in range(len(field.type.children))]
    if field.type.root is not Root.ARRAY:
        _check_key(field.part(0))

    def make(first: int, end: int) -> pa.Array:
        entries = [make(first * length, end * length) for make in makers]
        of = np.repeat(np.arange(end - first), length)
        if field.type.root is not Root.ARRAY:
            of, entries = _by_key(of, entries)
        offsets = pa.array(np.searchsorted(of, np.arange(end - first + 1)), pa.int32())
        nested = pa.ListArray if field.type.root is Root.ARRAY else pa.MapArray
        return nested.from_arrays(offsets, *entries, type=field.type.arrow)

    return make


def _check_key(key: Field) -> None:
    if key.type.children:
        raise UnsupportedColumn(
            f"datagen makes no keys of {key.type}",
            hint=f"see column '{key.name}'",
            subject=key.column,
        )
    if key.option("null-rate"):
        option = f"fields.{key.name}.null-rate"
        raise UnsupportedOption(
            f"'{option}' is not supported: a key is not NULL",
            hint="leave it out",
            subject=option,
        )


def _by_key(
    of: npt.NDArray[np.int64], entries: list[pa.Array]
) -> tuple[npt.NDArray[np.int64], list[pa.Array]]:
    """Keeps the last entry of each key of a row. Without values it counts the entries."""
    codes = np.asarray(entries[0].dictionary_encode().indices).astype(np.int64)
    pairs = (of * len(of) + codes)[::-1]
    _, last, counts = np.unique(pairs, return_index=True, return_counts=True)
    at = len(of) - 1 - last
    order = np.argsort(at)
    taken = pa.array(at[order])
    values = entries[1].take(taken) if len(entries) > 1 else pa.array(counts[order], pa.int32())
    return of[at[order]], [entries[0].take(taken), values]
