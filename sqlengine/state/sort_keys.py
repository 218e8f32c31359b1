"""Keys for sorted state: bytes that compare as the values of several columns do, one key for each
row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlengine.state.columns import BoolArray, validity

_Bytes = npt.NDArray[np.uint8]

_INVERTED: Final = bytes(255 - i for i in range(256))
_ZERO, _ESCAPED, _END = b"\0", b"\0\xff", b"\0\0"


def sort_keys(columns: Sequence[tuple[pa.Array, bool, bool]], count: int) -> list[bytes]:
    """A key for each of `count` rows. Of each column its values, whether they descend, whether NULL
    comes first.

    Texts are compared by their UTF-8 bytes; NaN is greater than all numbers; -0.0 is 0.0; rows and
    arrays are compared part by part, NULL being the smallest in them."""
    parts = [_encoded(values, descends, first) for values, descends, first in columns]
    if len(parts) == 1:
        return parts[0]
    return [b"".join(row) for row in zip(*parts, strict=True)] if parts else [b""] * count


def _encoded(values: pa.Array, descends: bool, nulls_first: bool) -> list[bytes]:
    there = validity(values)
    null, some = (b"\0", b"\1") if nulls_first else (b"\1", b"\0")
    fixed = _fixed(values, there)
    if fixed is not None:
        if descends:
            fixed = np.where(there[:, None], 255 - fixed, 0).astype(np.uint8)
        marks = np.where(there, some[0], null[0]).astype(np.uint8)
        return _rows(np.column_stack([marks, fixed]))
    made = _varying(values)
    if descends:
        made = [m.translate(_INVERTED) for m in made]
    return [some + m if ok else null for m, ok in zip(made, there.tolist(), strict=True)]


def _rows(found: _Bytes) -> list[bytes]:
    width, held = found.shape[1], np.ascontiguousarray(found).tobytes()
    return [held[i : i + width] for i in range(0, len(held), width)]


def _fixed(values: pa.Array, there: BoolArray) -> _Bytes | None:
    """Big-endian bytes of one width that compare as the values do, zero for NULL; None where widths
    vary."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return np.asarray(values.cast(pa.uint8()).fill_null(0))[:, None]
    if pa.types.is_decimal128(kind):
        return _decimals(values, there)
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_integer(values.type):
        found = np.asarray(values.fill_null(0)).astype(np.int64).view(np.uint64) ^ np.uint64(
            1 << 63
        )
    elif pa.types.is_floating(values.type):
        bits = (np.asarray(values.fill_null(0)).astype(np.float64) + 0.0).view(np.uint64)
        bits = np.where(np.isnan(bits.view(np.float64)), np.uint64(0x7FF8 << 48), bits)
        negative = bits >> np.uint64(63) == 1
        found = np.where(negative, ~bits, bits | np.uint64(1 << 63))
    else:
        return None
    return np.where(there, found, 0).astype(">u8").view(np.uint8).reshape(-1, 8)


def _decimals(values: pa.Array, there: BoolArray) -> _Bytes:
    held = pa.concat_arrays([values])  # its offset is 0
    buffer = held.buffers()[1]
    found = (
        np.frombuffer(buffer, np.uint8, 16 * len(held), 16 * held.offset)
        .reshape(-1, 16)[:, ::-1]
        .copy()
    )
    found[:, 0] ^= 128
    found[~there] = 0
    return found


def _varying(values: pa.Array) -> list[bytes]:
    kind = values.type
    if pa.types.is_struct(kind):
        fields = [_encoded(f, False, True) for f in values.flatten()]
        return (
            [b"".join(row) for row in zip(*fields, strict=True)] if fields else [b""] * len(values)
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return [_listed(item.values) if item.is_valid else b"" for item in values]
    texts = values.cast(pa.binary()).to_pylist()
    return [b"" if t is None else t.replace(_ZERO, _ESCAPED) + _END for t in texts]


def _listed(values: pa.Array) -> bytes:
    """The elements of one array; a shorter one that begins alike comes first."""
    return b"".join(b"\1" + e for e in _encoded(values, False, True)) + _ZERO
