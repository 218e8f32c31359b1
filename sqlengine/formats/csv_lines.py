"""The framing of CSV files: a line break between quotes or after an escape ends no record."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from sqlengine.formats.csv_values import Dialect
from sqlengine.formats.lines import Framed, LineFraming

_LINES = LineFraming()
_END = rb"(?:\r\n|\n|\r)"


class CsvFraming:
    """A record ends with LF, CR LF or CR. A quote counts at the beginning of a field only; a record
    whose quote is not closed goes on to the end of the file."""

    def __init__(self, dialect: Dialect) -> None:
        self._special = [c.encode() for c in (dialect.quote, dialect.escape) if c]
        self._record = _record(dialect)

    def split(self, data: bytes, *, complete: bool) -> Framed:
        """See `Framing`."""
        if b"\r" not in data and not any(c in data for c in self._special):
            return _LINES.split(data, complete=complete)
        records: list[bytes] = []
        ends: list[int] = []
        at, next_record = 0, self._record.match
        while (record := next_record(data, at)) is not None:
            if not complete and record[2] == b"\r" and record.end() == len(data):
                break  # an LF may follow
            records.append(record[1])
            ends.append(at := record.end())
        if complete and at < len(data):
            records.append(data[at:])
            ends.append(len(data))
        starts = np.array([0, *ends[:-1]][: len(ends)], np.int64)
        return Framed(pa.array(records, pa.binary()), starts, np.array(ends, np.int64))


def _record(dialect: Dialect) -> re.Pattern[bytes]:
    """A record (group 1) and its end (group 2)."""
    delimiter, quote, escape = (
        re.escape(c.encode()) for c in (dialect.delimiter, dialect.quote, dialect.escape)
    )
    pattern = _pattern(delimiter, quote, escape)
    record = re.compile(pattern, re.DOTALL)
    if record.match(b"a%sb\n" % dialect.delimiter.encode()) is None:
        # Python 3.11.2 gives up possessive repetitions that follow each other. Without them, parts
        # that exclude each other give the same, and cost memory in long records.
        record = re.compile(pattern.replace(b"*+", b"*"), re.DOTALL)
    return record


def _pattern(delimiter: bytes, quote: bytes, escape: bytes) -> bytes:
    escaped = escape + b".|" if escape else b""
    plain = b"(?!%s)" % escape if escape else b""
    rest = rb"(?:%s(?!%s)%s[^\r\n])*+" % (escaped, delimiter, plain)
    field = rest
    if quote:
        inside = rb"(?:%s%s%s|(?!%s)%s.)*+" % (escaped, quote, quote, quote, plain)
        field = b"(?:%s%s%s(?!%s)%s|(?!%s)%s)" % (quote, inside, quote, quote, rest, quote, rest)
    return rb"(%s(?:%s%s)*+)(%s)" % (field, delimiter, field, _END)
