"""The requests that take the rows of an epoch to a webhook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from parser.errors import OptionError
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.http.authorization import HEADER
from sqlengine.connectors.http.column_values import ColumnValues
from sqlengine.connectors.http.headers import check_header
from sqlengine.connectors.http.templates import (
    Template,
    Values,
    as_text,
    json_template,
    relative_parts,
    text_template,
    url_template,
)
from sqlengine.formats.base import Encoder
from sqlengine.formats.registry import encoder_for

# Headers that are made here, or by the client.
_OURS: Final = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "content-type")
)
_TYPES: Final = {"array": "application/json", "lines": "application/x-ndjson", "csv": "text/csv"}


@dataclass(frozen=True)
class Record:
    """A row as it is sent: its bytes, and the URL and headers that it asks for."""

    body: bytes
    url: str
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Request:
    """A request with the rows `first` to `first + len(records)` of an epoch; `number` counts the
    epoch's requests."""

    number: int
    first: int
    records: Sequence[bytes] = field(repr=False)
    url: str
    headers: tuple[tuple[str, str], ...]


class Requests:
    """Makes the requests of one table, from its rows and definition alone. PlanError for options
    that contradict each other or the table's columns."""

    def __init__(self, table: Table, options: Mapping[str, object]) -> None:
        names = table.physical.names
        self._most_rows, self._most_bytes = _limits(options)
        self._form = _form(table, options)
        self._names = names
        self._encoder: Encoder = encoder_for(table)
        self._url = url_template(_url(options), names, "url")
        self._headers = _headers(table, options)
        body, self.content_type = options["body"], _content_type(table, options, self._form)
        self._body = None if body is None else self._template(table, str(body))
        self._in_head = _named([self._url, *self._headers.values()])
        self._named = _named([self._url, *self._headers.values(), *([self._body] if body else [])])
        self._values = ColumnValues(table, self._named)
        some = dict.fromkeys(self._url.columns, msgspec.Raw(b'"x"'))
        self._dots = relative_parts(self._url.filled(some))

    def _template(self, table: Table, body: str) -> Template:
        if self._most_rows > 1:
            raise OptionError(
                f"'body' of table '{table.display}' is a template of one row",
                hint="leave out 'sink.batch.max-rows', or 'body'",
                subject="body",
            )
        make = json_template if "json" in self.content_type else text_template
        return make(body, table.physical.names, "body")

    def records(self, rows: Batch) -> list[Record]:
        """Returns what is sent of rows. SqlError, or what the format raises, where a row cannot be
        sent."""
        if not self._named:
            url = self._url.filled({})
            fixed = tuple((name, t.filled({})) for name, t in self._headers.items())
            return [Record(body, url, fixed) for body in self._encoded(rows)]
        values = self._values.of(rows)
        bodies = self._encoded(rows) if self._body is None else [self._filled(v) for v in values]
        return [
            Record(body, self._url.filled(row), self._head(row))
            for body, row in zip(bodies, values, strict=True)
        ]

    def _encoded(self, rows: Batch) -> list[bytes]:
        own = rows.with_columns(
            rows.schema.select(self._names), [rows.column(n) for n in self._names]
        )
        found: list[bytes] = self._encoder.encode(own).to_pylist()
        return found

    def _filled(self, row: Values) -> bytes:
        assert self._body is not None
        return self._body.filled(row).encode()

    def _head(self, row: Values) -> tuple[tuple[str, str], ...]:
        return tuple((name, t.filled(row)) for name, t in self._headers.items())

    def refused(self, rows: Batch) -> dict[int, str]:
        """Returns the rows that make no URL or header, with the reasons."""
        if not self._in_head:
            return {}
        found: dict[int, str] = {}
        for row, values in enumerate(self._values.of(rows)):
            for name in self._in_head:
                reason = _unfit(values[name])
                if reason is not None:
                    found[row] = f"column '{name}' {reason}"
            if row not in found and relative_parts(self._url.filled(values)) > self._dots:
                found[row] = "its values make '.' or '..' a part of the URL's path: another path"
        return found

    def of(self, records: Iterable[Record]) -> Iterator[Request]:
        """Yields the requests of an epoch: rows in order, as many in one as the options allow."""
        held: list[bytes] = []
        last: Record | None = None
        size = number = first = 0
        for record in records:
            if last is not None and (
                len(held) >= self._most_rows
                or size + len(record.body) > self._most_bytes
                or (record.url, record.headers) != (last.url, last.headers)
            ):
                yield Request(number, first, held, last.url, last.headers)
                number, first = number + 1, first + len(held)
                held, size = [], 0
            held.append(record.body)
            size += len(record.body) + 1
            last = record
        if last is not None:
            yield Request(number, first, held, last.url, last.headers)

    def body(self, records: Sequence[bytes]) -> bytes:
        """Returns the body of a request with these rows."""
        if self._most_rows == 1:
            return records[0]
        if self._form == "array":
            return b"[" + b",".join(records) + b"]"
        return b"".join(r if r.endswith(b"\n") else r + b"\n" for r in records)


def _named(templates: Iterable[Template | None]) -> list[str]:
    found = (name for t in templates if t is not None for name in t.columns)
    return list(dict.fromkeys(found))


def _unfit(value: msgspec.Raw) -> str | None:
    """Returns why a value stands in no URL or header; None where it does."""
    if bytes(value) == b"null":
        return "is NULL, and stands in the URL or a header"
    text = as_text(value)
    if not text:
        return "is empty, and stands in the URL or a header"
    if any(ord(c) < 32 or ord(c) == 127 for c in text):
        return "has a line break or another control character, and stands in the URL or a header"
    return None


def _url(options: Mapping[str, object]) -> str:
    return str(options["url"]) + str(options["url.suffix"] or "")


def _limits(options: Mapping[str, object]) -> tuple[int, int]:
    rows, size = options["sink.batch.max-rows"], options["sink.batch.max-bytes"]
    assert isinstance(rows, int)
    assert isinstance(size, int)
    return rows, size


def _form(table: Table, options: Mapping[str, object]) -> str:
    form, is_json = options["sink.batch.form"], table.options["format"].endswith("json")
    if form == "array" and not is_json:
        raise OptionError(
            f"rows of table '{table.display}' make no array",
            detail="an array is one of JSON objects",
            hint="'sink.batch.form' = 'lines'",
            subject="sink.batch.form",
        )
    return str(form or ("array" if is_json else "lines"))


def _content_type(table: Table, options: Mapping[str, object], form: str) -> str:
    given = options["content-type"]
    if given is not None:
        return str(given)
    format_ = table.options["format"]
    if format_.endswith("json"):
        single = options["sink.batch.max-rows"] == 1
        return _TYPES["array" if single else form]
    return _TYPES.get(format_, "application/octet-stream")


def _headers(table: Table, options: Mapping[str, object]) -> dict[str, Template]:
    found = {}
    for option, text in options.items():
        if option.startswith(HEADER):
            name = option.removeprefix(HEADER)
            _check_not_ours(table, name)
            check_header(table, name, str(text))
            found[name] = text_template(str(text), table.physical.names, option)
    return found


def _check_not_ours(table: Table, name: str) -> None:
    if name.lower() in _OURS:
        raise OptionError(
            f"header '{name}' of table '{table.display}' is made by the connector",
            hint="use the option 'content-type'"
            if name.lower() == "content-type"
            else "leave the option out",
            subject=HEADER + name,
        )
