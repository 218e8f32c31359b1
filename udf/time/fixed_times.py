"""Times as texts of a fixed width (`yyyy-MM-dd HH:mm:ss`), written and read a column at a time: a
text is a row of a matrix of bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udf.arrays.arrays import valid
from udf.text.bytes import Bytes, bytes_of, texts_of
from udf.time.patterns import Token
from udf.vector import BoolArray

Int64s = npt.NDArray[np.int64]
# Letter -> width; years of four digits.
_WIDTHS = {"y": 4, "M": 2, "d": 2, "H": 2, "m": 2, "s": 2}
_FIRST_YEAR, _LAST_YEAR = 1, 9999
_TENS = np.array([48 + v // 10 for v in range(100)], np.uint8)
_ONES = np.array([48 + v % 10 for v in range(100)], np.uint8)
DAY = 86_400


@dataclass(frozen=True)
class Shape:
    """A pattern of fields with a fixed width: (place, width, letter) of each, and the characters
    between."""

    width: int
    fields: tuple[tuple[int, int, str], ...]
    literals: tuple[tuple[int, int], ...]

    @property
    def readable(self) -> bool:
        """True if no field occurs twice."""
        return len({letter for _, _, letter in self.fields}) == len(self.fields)


@lru_cache(maxsize=1024)
def shape_of(tokens: tuple[Token, ...]) -> Shape | None:
    """The shape of a pattern's tokens, or None for one with other fields."""
    fields: list[tuple[int, int, str]] = []
    literals: list[tuple[int, int]] = []
    at = 0
    for token in tokens:
        if token.letter:
            if _WIDTHS.get(token.letter) != token.count:
                return None
            fields.append((at, token.count, token.letter))
            at += token.count
        elif not token.literal.isascii():
            return None
        else:
            literals += [(at + i, ord(c)) for i, c in enumerate(token.literal)]
            at += len(token.literal)
    return Shape(at, tuple(fields), tuple(literals))


def written(seconds: Int64s, present: BoolArray, shape: Shape) -> pa.Array:
    """Seconds since 1970 as texts; all in the years 1 to 9999."""
    days = seconds // DAY
    # Floor division, so that times before 1970 have a time of day that is not negative.
    parts = _time_of_day(seconds - days * DAY, shape)
    if any(letter in "yMd" for _, _, letter in shape.fields):
        parts |= _date(days)
    # A row of the array for each character: every assignment below is contiguous.
    columns = np.empty((shape.width, len(seconds)), np.uint8)
    for at, character in shape.literals:
        columns[at] = character
    for at, width, letter in shape.fields:
        value = parts[letter]
        if width == 4:
            # Four digits are two pairs from the same tables.
            century = value // 100
            columns[at], columns[at + 1] = _TENS[century], _ONES[century]
            at, value = at + 2, value - century * 100
        columns[at], columns[at + 1] = _TENS[value], _ONES[value]
    matrix = np.ascontiguousarray(columns.T)
    # NULL rows take no bytes.
    sizes = np.where(present, shape.width, 0)
    offsets = np.zeros(len(seconds) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = matrix if present.all() else matrix[present]
    return texts_of(offsets, data.reshape(-1), present, pa.string())


def _time_of_day(second: Int64s, shape: Shape) -> dict[str, Int64s]:
    wanted = {letter for _, _, letter in shape.fields}
    small = second.astype(np.int32)
    minutes = small // 60
    hours = minutes // 60
    fields = {"s": small - minutes * 60, "m": minutes - hours * 60, "H": hours}
    return {k: v for k, v in fields.items() if k in wanted}


def _date(days: Int64s) -> dict[str, Int64s]:
    """Year, month and day; by a table of all days between the first and the last where there are
    not many."""
    first, last = (int(days.min()), int(days.max())) if len(days) else (0, 0)
    # As many days as rows at most, or a few: the table costs no more than the column.
    if last - first < max(len(days), 4096):
        return {k: v[days - first] for k, v in _parts(np.arange(first, last + 1)).items()}
    return _parts(days)


def _parts(days: Int64s) -> dict[str, Int64s]:
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    month = months.astype(np.int64)
    return {
        "y": (month // 12 + 1970).astype(np.int32),
        "M": (month % 12 + 1).astype(np.int32),
        "d": ((dates - months).astype(np.int64) + 1).astype(np.int32),
    }


def read_column(
    values: pa.Array, shape: Shape, factor: int, other: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """Texts as BIGINT: seconds times `factor` where they have the shape, what `other` makes of them
    elsewhere."""
    seconds, good = read(values, shape)
    numbers, present = seconds * factor, valid(values, len(values))
    # NULL rows are not good either, but need no second reading.
    rest = np.flatnonzero(present & ~good)
    if len(rest):
        found = other(values.take(pa.array(rest)))
        numbers[rest] = found.fill_null(0).to_numpy(zero_copy_only=False)
        present[rest] = valid(found, len(rest))
    return pa.array(numbers, mask=~present)


def read(values: pa.Array, shape: Shape) -> tuple[Int64s, BoolArray]:
    """Seconds since 1970 of texts, and which rows have just this shape and are a time that exists;
    the others are to be read in another way."""
    offsets, data = bytes_of(values)
    count, sizes = len(values), np.diff(offsets)
    fits = sizes == shape.width
    seconds = np.zeros(count, np.int64)
    if not fits.any():
        return seconds, fits
    rows = np.flatnonzero(fits)
    # All rows of one width (or empty) lie side by side already: a reshape instead of a gather.
    matrix = _rows(data, offsets, rows, shape.width, whole=bool((fits | (sizes == 0)).all()))
    known, good = _fields(matrix, shape)
    found, exists = _seconds(known, len(rows))
    good &= exists
    seconds[rows] = found
    fits[rows] = good
    return seconds, fits & valid(values, count)


def _rows(
    data: Bytes, offsets: npt.NDArray[np.int32], rows: Int64s, width: int, *, whole: bool
) -> Bytes:
    """The bytes of the rows, all of this width, as columns of the result."""
    matrix = (
        data.reshape(-1, width)
        if whole
        else data[offsets[rows][:, None] + np.arange(width, dtype=np.int32)]
    )
    return np.ascontiguousarray(matrix.T)


def _fields(matrix: Bytes, shape: Shape) -> tuple[dict[str, Int64s], BoolArray]:
    good = np.ones(matrix.shape[1], np.bool_)
    for at, character in shape.literals:
        good &= matrix[at] == character
    known: dict[str, Int64s] = {}
    for at, width, letter in shape.fields:
        # Characters below "0" wrap around to large unsigned numbers, so one comparison is enough.
        digits = matrix[at : at + width] - np.uint8(48)
        good &= (digits <= 9).all(axis=0)
        value = digits[0].astype(np.int64)
        for digit in digits[1:]:
            value = value * 10 + digit
        known[letter] = value
    return known, good


def _seconds(known: dict[str, Int64s], count: int) -> tuple[Int64s, BoolArray]:
    """Computes seconds since 1970-01-01 00:00:00, which also supplies the missing fields."""
    zero = np.zeros(count, np.int64)
    year, month, day = (
        known.get("y", zero + 1970),
        known.get("M", zero + 1),
        known.get("d", zero + 1),
    )
    hour, minute, second = (known.get(k, zero) for k in "Hms")
    good = (year >= _FIRST_YEAR) & (year <= _LAST_YEAR) & (month >= 1) & (month <= 12) & (day >= 1)
    firsts = _first_days()
    # A month outside of the table is replaced by one inside: its row is not good anyway.
    place = np.where(good, year * 12 + month - 1, 1970 * 12)
    start = firsts[place]
    # The next month's first day bounds the day: no table of lengths, no rule of leap years.
    good &= (day <= firsts[place + 1] - start) & (hour <= 23) & (minute <= 59) & (second <= 59)
    return (start + day - 1) * DAY + (hour * 60 + minute) * 60 + second, good


@lru_cache(maxsize=1)
def _first_days() -> Int64s:
    """The first day of each month since the year 0, counted from 1970-01-01."""
    months = np.arange(-1970 * 12, (10_000 - 1970) * 12 + 1)
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
