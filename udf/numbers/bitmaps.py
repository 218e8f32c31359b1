"""BITMAP: sets of 32-bit numbers. A column holds them written as '{1,2,3}', in the order of
unsigned numbers; as bytes they have the portable form of Roaring bitmaps."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.limits import present
from parser.types import BIGINT, BITMAP, BYTES, INT, STRING, DataType, Root, array
from udf.arrays.arrays import RowError, per_distinct, row_errors, valid
from udf.arrays.lists import elements_in, lists_of
from udf.numbers.bitmap_columns import Pairs, arrays_of, pairs_from, pairs_of, written_pairs
from udf.registry import KernelContext, Types, Values, function
from udf.signatures import Custom, Family, binary_or_null, gives, takes
from udf.vector import Vector

_TEXT = pa.string()
_NUMBERS = array(INT)
bitmap = Family("a BITMAP", lambda t: t.root is Root.BITMAP)
# Bytes of a number and its comma in the written form.
_WRITTEN = 11
# Numbers of a Roaring bitmap's parts: with and without containers of runs; up to so many values are
# a plain list.
_COOKIE, _RUN_COOKIE, _LIST_MOST, _OFFSETS_FROM = 12346, 12347, 4096, 4


@lru_cache(maxsize=1024)
def read_bitmap(written: str) -> frozenset[int]:
    """The numbers of a written bitmap."""
    inside = written[1:-1]
    return frozenset(map(int, inside.split(","))) if inside else frozenset()


def write_bitmap(numbers: Iterable[int]) -> str:
    """The written form of unsigned numbers."""
    return "{" + ",".join(map(str, sorted(numbers))) + "}"


def _numbers_of(types: Types) -> tuple[DataType, ...] | None:
    if len(types) == 1 and types[0].root is Root.NULL:
        return (_NUMBERS,)
    fits = len(types) == 1 and types[0].root is Root.ARRAY and types[0].children[0].root is Root.INT
    return tuple(types) if fits else None


@function("BITMAP_BUILD", signature=Custom(_numbers_of, gives(BITMAP), "an array of INT"))
def bitmap_build(ctx: KernelContext, value: Values) -> Values:
    """BITMAP_BUILD(array): a bitmap of the numbers, which count as unsigned; NULL elements are left
    out.

    >>> BITMAP_TO_STRING(BITMAP_BUILD(ARRAY[3, 1, -1, 3]))
    '{1,3,4294967295}'
    """
    lists = lists_of(value, ctx.num_rows)
    elements = lists.values.take(pa.array(elements_in(lists)))
    rows = np.repeat(np.arange(ctx.num_rows), lists.lengths)[valid(elements, len(elements))]
    numbers = elements.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
    return written_pairs(pairs_from(rows, numbers), lists.present)


@function("BITMAP_TO_STRING", signature=takes(bitmap, result=STRING))
def bitmap_to_string(ctx: KernelContext, value: Values) -> Values:
    """BITMAP_TO_STRING(bitmap): the numbers in braces.

    >>> BITMAP_TO_STRING(BITMAP_BUILD(ARRAY[2, 1]))
    '{1,2}'
    """
    return value


@function("BITMAP_TO_ARRAY", signature=takes(bitmap, result=_NUMBERS))
def bitmap_to_array(ctx: KernelContext, value: Values) -> Values:
    """BITMAP_TO_ARRAY(bitmap): the numbers as INT, in the order of unsigned numbers.

    >>> BITMAP_TO_ARRAY(BITMAP_BUILD(ARRAY[2, 1]))
    [1, 2]
    """
    column = _column(value, ctx.num_rows)
    return arrays_of(pairs_of(column), valid(column, len(column))).cast(_NUMBERS.arrow)


@function("BITMAP_CARDINALITY", signature=takes(bitmap, result=BIGINT))
def bitmap_cardinality(ctx: KernelContext, value: Values) -> Values:
    """BITMAP_CARDINALITY(bitmap): how many numbers there are.

    >>> BITMAP_CARDINALITY(BITMAP_BUILD(ARRAY[2, 1, 2]))
    2
    """
    # The written form has a comma between any two numbers: counting needs no parsing.
    commas = pc.count_substring(value, ",").cast(pa.int64())
    return pc.if_else(
        pc.equal(value, "{}"), pa.scalar(0, pa.int64()), pc.add(commas, pa.scalar(1, pa.int64()))
    )


def _column(value: Values, num_rows: int) -> pa.Array:
    return pa.repeat(value, num_rows) if isinstance(value, pa.Scalar) else value


def _combined(
    ctx: KernelContext, combine: Callable[[Pairs, Pairs], Pairs], left: Values, right: Values
) -> Values:
    a, b = _column(left, ctx.num_rows), _column(right, ctx.num_rows)
    present = valid(a, ctx.num_rows) & valid(b, ctx.num_rows)
    pairs = combine(pairs_of(a), pairs_of(b))
    # A pair is row << 32 | number, so the high half says whose it is.
    return written_pairs(pairs[present[pairs >> 32]], present)


_PAIR = takes(bitmap, bitmap, result=BITMAP)


@function("BITMAP_AND", signature=_PAIR)
def bitmap_and(ctx: KernelContext, left: Values, right: Values) -> Values:
    """BITMAP_AND(bitmap, bitmap): the numbers that are in both.

    >>> BITMAP_TO_STRING(BITMAP_AND(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))
    '{2}'
    """
    return _combined(ctx, lambda a, b: np.intersect1d(a, b, assume_unique=True), left, right)


@function("BITMAP_OR", signature=_PAIR)
def bitmap_or(ctx: KernelContext, left: Values, right: Values) -> Values:
    """BITMAP_OR(bitmap, bitmap): the numbers that are in one at least.

    >>> BITMAP_TO_STRING(BITMAP_OR(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))
    '{1,2,3}'
    """
    return _combined(ctx, np.union1d, left, right)


@function("BITMAP_XOR", signature=_PAIR)
def bitmap_xor(ctx: KernelContext, left: Values, right: Values) -> Values:
    """BITMAP_XOR(bitmap, bitmap): the numbers that are in just one.

    >>> BITMAP_TO_STRING(BITMAP_XOR(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))
    '{1,3}'
    """
    return _combined(ctx, lambda a, b: np.setxor1d(a, b, assume_unique=True), left, right)


@function("BITMAP_ANDNOT", signature=_PAIR)
def bitmap_andnot(ctx: KernelContext, left: Values, right: Values) -> Values:
    """BITMAP_ANDNOT(bitmap, bitmap): the numbers of the first bitmap that are not in the second.

    >>> BITMAP_TO_STRING(BITMAP_ANDNOT(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))
    '{1}'
    """
    return _combined(ctx, lambda a, b: np.setdiff1d(a, b, assume_unique=True), left, right)


def to_bytes(numbers: Iterable[int]) -> bytes:
    """The portable form of a Roaring bitmap, without runs."""
    containers: dict[int, list[int]] = {}
    # Containers are in the order of their keys, the high 16 bits.
    for number in sorted(numbers):
        containers.setdefault(number >> 16, []).append(number & 0xFFFF)
    head = struct.pack("<II", _COOKIE, len(containers))
    # Sizes are written less one, so that 65536 fits into 16 bits.
    head += b"".join(struct.pack("<HH", key, len(low) - 1) for key, low in containers.items())
    bodies = [_container(low) for low in containers.values()]
    # Offsets count from the start of the bytes, the list of offsets included.
    at, offsets = len(head) + 4 * len(bodies), []
    for body in bodies:
        offsets.append(struct.pack("<I", at))
        at += len(body)
    return head + b"".join(offsets) + b"".join(bodies)


def _container(low: list[int]) -> bytes:
    # Up to 4096 values a sorted list is no longer than a bitmap of 8 KiB.
    if len(low) <= _LIST_MOST:
        return struct.pack(f"<{len(low)}H", *low)
    bits = 0
    for number in low:
        bits |= 1 << number
    return bits.to_bytes(8192, "little")


def from_bytes(data: bytes) -> set[int]:
    """The numbers of a portable Roaring bitmap. RowError for bytes that are none."""
    try:
        return set(_read_containers(data))
    except (struct.error, IndexError):
        raise RowError("the bytes are no bitmap") from None


def _read_containers(data: bytes) -> Iterator[int]:
    (cookie,) = struct.unpack_from("<I", data)
    runs, at = b"", 8
    if cookie & 0xFFFF == _RUN_COOKIE:
        count = (cookie >> 16) + 1
        # A bit for each container says whether it holds runs.
        runs, at = data[4 : 4 + (count + 7) // 8], 4 + (count + 7) // 8
    elif cookie == _COOKIE:
        (count,) = struct.unpack_from("<I", data, 4)
    else:
        raise IndexError
    if count > 65536:
        raise IndexError
    heads = [struct.unpack_from("<HH", data, at + 4 * i) for i in range(count)]
    # Bitmaps with runs write offsets only from four containers on; they are skipped either way.
    at += 4 * count + (4 * count if not runs or count >= _OFFSETS_FROM else 0)
    left = present().value_size // _WRITTEN
    for i, (key, size) in enumerate(heads):
        is_run = bool(runs and runs[i // 8] >> i % 8 & 1)
        low, at = _read_container(data, at, size + 1, is_run)
        left -= len(low)
        if left < 0:
            raise RowError("the bitmap has too many numbers ('value-size')")
        yield from (key << 16 | n for n in low)


def _read_container(data: bytes, at: int, size: int, is_run: bool) -> tuple[list[int], int]:
    """The numbers of a container and where the next one begins."""
    if is_run:
        (count,) = struct.unpack_from("<H", data, at)
        pairs = struct.unpack_from(f"<{2 * count}H", data, at + 2)
        # A run is its first value and how many more follow.
        if sum(pairs[1::2]) + count > 65536:
            raise IndexError
        numbers = [
            n
            for s, more in zip(pairs[::2], pairs[1::2], strict=True)
            for n in range(s, s + more + 1)
        ]
        return numbers, at + 2 + 4 * count
    if size <= _LIST_MOST:
        return list(struct.unpack_from(f"<{size}H", data, at)), at + 2 * size
    if len(data) < at + 8192:
        raise IndexError
    bits = int.from_bytes(data[at : at + 8192], "little")
    return [n for n in range(65536) if bits >> n & 1], at + 8192


@function("BITMAP_TO_BYTES", signature=takes(bitmap, result=BYTES))
def bitmap_to_bytes(ctx: KernelContext, value: Values) -> Values:
    """BITMAP_TO_BYTES(bitmap): the portable form of a Roaring bitmap.

    >>> BITMAP_CARDINALITY(BITMAP_FROM_BYTES(BITMAP_TO_BYTES(BITMAP_BUILD(ARRAY[1, 70000]))))
    2
    """
    return per_distinct(lambda v: to_bytes(read_bitmap(v)), pa.binary(), value)


@function("BITMAP_FROM_BYTES", signature=takes(binary_or_null, result=BITMAP))
def bitmap_from_bytes(ctx: KernelContext, value: Values) -> Vector:
    """BITMAP_FROM_BYTES(bytes): the bitmap of bytes in the portable format. Error: invalid bytes.

    >>> BITMAP_TO_STRING(BITMAP_FROM_BYTES(BITMAP_TO_BYTES(BITMAP_BUILD(ARRAY[5]))))
    '{5}'
    """
    return Vector(*row_errors(ctx.num_rows, lambda v: write_bitmap(from_bytes(v)), _TEXT, value))
