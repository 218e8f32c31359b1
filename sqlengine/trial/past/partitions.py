"""Partitions of files by time: those outside a period are not read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from parser.types import BIGINT, BOOLEAN, STRING, Column, Root, Schema
from planner.logical import Scan
from planner.rewrite import conjunction
from planner.scalar import Call, ColumnRef, Literal, Scalar
from sqlengine.connectors.filesystem.connector import default_name, path_of
from sqlengine.connectors.filesystem.partitions import Texts, partitions
from sqlengine.system.file_access import FileAccess
from sqlengine.trial.past.period import Period

FILES: Final = "filesystem"
# Partition columns whose values, one after the other, are a time from the year down.
_NAMES: Final = frozenset(
    ("dt", "date", "day", "ds", "ts", "hour", "hr", "hh", "month", "mm", "year", "yyyy", "dd")
)
_NUMBERS: Final = re.compile(r"(\d{4})\D?(\d\d?)?\D?(\d\d?)?\D?(\d\d?)?(?:\D.*)?", re.ASCII)
_TIMES: Final = (Root.DATE, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
# With a row time rows are looked at one by one: a partition may have those of the day beside it,
# by its zone, or as they came late.
_BESIDE: Final = timedelta(days=1)
_YEARS: Final = range(1970, 2200)  # else a number is no time, as one of seconds since 1970
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
Value: TypeAlias = int | str


def narrowed(scan: Scan, period: Period, files: FileAccess) -> Scan:
    """Returns the scan of a folder whose partitions by time are those of a period.

    Where the table declares none, folders whose names are such, as in `dt=2026-01-31`, count all
    the same. A partition that is no time is read."""
    root = path_of(scan.table, files)
    scan = scan if scan.table.partition_keys else _with_folders(scan, root)
    keys = _time_columns(scan)
    if not period.bounded or not keys or not root.is_dir():
        return scan
    found = [
        texts
        for _, texts in partitions(root, scan.table.partition_keys, default_name(scan.table))
        if _is_met(period, texts, keys, beside=scan.table.watermark is not None)
    ]
    where = _between(scan, found, keys) if found else Literal(value=False, type=BOOLEAN)
    if where is None:
        return scan
    return replace(scan, where=where if scan.where is None else conjunction([scan.where, where]))


def _with_folders(scan: Scan, root: Path) -> Scan:
    """Declares the folders `key=value` below a root as partitions that nobody reads."""
    keys: dict[str, bool] = {}
    folder: Path | None = root if root.is_dir() else None
    while folder is not None:
        below = (p for p in sorted(folder.iterdir()) if "=" in p.name and p.is_dir())
        folder = next(below, None)
        if folder is not None:
            name, _, text = folder.name.partition("=")
            keys[unquote(name)] = text.isdigit()
    new = [Column(k, BIGINT if number else STRING) for k, number in keys.items()]
    taken = set(scan.table.schema.names)
    if not new or any(c.name in taken for c in new):
        return scan
    schema = Schema((*scan.table.schema, *new))
    return replace(scan, table=replace(scan.table, schema=schema, partition_keys=tuple(keys)))


def _time_columns(scan: Scan) -> list[int]:
    """Returns the places of the partition columns that are a time together."""
    types = {c.name: c.type for c in scan.table.schema}
    return [
        place
        for place, name in enumerate(scan.table.partition_keys)
        if name.lower() in _NAMES or types[name].root in _TIMES
    ]


def _is_met(period: Period, texts: Texts, keys: Sequence[int], *, beside: bool) -> bool:
    """True if a partition may have rows of the period."""
    span = span_of("-".join(texts[k] or "" for k in keys))
    if span is None:
        return True
    margin = _BESIDE if beside else timedelta()
    begin, end = span[0] - margin - _EPOCH, span[1] + margin - _EPOCH
    return period.meets(begin // _MS, end // _MS)


def span_of(text: str) -> tuple[datetime, datetime] | None:
    """Returns the year, month, day or hour that a text names, from its beginning to its end; None
    where it is none.

    >>> [str(t.date()) for t in span_of("2026-1") or ()]
    ['2026-01-01', '2026-02-01']
    >>> span_of("20260131-05")[1].hour
    6
    >>> span_of("1712102400")
    """
    match = _NUMBERS.fullmatch(text)
    if match is None or int(match[1]) not in _YEARS:
        return None
    month, day, hour = (None if part is None else int(part) for part in match.groups()[1:])
    try:
        begin = datetime(int(match[1]), month or 1, day or 1, hour or 0, tzinfo=UTC)
    except ValueError:
        return None
    if hour is not None:
        return begin, begin + timedelta(hours=1)
    if day is not None:
        return begin, begin + timedelta(days=1)
    if month is not None:
        return begin, (begin + timedelta(days=32)).replace(day=1)
    return begin, begin.replace(year=begin.year + 1)


def _between(scan: Scan, found: Sequence[Texts], keys: Sequence[int]) -> Scalar | None:
    """Returns the condition that holds for these partitions, and for those between them; None
    where one has no value."""
    columns = scan.table.schema.select(tuple(scan.table.partition_keys[k] for k in keys)).columns
    places = list(zip(keys, columns, strict=True))
    rows = [tuple(_value(texts[k], c) for k, c in places) for texts in found]
    known = [tuple(v for v in row if v is not None) for row in rows]
    if any(len(row) < len(columns) for row in known):
        return None
    try:
        low, high = min(known), max(known)
    except TypeError:  # of one column numbers and texts
        return None
    return conjunction([_compared(">", columns, low), _compared("<", columns, high)])


def _value(text: str | None, column: Column) -> Value | None:
    """Returns a partition's value as a constant of its column has it; None where it has none."""
    if text is None:
        return None
    if column.type.is_string:
        return text
    if column.type.root in _TIMES:
        span = span_of(text)
        unit = timedelta(days=1) if column.type.root is Root.DATE else _MS
        return None if span is None else (span[0] - _EPOCH) // unit
    return int(text) if text.isdigit() else None


def _compared(sign: str, columns: Sequence[Column], bound: Sequence[Value]) -> Scalar:
    """Returns the condition that columns, one after the other, are beyond a bound, or equal."""
    column, *others = columns
    reference = ColumnRef(column.name, column.type)
    value = Literal(bound[0], column.type.with_nullable(False))
    boolean = BOOLEAN.with_nullable(True)
    if not others:
        return Call(f"{sign}=", (reference, value), boolean)
    equal = Call("=", (reference, value), boolean)
    within = conjunction([equal, _compared(sign, others, bound[1:])])
    return Call("OR", (Call(sign, (reference, value), boolean), within), boolean)
