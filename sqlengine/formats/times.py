"""Dates and times as Flink's formats write and read them, for single values and for whole columns.

'SQL' is `2020-01-02 12:34:56.789` (with a Z behind it for TIMESTAMP_LTZ), 'ISO-8601' has a T
between date and time. 'ANY' reads both, with or without an offset from UTC, and writes the first;
tables that a server reads have it by default."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root, timestamp_ltz, unit

SQL = "SQL"
ISO = "ISO-8601"
ANY = "ANY"

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
IntArray = npt.NDArray[np.int64]

_INT64 = range(-(2**63), 2**63)
_EPOCH = date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146097  # the Gregorian calendar repeats

_DATE = r"([0-9]{4}|\+[0-9]{5,10}|-[0-9]{4,10})-([0-9]{2})-([0-9]{2})"
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{0,9}))?"
_SHORT_TIME = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{0,9}))?)?"
_ANY = re.compile(rf"{_DATE}[Tt ]{_SHORT_TIME}(?:([Zz])|([+-])([0-9]{{2}}):?([0-9]{{2}})?)?")
_DATE_ONLY = re.compile(_DATE)
_TIME_ONLY = re.compile(_TIME)


@dataclass(frozen=True)
class _Form:
    """The form of a timestamp: `strict` refuses 30 February and 24:00, which Flink moves."""

    pattern: re.Pattern[str]
    strict: bool


_FORMS = {
    (Root.TIMESTAMP, SQL): _Form(re.compile(f"{_DATE} {_TIME}"), strict=False),
    (Root.TIMESTAMP, ISO): _Form(re.compile(f"{_DATE}[Tt]{_SHORT_TIME}"), strict=True),
    (Root.TIMESTAMP_LTZ, SQL): _Form(re.compile(f"{_DATE} {_TIME}Z"), strict=False),
    (Root.TIMESTAMP_LTZ, ISO): _Form(re.compile(f"{_DATE}T{_SHORT_TIME}Z"), strict=False),
}


def iso_time(ms: int) -> str:
    """A local time in ms as 2024-05-01T10:00:00, with milliseconds where there are any."""
    return str(np.datetime64(ms, "ms")).removesuffix(".000")


def iso_instant(ms: int) -> str:
    """An instant in ms as 2024-05-01T10:00:00Z, with milliseconds where there are any."""
    return iso_time(ms) + "Z"


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01 of an ISO date; None where `text` is none."""
    match = _DATE_ONLY.fullmatch(text)
    return _days(match.group(1), match.group(2), match.group(3), strict=True) if match else None


def parse_time(text: str) -> int | None:
    """Nanoseconds of the day; 24:00:00 is 0, as in Flink. None where `text` is no time."""
    match = _TIME_ONLY.fullmatch(text)
    nanos = _nanos(*match.groups()) if match else None
    return None if nanos is None else nanos % (86400 * 10**9)


def parse_timestamp(text: str, root: Root, standard: str, precision: int) -> int | None:
    """Units of the Arrow type since 1970-01-01, cut to `precision`'s unit; None where `text` is
    none or out of range."""
    if standard == ANY:
        return _parse_any(text, root, precision)
    form = _FORMS[root, standard]
    match = form.pattern.fullmatch(text)
    if match is None:
        return None
    year, month, day, *time = match.groups()
    days = _days(year, month, day, strict=form.strict)
    nanos = _nanos(*time)
    if days is None or nanos is None or (form.strict and nanos >= 86400 * 10**9):
        return None
    value = (days * 86400 * 10**9 + nanos) // NANOS[unit(precision)]
    return value if value in _INT64 else None


def _parse_any(text: str, root: Root, precision: int) -> int | None:
    """Parses a timestamp of either standard. A time with an offset is that of UTC; TIMESTAMP_LTZ
    must have one."""
    match = _ANY.fullmatch(text)
    if match is None:
        return None
    *time, utc, sign, hours, minutes = match.groups()
    if root is Root.TIMESTAMP_LTZ and not (utc or sign):
        return None
    read = "{}-{}-{} {}:{}:{}".format(*time[:5], time[5] or "00")
    value = parse_timestamp(f"{read}.{time[6] or ''}", Root.TIMESTAMP, SQL, precision)
    if value is None or not sign:
        return value
    offset_s = (int(hours) * 60 + int(minutes or 0)) * 60
    if int(hours) > 18 or int(minutes or 0) > 59:
        return None
    moved = value - (offset_s if sign == "+" else -offset_s) * 10**9 // NANOS[unit(precision)]
    return moved if moved in _INT64 else None


def looks_like_time(text: str) -> bool:
    """True if the text is a time of some standard."""
    return _ANY.fullmatch(text) is not None


def _days(year_text: str, month_text: str, day_text: str, *, strict: bool) -> int | None:
    year, month, day = int(year_text), int(month_text), int(day_text)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    cycles, of_cycle = divmod(year - 1, _CYCLE_YEARS)
    leap = of_cycle % 4 == 3 and (of_cycle % 100 != 99 or of_cycle == 399)
    length = (
        29 if leap and month == 2 else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    )
    if day > length and strict:
        return None
    first = date(of_cycle + 1, month, 1).toordinal() - _EPOCH
    return cycles * _CYCLE_DAYS + first + min(day, length) - 1


def _nanos(hour: str, minute: str, second: str | None, fraction: str | None) -> int | None:
    """Nanoseconds since midnight; 24:00:00 is allowed, as Flink's resolver does."""
    h, m, s, f = int(hour), int(minute), int(second or 0), int((fraction or "").ljust(9, "0"))
    if m > 59 or s > 59 or h > 24 or (h == 24 and (m or s or f)):
        return None
    return ((h * 60 + m) * 60 + s) * 10**9 + f


def parse_timestamps(
    texts: pa.StringArray, kind: DataType, standard: str
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """A whole column: values by `kind`'s Arrow type, and a mask of the rows whose text the kernel
    did not read (these are NULL in the column). NULL stays NULL. With ANY the first value says
    which standard the kernel reads; others are doubtful."""
    if standard == ANY:
        values, doubtful = parse_timestamps(texts, *_first_form(texts, kind))
        return values.view(pa.int64()).view(kind.arrow), doubtful
    doubtful = np.zeros(len(texts), np.bool_)
    alike = _all_alike(texts, kind, standard)
    if alike is not None:
        return alike, doubtful
    present = texts.drop_null() if texts.null_count else texts
    if len(present) == 0:
        return pa.nulls(len(texts), kind.arrow), doubtful
    good = _well_shaped(present, kind.root, standard)
    candidates = np.flatnonzero(good)
    values, read = _parse_well_shaped(
        present if good.all() else present.take(pa.array(candidates)), kind
    )
    good[candidates[~read]] = False
    if texts.null_count == 0 and good.all():
        return pa.array(values).view(kind.arrow), doubtful
    rows = (
        np.flatnonzero(~np.asarray(texts.is_null())) if texts.null_count else np.arange(len(texts))
    )
    doubtful[rows[~good]] = True
    full, missing = np.zeros(len(texts), np.int64), np.ones(len(texts), np.bool_)
    full[rows[good]], missing[rows[good]] = values, False
    return pa.array(full, mask=missing).view(kind.arrow), doubtful


def _first_form(texts: pa.StringArray, kind: DataType) -> tuple[DataType, str]:
    """Returns the type and the standard that the first value is written in."""
    first = next((t.as_py() for t in texts if t.is_valid), "")
    standard = ISO if first[10:11] == "T" else SQL
    if kind.root is Root.TIMESTAMP and first.endswith("Z"):
        return timestamp_ltz(kind.precision), standard
    return kind, standard


def _all_alike(texts: pa.StringArray, kind: DataType, standard: str) -> pa.Array | None:
    """The common case at once: no NULL, and every value as long as the first, no finer than `kind`.
    Else None."""
    if texts.null_count or len(texts) == 0:
        return None
    offsets, data = text_buffers(texts)
    zone = int(kind.root is Root.TIMESTAMP_LTZ)
    length = int(offsets[1] - offsets[0])
    # Not nine digits: see _well_shaped.
    finest = {"ms": 23, "us": 26, "ns": 26}[unit(kind.precision)] + zone
    if (
        length * len(texts) != offsets[-1] - offsets[0]
        or not 19 + zone <= length <= finest
        or length == 20 + zone
    ):
        return None
    if (np.diff(offsets) != length).any():
        return None
    table = data[offsets[0] : offsets[-1]].reshape(len(texts), length)
    if (table[:, 10] != ord("T" if standard == ISO else " ")).any() or (
        zone and (table[:, -1] != ord("Z")).any()
    ):
        return None
    if length > 19 + zone and (table[:, 19] != ord(".")).any():
        return None
    try:
        return texts.cast(pa.timestamp(unit(kind.precision), "UTC" if zone else None))
    except pa.ArrowInvalid:
        return None


def _well_shaped(texts: pa.StringArray, root: Root, standard: str) -> npt.NDArray[np.bool_]:
    """Marks values with a four-digit year, seconds, the separator of `standard` and a Z exactly for
    TIMESTAMP_LTZ. Those that Arrow's more lenient parser then takes are timestamps of Flink's, too.
    """
    offsets, data = text_buffers(texts)
    start, lengths = offsets[:-1], np.diff(offsets)
    zone = int(root is Root.TIMESTAMP_LTZ)
    good: npt.NDArray[np.bool_] = (
        (lengths >= 19 + zone) & (lengths != 20 + zone) & (lengths <= 29 + zone)
    )
    if not good.any():
        return good
    # What is too short must not read beyond the buffer.
    at = np.where(good, start, start[int(good.argmax())])
    good &= data[at + 10] == ord("T" if standard == ISO else " ")
    good &= (lengths == 19 + zone) | (data[np.minimum(at + 19, len(data) - 1)] == ord("."))
    if zone:
        good &= data[at + np.where(good, lengths, 20) - 1] == ord("Z")
    if root is Root.TIMESTAMP or zone:
        year = (data[at].astype(np.uint32) << 24) | (data[at + 1].astype(np.uint32) << 16)
        year |= (data[at + 2].astype(np.uint32) << 8) | data[at + 3]
        # Nanoseconds of other years do not fit in 64 bits, and Arrow wraps them silently.
        good &= (lengths <= 26 + zone) | ((year >= 0x31363738) & (year <= 0x32323631))
    return good


def _parse_well_shaped(
    texts: pa.StringArray, kind: DataType
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Units since the epoch of those that are timestamps, and which they are. Parses as finely as
    the longest needs."""
    zone = int(kind.root is Root.TIMESTAMP_LTZ)
    offsets, _ = text_buffers(texts)
    digits = int(np.diff(offsets).max(initial=0)) - 20 - zone
    fine, coarse = unit(max(digits, 0)), unit(kind.precision)
    if NANOS[fine] > NANOS[coarse]:
        fine = coarse
    parsed, read = _cast_or_halve(texts, pa.timestamp(fine, "UTC" if zone else None))
    factor = NANOS[coarse] // NANOS[fine]
    return (parsed if factor == 1 else np.floor_divide(parsed, factor)), read


def _cast_or_halve(
    texts: pa.StringArray, target: pa.DataType
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Casts texts, halving them where a bad value fails the whole cast, until it is among few,
    which are then given up together."""
    try:
        return np.asarray(texts.cast(target).view(pa.int64())), np.ones(len(texts), np.bool_)
    except pa.ArrowInvalid:
        if len(texts) <= 8:
            return np.empty(0, np.int64), np.zeros(len(texts), np.bool_)
    half = len(texts) // 2
    left, right = _cast_or_halve(texts[:half], target), _cast_or_halve(texts[half:], target)
    return np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])


def text_buffers(texts: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Offsets (one more than values) and bytes of a string or binary array, its own offset taken
    into account."""
    _, offsets, data = texts.buffers()
    if offsets is None:
        return np.zeros(len(texts) + 1, np.int32), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
    return ends, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def format_times(column: pa.Array, kind: DataType, standard: str = SQL) -> pa.StringArray:
    """DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ columns as Flink writes them: a fraction without
    trailing zeros."""
    if kind.root is Root.DATE:
        return column.cast(pa.string())
    local = (
        column.view(pa.timestamp(column.type.unit)) if kind.root is Root.TIMESTAMP_LTZ else column
    )
    texts = pc.utf8_rtrim(pc.utf8_rtrim(local.cast(pa.string()), "0"), ".")
    if kind.root is Root.TIME:
        return texts
    if standard == ISO:
        texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    return pc.binary_join_element_wise(texts, "Z", "") if kind.root is Root.TIMESTAMP_LTZ else texts
