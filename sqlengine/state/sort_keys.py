"""Memory-comparable sort keys: bytes that compare as the values of several columns do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlengine.state.columns import BoolArray, validity

_Bytes = npt.NDArray[np.uint8]

_INVERTED: Final = bytes(255 - i for i in range(256))
_ZERO, _ESCAPED, _END = b"\0", b"\0\xff", b"\0\0"


@dataclass(frozen=True)
class Sorting:
    """The order of a key's rows by several columns.

    `keys` encodes the columns as one sort key for each row. Of rows with equal sort keys the first
    to arrive is first, or the last with `latest_first`.
    """

    columns: tuple[str, ...]
    keys: Callable[[Sequence[pa.Array], int], list[bytes]]
    latest_first: bool = False


def sort_keys(columns: Sequence[tuple[pa.Array, bool, bool]], count: int) -> list[bytes]:
    """Returns a sort key for each of `count` rows.

    `columns` are the values of each column, whether it is descending, and whether NULL is first.
    Texts compare by their UTF-8 bytes; NaN is greater than all numbers; -0.0 equals 0.0. Rows and
    arrays compare field by field and element by element; in them NULL is the smallest.
    """
    parts = [_encoded(values, descends, first) for values, descends, first in columns]
    if len(parts) == 1:
        return parts[0]
    return [b"".join(row) for row in zip(*parts, strict=True)] if parts else [b""] * count


def _encoded(values: pa.Array, descends: bool, nulls_first: bool) -> list[bytes]:
    present = validity(values)
    # The leading byte decides where NULL is. It is not inverted: the position of NULL does not
    # depend on the direction.
    null, some = (b"\0", b"\1") if nulls_first else (b"\1", b"\0")
    fixed = _fixed(values, present)
    if fixed is not None:
        if descends:
            fixed = np.where(present[:, None], 255 - fixed, 0).astype(np.uint8)
        marks = np.where(present, some[0], null[0]).astype(np.uint8)
        return _rows(np.column_stack([marks, fixed]))
    encoded = _varying(values)
    if descends:
        # Inverted bytes sort in reverse only as no encoded text is a prefix of another: see _END.
        encoded = [m.translate(_INVERTED) for m in encoded]
    return [some + m if ok else null for m, ok in zip(encoded, present.tolist(), strict=True)]


def _rows(matrix: _Bytes) -> list[bytes]:
    width, buffer = matrix.shape[1], np.ascontiguousarray(matrix).tobytes()
    return [buffer[i : i + width] for i in range(0, len(buffer), width)]


def _fixed(values: pa.Array, present: BoolArray) -> _Bytes | None:
    """Returns big-endian bytes of one width that compare as the values do, zero for NULL.

    None where the values have no fixed width.
    """
    kind = values.type
    if pa.types.is_boolean(kind):
        return np.asarray(values.cast(pa.uint8()).fill_null(0))[:, None]
    if pa.types.is_decimal128(kind):
        return _decimals(values, present)
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_integer(values.type):
        # Flipping the sign bit makes two's complement compare as unsigned.
        words = np.asarray(values.fill_null(0)).astype(np.int64).view(np.uint64) ^ np.uint64(
            1 << 63
        )
    elif pa.types.is_floating(values.type):
        # Adding 0.0 turns -0.0 into 0.0. IEEE 754 numbers compare as unsigned words once the sign
        # bit of positive numbers is flipped, and all bits of negative ones.
        bits = (np.asarray(values.fill_null(0)).astype(np.float64) + 0.0).view(np.uint64)
        bits = np.where(np.isnan(bits.view(np.float64)), np.uint64(0x7FF8 << 48), bits)
        negative = bits >> np.uint64(63) == 1
        words = np.where(negative, ~bits, bits | np.uint64(1 << 63))
    else:
        return None
    return np.where(present, words, 0).astype(">u8").view(np.uint8).reshape(-1, 8)


def _decimals(values: pa.Array, present: BoolArray) -> _Bytes:
    array = pa.concat_arrays([values])  # its offset is 0
    buffer = array.buffers()[1]
    # Arrow has 128-bit two's complement in little-endian order: reversed, with the sign bit
    # flipped.
    words = (
        np.frombuffer(buffer, np.uint8, 16 * len(array), 16 * array.offset)
        .reshape(-1, 16)[:, ::-1]
        .copy()
    )
    words[:, 0] ^= 128
    words[~present] = 0
    return words


def _varying(values: pa.Array) -> list[bytes]:
    """Returns bytes of varying width that compare as the values do, and of which none is a prefix
    of another."""
    kind = values.type
    if pa.types.is_struct(kind):
        fields = [_encoded(f, False, True) for f in values.flatten()]
        return (
            [b"".join(row) for row in zip(*fields, strict=True)] if fields else [b""] * len(values)
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return [_listed(item.values) if item.is_valid else b"" for item in values]
    # A zero byte is escaped, and the end mark is less than any continuation: 'a' is before 'ab',
    # and before 'a\0'.
    texts = values.cast(pa.binary()).to_pylist()
    return [b"" if t is None else t.replace(_ZERO, _ESCAPED) + _END for t in texts]


def _listed(values: pa.Array) -> bytes:
    """Encodes the elements of one array; a prefix of another array is before it."""
    return b"".join(b"\1" + e for e in _encoded(values, False, True)) + _ZERO
