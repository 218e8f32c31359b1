"""Bodies of requests as the records of a table."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ServiceError
from parser.limits import present
from parser.types import Schema
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.pushed.csv_rows import CsvRows
from sqlengine.formats.registry import encoder_of
from sqlengine.system.untrusted.arrow_sizes import unpacked
from sqlengine.system.untrusted.arrow_values import decoded_size
from sqlengine.system.untrusted.json_sizes import elements

_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_VALUE: Final = msgspec.json.Decoder(msgspec.Raw)
_JSON: Final = ("application/json",)
_LINES: Final = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
_CSV: Final = ("text/csv",)
_ARROW: Final = ("application/vnd.apache.arrow.stream",)
_MOST_RECORDS: Final = 2_000_000  # rows of a request
_ROWS_AT_ONCE: Final = 8192  # that are written as JSON
_ANY: Final = ("", "application/octet-stream", "text/plain", "application/x-www-form-urlencoded")


class BadBody(ServiceError):
    """A body cannot be taken apart into records."""


class UnsupportedBody(ServiceError):
    """A body is of a kind that the table does not take."""


class Bodies:
    """Takes bodies apart for one table. A record that the table's format cannot read later becomes
    a dead letter: here only what is no sequence of records is refused."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._format = table.options["format"]
        self._readers = self._readers_by_kind()

    def records(self, body: bytes, kind: str) -> list[bytes]:
        """Returns the records of a body of this media type. BadBody, or UnsupportedBody."""
        kind, readers = kind.partition(";")[0].strip().lower(), self._readers
        reader = readers.get(kind)
        if reader is None:
            raise UnsupportedBody(
                f"table '{self._table.display}' takes no {kind[:100]}",
                hint="it takes " + ", ".join(k for k in readers if k),
            )
        return reader(body)

    def _readers_by_kind(self) -> dict[str, Callable[[bytes], list[bytes]]]:
        """Returns what takes a body apart, by the media types that the table's format takes."""
        of_lines = dict.fromkeys((*_LINES, *_ANY), _of_lines)
        if self._format == "json":
            return {
                **dict.fromkeys(_JSON, _of_json),
                **of_lines,
                **dict.fromkeys(_CSV, self._of_csv),
                **dict.fromkeys(_ARROW, self._of_arrow),
            }
        if self._format.endswith("json"):
            return {**dict.fromkeys(_JSON, _of_json), **of_lines}
        if self._format == "csv":
            return dict.fromkeys((*_CSV, *_ANY), _of_lines)
        if self._format == "raw":
            return dict.fromkeys((*_LINES, *_CSV, *_ANY, *_JSON), _of_lines)
        return dict.fromkeys(_ANY, lambda whole: [whole])

    def _of_csv(self, body: bytes) -> list[bytes]:
        """Rows of CSV with names of columns in the first line, as JSON. An empty field is NULL."""
        rows = CsvRows(body.decode("utf-8-sig", "replace"))
        found: list[bytes] = []
        size, most = 0, present().request_size
        try:
            for record in self._objects(rows):
                found.append(record)
                size += len(record)
                if size > most:
                    _check_size(size)
        except csv.Error as error:
            raise BadBody("the body is no CSV", detail=str(error)) from None
        return found

    def _objects(self, rows: CsvRows) -> Iterator[bytes]:
        names: list[str] | None = None
        for row in rows:
            if names is None:
                self._check_names(names := row)
                continue
            if rows.number > _MOST_RECORDS:
                _check_records(rows.number - 1)
            if row:
                yield msgspec.json.encode(_values(names, row, rows.number))
        if names is None:
            self._check_names([])

    def _check_names(self, names: list[str]) -> None:
        unknown = [name for name in names if name not in self._table.physical]
        if unknown or not names:
            columns = ", ".join(self._table.physical.names)
            raise BadBody(
                f"the first line of CSV names no column '{', '.join(unknown[:20])[:100]}'",
                hint=f"columns: {columns}",
            )

    def _of_arrow(self, body: bytes) -> list[bytes]:
        """Rows of an Arrow IPC stream, as JSON. Columns are found by name."""
        try:
            rows, size = unpacked(body)
            _check_size(size)
            _check_records(rows)
            with pa.ipc.open_stream(body) as reader:
                return self._of_batches(reader)
        except (pa.ArrowException, OSError) as error:
            detail = " ".join(str(error).split())[:300]
            raise BadBody("the body is no Arrow stream of this table", detail=detail) from None

    def _of_batches(self, reader: pa.RecordBatchReader) -> list[bytes]:
        found: list[bytes] = []
        size = 0
        for batch in reader:
            batch.validate(full=True)
            _check_size(decoded_size(batch))
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                more = self._encoded(batch.slice(start, _ROWS_AT_ONCE))
                size += sum(map(len, more))
                _check_size(size)
                found += more
        return found

    def _encoded(self, rows: pa.RecordBatch) -> list[bytes]:
        known = [c for c in self._table.physical if c.name in rows.schema.names]
        if len(known) < len(rows.schema.names):
            unknown = [n for n in rows.schema.names if n not in self._table.physical]
            raise BadBody(
                f"the stream has no column '{unknown[0][:100]}' of the table", detail=None
            )
        schema = Schema(tuple(known))
        columns = [_cast(rows.column(c.name), c.type.arrow) for c in known]
        batch = Batch(schema, tuple(columns), rows.num_rows)
        found: list[bytes] = encoder_of(self._table, schema).encode(batch).to_pylist()
        return found


def _check_size(size: int) -> None:
    most = present().request_size
    if size > most:
        raise BadBody(
            "the body has too many rows",
            detail=f"unpacked and as JSON they have more than {most} bytes",
            hint="send fewer at once",
        )


def _check_records(records: int) -> None:
    if not 0 <= records <= _MOST_RECORDS:
        raise BadBody(
            "the body has too many rows",
            detail=f"a request has {_MOST_RECORDS} at most",
            hint="send fewer at once",
        )


def _cast(column: pa.Array, to: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if column.type == to else pc.cast(column, to)


def _values(names: list[str], row: list[str], number: int) -> dict[str, str | None]:
    if len(row) != len(names):
        detail = f"row {number} has {len(row)} fields, and {len(names)} are named"
        raise BadBody("the body is no CSV of these columns", detail=detail)
    return dict(zip(names, (v or None for v in row), strict=True))


def _of_lines(body: bytes) -> list[bytes]:
    """The lines that are not empty."""
    _check_records(body.count(b"\n"))
    return [line for line in body.replace(b"\r\n", b"\n").split(b"\n") if line.strip()]


def _of_json(body: bytes) -> list[bytes]:
    """The elements of an array, or the one value that it is."""
    begin = body.lstrip()[:1]
    try:
        if begin != b"[":
            _VALUE.decode(body)
            return [body.strip()]
        if body.count(b",") >= _MOST_RECORDS:  # else it has no more elements
            _check_records(elements(body))
        return [bytes(raw) for raw in _ARRAY.decode(body)]
    except (msgspec.DecodeError, RecursionError) as error:
        hint = "one object a line is application/x-ndjson"
        raise BadBody("the body is no JSON", detail=str(error), hint=hint) from None
