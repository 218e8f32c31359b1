"""The format 'json': one JSON object a record, as Flink reads and writes it.

A batch is read by arrow-rs in one call (json_fast). What that cannot read, or reads otherwise than Flink, goes through
the sieve (json_sieve): columns that hold numbers among strings, and records in doubt. Both ways give equal rows, so no
result depends on how records are batched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import PlanError
from parser.types import Schema
from sqlengine.formats.base import BadRecord, Decoded, Decoder, Encoder, Option
from sqlengine.formats.json_encode import JsonEncoder, Writing
from sqlengine.formats.json_fast import BatchFailed, BoolArray, ColumnFailed, FastReader, can_read, suspicious
from sqlengine.formats.json_sieve import Sieve, is_object, merge_sieved
from sqlengine.formats.json_values import Rules
from sqlengine.formats.options import boolean, choice, parse_options
from sqlengine.formats.registry import format_, wanted
from sqlengine.formats.times import ISO, SQL

IntArray = npt.NDArray[np.int64]
Part = tuple[IntArray, tuple[pa.Array, ...]]

_SPACE = b" \t\r\n"
# After so many batches in which the fast path could have read a column, it gets the column back.
_PATIENCE = 64
# Below so many records Python joins faster than Arrow.
_FEW = 500


@format_("json")
class JsonFormat:
    """Flink's JSON format. Accepted without effect: `decode.json-parser.enabled` (there is one parser),
    `map-null-key.*` (keys are never NULL here), `encode.decimal-as-plain-number` (they always are: 100.00, not 1E+2)."""

    name: ClassVar[str] = "json"
    line_separated: ClassVar[bool] = True
    options: ClassVar[Mapping[str, Option]] = {
        "fail-on-missing-field": Option(boolean, default="false", doc="a record without a column's field is bad"),
        "ignore-parse-errors": Option(boolean, default="false", doc="bad values are NULL, bad records are skipped"),
        "timestamp-format.standard": Option(choice(SQL, ISO), default=SQL),
        "map-null-key.mode": Option(choice("FAIL", "DROP", "LITERAL"), default="FAIL"),
        "map-null-key.literal": Option(default="null"),
        "encode.decimal-as-plain-number": Option(boolean, default="false"),
        "encode.ignore-null-fields": Option(boolean, default="false", doc="leave NULL columns out"),
        "decode.json-parser.enabled": Option(boolean, default="true"),
    }

    def decoder(self, schema: Schema, options: Mapping[str, str], columns: Sequence[str] | None = None) -> Decoder:
        values = parse_options(options, self.options, "format 'json'")
        if values["fail-on-missing-field"] and values["ignore-parse-errors"]:
            raise PlanError("'fail-on-missing-field' and 'ignore-parse-errors' of format 'json' exclude each other")
        standard = str(values["timestamp-format.standard"])
        return JsonDecoder(
            wanted(schema, columns),
            standard,
            ignore_errors=bool(values["ignore-parse-errors"]),
            require_fields=bool(values["fail-on-missing-field"]),
        )

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        values = parse_options(options, self.options, "format 'json'")
        writing = Writing(
            standard=str(values["timestamp-format.standard"]),
            skip_nulls=bool(values["encode.ignore-null-fields"]),
        )
        return JsonEncoder(schema, writing)


@dataclass(frozen=True)
class _Split:
    """Which columns arrow-rs reads and which the sieve; `places` is where each column of the schema stands in both."""

    fast: FastReader
    slow: Sieve | None
    places: tuple[int, ...]

    def order(self, fast: tuple[pa.Array, ...], slow: tuple[pa.Array, ...]) -> tuple[pa.Array, ...]:
        both = fast + slow
        return tuple(both[i] for i in self.places)


class JsonDecoder:
    """Not for several threads: it remembers which columns hold values that arrow-rs does not read."""

    def __init__(self, schema: Schema, standard: str, *, ignore_errors: bool, require_fields: bool) -> None:
        self._schema = schema
        self._rules = Rules(standard, lenient=ignore_errors)
        self._ignore, self._require = ignore_errors, require_fields
        self._sieve = self._make_sieve(schema)
        self._fixed = frozenset(c.name for c in schema if require_fields or not can_read(c.type))
        self._alone = None if self._fixed else FastReader(schema, standard)
        self._learned: dict[str, int] = {}
        self._splits: dict[frozenset[str], _Split] = {}

    def _make_sieve(self, schema: Schema) -> Sieve:
        return Sieve(schema, self._rules, ignore_errors=self._ignore, require_fields=self._require)

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`. An empty record gives nothing, an array of objects a row for each."""
        if len(records) == 0:
            return Decoded(tuple(pa.nulls(0, c.type.arrow) for c in self._schema), 0)
        joined = _join(records)
        odd = suspicious(records, joined)
        if odd is None:
            columns = self._whole(records, joined)
            if columns is not None:
                return Decoded(columns, len(records))
            return self._apart(records.to_pylist(), np.zeros(len(records), np.bool_))
        stripped = [r.strip(_SPACE) for r in records.to_pylist()]
        odd = suspicious(pa.array(stripped, pa.binary()), b"\n".join(stripped))
        return self._apart(stripped, np.zeros(len(stripped), np.bool_) if odd is None else odd)

    def _whole(self, records: pa.Array, joined: bytes) -> tuple[pa.Array, ...] | None:
        """All columns when every record gives exactly one row in the fast way, None otherwise."""
        try:
            columns, doubtful, split = self._fast(joined, len(records))
        except BatchFailed:
            return None
        if doubtful is not None:
            return None
        if split.slow is None:
            return columns
        slow = split.slow.read(records.to_pylist(), clean=True)
        return split.order(columns, slow.columns) if len(slow.rows) == len(records) else None

    def _fast(self, joined: bytes, num_rows: int) -> tuple[tuple[pa.Array, ...], BoolArray | None, _Split]:
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
            fast_schema = Schema(tuple(c for c in self._schema if c.name not in slow))
            slow_schema = Schema(tuple(c for c in self._schema if c.name in slow))
            names = fast_schema.names + slow_schema.names
            self._splits[slow] = _Split(
                FastReader(fast_schema, self._rules.standard),
                self._make_sieve(slow_schema) if slow else None,
                tuple(names.index(c.name) for c in self._schema),
            )
        return self._splits[slow]

    def _apart(self, records: list[bytes], odd: BoolArray) -> Decoded:
        """The records in the fast way that go that way, the others one by one."""
        part, rest = self._fast_part(records, np.flatnonzero(~odd))
        rest = np.union1d(rest, np.flatnonzero(odd))
        slow = self._sieve.read([records[i] for i in rest])
        parts: list[Part] = [part, (rest[slow.rows], slow.columns)]
        forgiven: set[int] = set()
        for k in slow.malformed:
            columns = None if odd[rest[k]] else self._forgive(records[rest[k]])
            if columns is not None:
                parts.append((rest[k : k + 1], columns))
                forgiven.add(k)
        rows, columns = merge_sieved(parts)
        bad = tuple(BadRecord(int(rest[b.row]), b.reason) for b in slow.bad if b.row not in forgiven)
        straight = len(rows) == len(records) and np.array_equal(rows, np.arange(len(records)))
        return Decoded(columns, len(rows), None if straight else rows, bad)

    def _fast_part(self, records: list[bytes], rows: IntArray) -> tuple[Part, IntArray]:
        """What the fast way makes of the records at `rows`, and which of them it leaves."""
        nothing: Part = (np.empty(0, np.int64), tuple(pa.nulls(0, c.type.arrow) for c in self._schema))
        given = rows
        for attempt in range(2):
            if len(given) == 0:
                return nothing, rows
            try:
                columns, doubtful, split = self._fast(b"\n".join([records[i] for i in given]), len(given))
                break
            except BatchFailed:
                if attempt:
                    return nothing, rows
                given = np.array([i for i in given if is_object(records[i])], np.int64)
        done = np.ones(len(given), np.bool_) if doubtful is None else ~doubtful
        slow: tuple[pa.Array, ...] = ()
        if split.slow is not None:
            sieved = split.slow.read([records[i] for i in given], clean=True)
            done &= np.isin(np.arange(len(given)), sieved.rows)
            slow = _filter(sieved.columns, done[sieved.rows])
        part = given[done], split.order(_filter(columns, done), slow)
        return part, np.setdiff1d(rows, part[0])

    def _forgive(self, record: bytes) -> tuple[pa.Array, ...] | None:
        """arrow-rs takes `{"a": 1,}` and 01. So that it does not matter what else is in a batch, a record that the
        sieve refuses gets its chance alone."""
        if self._alone is None:
            return None
        try:
            columns, doubtful = self._alone.read(record, 1)
        except (BatchFailed, ColumnFailed):
            return None
        return None if doubtful is not None else columns


def _filter(columns: tuple[pa.Array, ...], keep: BoolArray) -> tuple[pa.Array, ...]:
    return columns if keep.all() else tuple(c.filter(pa.array(keep)) for c in columns)


def _join(records: pa.Array) -> bytes:
    """All records, each but the last with a line break behind it."""
    if len(records) < _FEW:
        return b"\n".join(records.to_pylist())
    lists = pa.LargeListArray.from_arrays(pa.array([0, len(records)], pa.int64()), records)
    joined: bytes = pc.binary_join(lists, b"\n")[0].as_py()
    return joined
