"""The format 'json': one JSON object a record, as Flink reads and writes it.

A batch is read by arrow-rs in one call (json_fast). What that cannot read, or reads otherwise than
Flink, goes through the sieve (json_sieve): columns that hold numbers among strings, and records in
doubt. Both ways give equal rows, so no result depends on how records are batched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import OptionError
from parser.types import Schema
from sqlengine.formats.base import BadRecord, Decoded, Decoder, Encoder, Format, Option, selected
from sqlengine.formats.json_encode import JsonEncoder, Writing
from sqlengine.formats.json_fast import (
    BatchFailed,
    BoolArray,
    ColumnFailed,
    FastReader,
    can_read,
    suspicious,
)
from sqlengine.formats.json_sieve import Sieve, is_object, merge_sieved
from sqlengine.formats.json_values import Rules, holds_decimal
from sqlengine.formats.options import boolean, choice, exactly, parse_options
from sqlengine.formats.times import ANY, ISO, SQL, text_buffers

IntArray = npt.NDArray[np.int64]
Part = tuple[IntArray, tuple[pa.Array, ...]]

_SPACE = b" \t\r\n"
# After so many batches in which the fast path could have read a column, it gets the column back.
_PATIENCE = 64
_MOST_SPLITS = 32
_PIECE = 1 << 20
# Below so many records Python joins faster than Arrow.
_FEW = 500
# Up to so many records the exact way is faster than arrow-rs.
_ONE_BY_ONE = 8


class JsonFormat(Format):
    """Flink's JSON format."""

    name: ClassVar[str] = "json"
    options: ClassVar[Mapping[str, Option]] = {
        "fail-on-missing-field": Option(
            boolean, default="false", doc="a record without a column's field is bad"
        ),
        "ignore-parse-errors": Option(
            boolean, default="false", doc="bad values are NULL, bad records are skipped"
        ),
        "timestamp-format.standard": Option(
            exactly(SQL, ISO, ANY),
            default=SQL,
            doc="a server reads 'ANY' by default: both, with or without an offset from UTC",
        ),
        "map-null-key.mode": Option(
            choice("FAIL", "DROP", "LITERAL"), default="FAIL", doc="keys are never NULL here"
        ),
        "map-null-key.literal": Option(default="null"),
        "encode.decimal-as-plain-number": Option(
            boolean, default="false", doc="100.00 instead of 1E+2"
        ),
        "encode.ignore-null-fields": Option(boolean, default="false", doc="leave NULL columns out"),
        "decode.json-parser.enabled": Option(
            boolean, default="true", doc="'false' writes numbers for a STRING anew"
        ),
    }

    def decoder(
        self,
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> Decoder:
        values = parse_options(options, self.options, "format 'json'")
        if values["fail-on-missing-field"] and values["ignore-parse-errors"]:
            raise OptionError(
                "'fail-on-missing-field' and 'ignore-parse-errors' of format 'json' exclude each"
                " other",
                hint="leave one of them out",
                subject="fail-on-missing-field",
            )
        rules = Rules(
            str(values["timestamp-format.standard"]),
            lenient=bool(values["ignore-parse-errors"]),
            required=bool(values["fail-on-missing-field"]),
            rewritten=not values["decode.json-parser.enabled"],
            decimals=any(holds_decimal(c.type) for c in schema),
        )
        return JsonDecoder(selected(schema, columns), rules)

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        values = parse_options(options, self.options, "format 'json'")
        writing = Writing(
            standard=str(values["timestamp-format.standard"]),
            skip_nulls=bool(values["encode.ignore-null-fields"]),
            plain=bool(values["encode.decimal-as-plain-number"]),
        )
        return JsonEncoder(schema, writing)


@dataclass(frozen=True)
class _Split:
    """The columns that arrow-rs reads and those that the sieve reads; `places` is where each column
    of the schema stands in both."""

    fast: FastReader
    slow: Sieve | None
    places: tuple[int, ...]

    def order(self, fast: tuple[pa.Array, ...], slow: tuple[pa.Array, ...]) -> tuple[pa.Array, ...]:
        both = fast + slow
        return tuple(both[i] for i in self.places)


class JsonDecoder:
    """Reads JSON objects as columns. Not thread-safe: it remembers which columns hold values that
    arrow-rs does not read."""

    def __init__(self, schema: Schema, rules: Rules) -> None:
        self._schema = schema
        self._rules = rules
        self._sieve = Sieve(schema, rules)
        self._fixed = frozenset(c.name for c in schema if rules.required or not can_read(c.type))
        self._alone = None if self._fixed else FastReader(schema, rules)
        self._learned: dict[str, int] = {}
        self._splits: dict[frozenset[str], _Split] = {}

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`. An empty record gives nothing, an array of objects a row for each."""
        if len(records) == 0:
            return Decoded(tuple(pa.nulls(0, c.type.arrow) for c in self._schema), 0)
        starts = _pieces(records)
        if len(starts) == 2:
            return self._decode(records)
        return _concat(starts, [self._decode(records[a:b]) for a, b in pairwise(starts)])

    def _decode(self, records: pa.Array) -> Decoded:
        if len(records) <= _ONE_BY_ONE and (read := self._read_few(records)) is not None:
            return read
        joined = _join(records)
        odd = suspicious(records, joined)
        if odd is not None:
            records = pa.array([r.strip(_SPACE) for r in records.to_pylist()], pa.binary())
            joined = _join(records)
            odd = suspicious(records, joined)
        part = self._fast_part(records, joined, odd)
        if len(part[0]) == len(records):
            return Decoded(part[1], len(records))
        return self._with_the_rest(records, part, odd)

    def _read_few(self, records: pa.Array) -> Decoded | None:
        """Reads few records exactly, which then takes a fifth of the time that arrow-rs and all
        that is around it take. None where one is bad, or is not one row."""
        texts = records.to_pylist()
        clean = all(text.startswith(b"{") and text.endswith(b"}") for text in texts)
        read = self._sieve.read(texts, clean=clean)
        if read.bad or read.malformed or read.rows.tolist() != list(range(len(texts))):
            return None
        return Decoded(read.columns, len(texts))

    def _fast_part(self, records: pa.Array, joined: bytes, odd: BoolArray | None) -> Part:
        """Reads records with arrow-rs, without those of `odd` and others that it cannot read."""
        rows = np.arange(len(records))
        if odd is not None:
            rows = np.flatnonzero(~odd)
            records = records.take(pa.array(rows))
            joined = _join(records)
        try:
            columns, doubtful, split = self._fast(joined, len(records))
        except BatchFailed:
            good = [k for k, record in enumerate(records.to_pylist()) if is_object(record)]
            rows, records = rows[good], records.take(pa.array(good, pa.int64()))
            try:
                columns, doubtful, split = self._fast(_join(records), len(records))
            except BatchFailed:
                return rows[:0], tuple(pa.nulls(0, c.type.arrow) for c in self._schema)
        done = np.ones(len(rows), np.bool_) if doubtful is None else ~doubtful
        slow: tuple[pa.Array, ...] = ()
        if split.slow is not None:
            sieved = split.slow.read(records.to_pylist(), clean=True)
            done &= np.isin(np.arange(len(rows)), sieved.rows)
            slow = _filter(sieved.columns, done[sieved.rows])
        return rows[done], split.order(_filter(columns, done), slow)

    def _with_the_rest(self, records: pa.Array, part: Part, odd: BoolArray | None) -> Decoded:
        """`part`, and what reading one by one makes of the records that are not in it."""
        rest = np.setdiff1d(np.arange(len(records)), part[0])
        texts = records.take(pa.array(rest)).to_pylist()
        slow = self._sieve.read(texts)
        parts: list[Part] = [part, (rest[slow.rows], slow.columns)]
        forgiven: set[int] = set()
        for k in slow.malformed:
            columns = None if odd is not None and odd[rest[k]] else self._forgive(texts[k])
            if columns is not None:
                parts.append((rest[k : k + 1], columns))
                forgiven.add(k)
        rows, merged = merge_sieved(parts)
        bad = tuple(
            BadRecord(int(rest[b.row]), b.reason) for b in slow.bad if b.row not in forgiven
        )
        straight = np.array_equal(rows, np.arange(len(records)))
        return Decoded(merged, len(rows), None if straight else rows, bad)

    def _fast(
        self, joined: bytes, num_rows: int
    ) -> tuple[tuple[pa.Array, ...], BoolArray | None, _Split]:
        """Reads without the columns that have failed before, and learns those that fail now."""
        while True:
            split = self._split()
            try:
                columns, doubtful = split.fast.read(joined, num_rows)
            except ColumnFailed as failed:
                self._learned[failed.name] = _PATIENCE
                continue
            self._learned = {name: left - 1 for name, left in self._learned.items() if left > 1}
            return columns, doubtful, split

    def _split(self) -> _Split:
        slow = self._fixed.union(self._learned)
        if slow not in self._splits:
            if len(self._splits) >= _MOST_SPLITS:
                self._splits.clear()
            fast_schema = Schema(tuple(c for c in self._schema if c.name not in slow))
            slow_schema = Schema(tuple(c for c in self._schema if c.name in slow))
            names = fast_schema.names + slow_schema.names
            self._splits[slow] = _Split(
                FastReader(fast_schema, self._rules),
                Sieve(slow_schema, self._rules) if slow else None,
                tuple(names.index(c.name) for c in self._schema),
            )
        return self._splits[slow]

    def _forgive(self, record: bytes) -> tuple[pa.Array, ...] | None:
        """arrow-rs takes `{"a": 1,}` and 01. So that it does not matter what else is in a batch, a
        record that the sieve refuses gets its chance alone."""
        if self._alone is None:
            return None
        try:
            columns, doubtful = self._alone.read(record, 1)
        except (BatchFailed, ColumnFailed):
            return None
        return None if doubtful is not None else columns


def _pieces(records: pa.Array) -> list[int]:
    """Returns where pieces of about `_PIECE` bytes begin, and the end.

    Larger pieces make malloc return memory to the system and fetch it again, batch by batch: that
    doubled the time per record."""
    ends = text_buffers(records)[0][1:]
    first, last = int(ends[0]), int(ends[-1])
    if last - first <= _PIECE:
        return [0, len(records)]
    cuts = np.searchsorted(ends, np.arange(first + _PIECE, last, _PIECE))
    return sorted({0, *(int(c) for c in cuts), len(records)})


def _concat(starts: list[int], parts: list[Decoded]) -> Decoded:
    """The pieces of a batch as one; `starts` is where each begins."""
    columns = tuple(
        pa.concat_arrays(group) for group in zip(*(p.columns for p in parts), strict=True)
    )
    total = sum(p.num_rows for p in parts)
    bad = tuple(
        BadRecord(b.row + start, b.reason)
        for start, p in zip(starts, parts, strict=False)
        for b in p.bad
    )
    if all(p.rows is None for p in parts):
        return Decoded(columns, total, None, bad)
    rows = [
        start + (np.arange(p.num_rows) if p.rows is None else p.rows)
        for start, p in zip(starts, parts, strict=False)
    ]
    return Decoded(columns, total, np.concatenate(rows), bad)


def _filter(columns: tuple[pa.Array, ...], keep: BoolArray) -> tuple[pa.Array, ...]:
    return columns if keep.all() else tuple(c.filter(pa.array(keep)) for c in columns)


def _join(records: pa.Array) -> bytes:
    """Joins all records with line breaks."""
    if len(records) < _FEW:
        return b"\n".join(records.to_pylist())
    lists = pa.LargeListArray.from_arrays(pa.array([0, len(records)], pa.int64()), records)
    joined: bytes = pc.binary_join(lists, b"\n")[0].as_py()
    return joined
