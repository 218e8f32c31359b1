"""The rows of log records of OpenTelemetry, as they are kept and as tables read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from parser.errors import UnsupportedColumn
from parser.types import INT, STRING, DataType, Root, map_of
from planner.catalog import Table
from sqlengine.broker.base import Records
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.pushed.metadata import PushedRows
from sqlengine.formats.options import did_you_mean
from sqlengine.formats.registry import get_format

_TIMES: Final = ("ts", "observed_ts")
_TYPES: Final[Mapping[str, DataType]] = {
    "severity": STRING,
    "severity_number": INT,
    "body": STRING,
    "attributes": map_of(STRING, STRING),
    "resource": map_of(STRING, STRING),
    "scope_name": STRING,
    "scope_version": STRING,
    "scope_attributes": map_of(STRING, STRING),
    "trace_id": STRING,
    "span_id": STRING,
    "flags": INT,
    "event_name": STRING,
    "dropped_attributes": INT,
}
COLUMNS: Final = (*_TIMES, *_TYPES)
_NAMES: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


class LogRow(msgspec.Struct, omit_defaults=True):
    """A log record, with the names of columns. `ts`: as SQL writes it, to the nanosecond."""

    ts: str | None = None
    observed_ts: str | None = None
    severity: str | None = None
    severity_number: int | None = None
    body: str | None = None
    attributes: dict[str, str] | None = None
    resource: dict[str, str] | None = None
    scope_name: str | None = None
    scope_version: str | None = None
    scope_attributes: dict[str, str] | None = None
    trace_id: str | None = None
    span_id: str | None = None
    flags: int | None = None
    event_name: str | None = None
    dropped_attributes: int | None = None


def time_text(nanoseconds: int) -> str | None:
    """Returns a time as SQL writes it; None for 0, which stands for none, and for one that no
    calendar has."""
    if not nanoseconds:
        return None
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return f"{moment.replace(tzinfo=None).isoformat(' ')}.{rest:09d}Z"


def severity_of(number: int, text: str) -> str | None:
    """Returns the severity's own text, else the name of its range."""
    if text:
        return text
    return _NAMES[(number - 1) // 4] if 1 <= number <= 24 else None


def check_columns(table: Table) -> None:
    """Raises UnsupportedError for a column that log records do not have, or of another type."""
    for column in table.physical:
        kind = column.type
        if column.name in _TIMES:
            if kind.root is not Root.TIMESTAMP_LTZ:
                raise UnsupportedColumn(
                    f"column '{column.name}' of table '{table.display}' is {kind}",
                    hint="times of log records are TIMESTAMP_LTZ(3), or up to (9)",
                    subject=column.name,
                )
        elif column.name not in _TYPES:
            hint = did_you_mean(column.name, COLUMNS) or "columns: " + ", ".join(COLUMNS)
            raise UnsupportedColumn(
                f"log records have no '{column.name}', which table '{table.display}' declares",
                hint=hint,
                subject=column.name,
            )
        elif kind.with_nullable(True) != _TYPES[column.name]:
            raise UnsupportedColumn(
                f"column '{column.name}' of table '{table.display}' is {kind}",
                hint=f"declare it as {_TYPES[column.name]}",
                subject=column.name,
            )


class LogRows(PushedRows):
    """Makes rows of kept log records."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._names = table.physical.names
        # A number or a time that the type of its column does not have is NULL, and costs no row.
        self._decoder = get_format("json").decoder(table.physical, {"ignore-parse-errors": "true"})

    def chunk(self, shard: str, start: int, records: Records) -> Chunk:
        """See `TopicRows`."""
        found = super().chunk(shard, start, records)
        assert found.records is not None
        rows = self._decoder.decode(found.records)
        columns = dict(zip(self._names, rows.columns, strict=True))
        return Chunk(
            shard,
            start,
            found.end,
            found.num_rows,
            columns=columns,
            offsets=found.offsets,
            metadata=found.metadata,
        )
