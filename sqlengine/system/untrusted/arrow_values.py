"""The bytes of Arrow columns without dictionaries: in what comes over a network one value may stand
for any number of others, and a column of nothing have any number of rows."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# Values of a dictionary that are looked up at once.
_AT_ONCE: Final = 1 << 20
_LENGTHS: Final = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
_VIEWS: Final = (pa.types.is_string_view, pa.types.is_binary_view)
_LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
# What one value takes, or each.
_Sizes: TypeAlias = int | npt.NDArray[np.int64]


def decoded_size(rows: pa.RecordBatch) -> int:
    """Returns the bytes of valid rows without dictionaries, about; of a slice perhaps those of all.
    ArrowNotImplementedError for a column of a kind that no table takes."""
    return sum(
        _total(column, name) for name, column in zip(rows.schema.names, rows.columns, strict=True)
    )


def _total(array: pa.Array, name: str) -> int:
    kind, inner = array.type, partial(_total, name=name)
    if isinstance(array, pa.ExtensionArray):
        return inner(array.storage)
    if pa.types.is_dictionary(kind):
        return _looked_up(_each(array.dictionary, name), array.indices)
    if pa.types.is_map(kind):
        return len(array) + inner(array.keys) + inner(array.items)
    if any(is_list(kind) for is_list in _LISTS):
        return len(array) + inner(array.values)
    if pa.types.is_struct(kind):
        names = sum(len(kind.field(i).name) for i in range(kind.num_fields))
        fields = sum(inner(array.field(i)) for i in range(kind.num_fields))
        return len(array) * (1 + names) + fields
    if pa.types.is_union(kind):
        return _of_union(array, name)
    each = _each(array, name)
    return len(array) * each if isinstance(each, int) else int(each.sum())


def _of_union(array: pa.UnionArray, name: str) -> int:
    kind = array.type
    fields = [array.field(i) for i in range(kind.num_fields)]
    if kind.mode == "sparse":
        return len(array) + sum(_total(field, name) for field in fields)
    size = len(array)
    for code, field in zip(kind.type_codes, fields, strict=True):
        chosen = array.offsets.filter(pc.equal(array.type_codes, code))
        size += _looked_up(_each(field, name), chosen)
    return size


def _looked_up(each: _Sizes, indices: pa.Array) -> int:
    """Returns the bytes of values that are named by their places."""
    if isinstance(each, int):
        return len(indices) * each
    size = len(indices)
    for start in range(0, len(indices), _AT_ONCE):
        some = indices.slice(start, _AT_ONCE).drop_null()
        size += int(each[some.to_numpy(zero_copy_only=False)].sum())
    return size


def _each(array: pa.Array, name: str) -> _Sizes:
    """Returns what each value takes, of a kind that has no others within."""
    kind: Any = array.type
    if pa.types.is_null(kind):
        return 1
    if any(is_text(kind) for is_text in _LENGTHS):
        lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
        return _one_more(lengths)
    if any(is_view(kind) for is_view in _VIEWS):
        views = np.frombuffer(array.buffers()[1] or b"", np.int32)[::4]
        views = views[array.offset : array.offset + len(array)]
        return _one_more(np.where(array.is_valid().to_numpy(zero_copy_only=False), views, 0))
    if (
        pa.types.is_primitive(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        return max(1, int(kind.bit_width) // 8)
    what = f"column '{name[:100]}' has values of {str(kind)[:200]}, which no table takes so"
    raise pa.ArrowNotImplementedError(f"{what}: cast it before")


def _one_more(lengths: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Counts what a value takes beside its bytes."""
    found: npt.NDArray[np.int64] = lengths.astype(np.int64) + 1
    return found
