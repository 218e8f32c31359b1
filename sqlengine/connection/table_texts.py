"""Definitions of tables that Python objects become."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Final

from parser.errors import ServiceError
from parser.types import Schema
from parser.writer.names import backticked
from parser.writer.names import options as written_options
from parser.writer.values import literal

# The computed column beside one whose times are finer than milliseconds.
ROWTIME: Final = "rowtime"


def event_time_lines(schema: Schema, name: str | None, late: dt.timedelta) -> list[str]:
    """Returns what the definition of a table says of event time, none without a column `name`:
    perhaps a computed column, and the watermark, `late` behind. ServiceError where there is no such
    column, or the time is none."""
    if name is None:
        return []
    if name not in schema:
        raise ServiceError(
            f"there is no column '{name}' for event time",
            hint=f"columns: {', '.join(schema.names)}",
        )
    column, kind = backticked(name), schema.type(name)
    lines = []
    if kind.is_timestamp and kind.precision > 3:
        root = kind.root.value
        lines.append(f"`{ROWTIME}` AS CAST({column} AS {root}(3))")
        column = f"`{ROWTIME}`"
    return [*lines, f"WATERMARK FOR {column} AS {column} - {_interval(late)}"]


def _interval(length: object) -> str:
    if not isinstance(length, dt.timedelta) or length < dt.timedelta(0):
        raise ServiceError(
            f"'watermark' is a time by which events come late, not {length!r}",
            hint="give a timedelta from 0 on",
        )
    return literal(length)


def create_table(name: str, schema: Schema, more: Sequence[str], options: Mapping[str, str]) -> str:
    """Returns CREATE TABLE; `more`: lines behind those of the columns."""
    columns = [f"{backticked(c.name)} {c.type}" for c in schema]
    inner = ",\n  ".join([*columns, *more])
    return f"CREATE TABLE {backticked(name)} (\n  {inner}\n) WITH {written_options(options)}"
