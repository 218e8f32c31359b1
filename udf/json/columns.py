"""Columns as JSON, a column at a time: strings quoted, lists joined, objects put together from
their members."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root
from udf.arrays.arrays import in_two_ways, valid
from udf.json.text import quoted_json
from udf.vector import BoolArray

_STRING = pa.string()
_EMPTY = pa.scalar("", _STRING)
_NULL = pa.scalar("null", _STRING)
# Bytes that stand in a JSON string as an escape: controls, the quote, the backslash.
_SPECIAL = np.zeros(256, np.bool_)
_SPECIAL[[*range(32), 34, 92]] = True
_CONTROL = np.zeros(256, np.bool_)
_CONTROL[:32] = True


def joined(*parts: pa.Array | pa.Scalar | str) -> pa.Array:
    """The parts of each row one behind the other."""
    given = [pa.scalar(p, _STRING) if isinstance(p, str) else p for p in parts]
    return pc.binary_join_element_wise(*given, _EMPTY)


def quoted_column(values: pa.Array) -> pa.Array:
    """Texts as JSON strings."""
    data = _bytes(values)
    # One look-up over the whole buffer decides for all rows.
    if not _SPECIAL[data].any():
        return joined('"', values, '"')
    # Controls need \u escapes, which no Arrow kernel writes: those rows go one by one.
    if _CONTROL[data].any():
        special = pc.match_substring_regex(values, "[\x00-\x1f]").fill_null(False)
        mask = ~np.asarray(special.to_numpy(zero_copy_only=False), np.bool_)
        return in_two_ways(values, mask, quoted_column, _one_by_one)
    # Backslashes first, else those of the quotes would be doubled.
    return joined(
        '"', pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"'), '"'
    )


def _one_by_one(values: pa.Array) -> pa.Array:
    return pa.array([None if v is None else quoted_json(v) for v in values.to_pylist()], _STRING)


def _bytes(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Returns the bytes of all texts."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return np.zeros(0, np.uint8)
    # A sliced array shares its buffers: only its own bytes count.
    bounds = np.frombuffer(offsets, np.int32)[[values.offset, values.offset + len(values)]]
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[1]]


def plain_column(values: pa.Array, t: DataType) -> pa.Array | None:
    """Strings, integers, booleans and decimals as JSON; None for other types."""
    if t.is_string:
        return quoted_column(values)
    if t.is_integer:
        return values.cast(_STRING)
    if t.root is Root.BOOLEAN:
        return pc.if_else(values, pa.scalar("true"), pa.scalar("false"))
    if t.root is Root.DECIMAL and pa.types.is_decimal128(values.type) and values.type.scale <= 6:
        return values.cast(_STRING)
    return None


def list_column(values: pa.Array, elements: pa.Array) -> pa.Array:
    """Lists as JSON arrays; `elements` is the JSON of `values.values`, NULL where an element is."""
    # Arrow's binary_join gives NULL for a list that holds a NULL, hence the text "null".
    lists = pa.ListArray.from_arrays(values.offsets, elements.fill_null("null"))
    written = joined("[", pc.binary_join(lists, ","), "]")
    present = valid(values, len(values))
    return (
        written
        if present.all()
        else pc.if_else(pa.array(present), written, pa.scalar(None, _STRING))
    )


def object_column(keys: Sequence[str], members: Sequence[pa.Array], *, absent: bool) -> pa.Array:
    """Objects with these keys, which are in order and differ; a NULL member is null, or left out if
    `absent`."""
    parts: list[pa.Array | str] = []
    for i, (key, member) in enumerate(zip(keys, members, strict=True)):
        # When members may be absent each brings its own comma, and the first one is cut off below.
        head = f"{',' if i or absent else ''}{quoted_json(key)}:"
        if absent:
            # The join of a NULL member is NULL, which becomes nothing at all.
            parts.append(joined(head, member).fill_null(""))
        else:
            parts += [head, member.fill_null(_NULL)]
    if not absent:
        return joined("{", *parts, "}")
    return joined("{", pc.utf8_slice_codeunits(joined(*parts), 1), "}")


def array_column(elements: Sequence[pa.Array], *, absent: bool) -> pa.Array:
    """Arrays of these elements; a NULL one is null, or left out if `absent`."""
    if absent:
        parts = [joined(",", e).fill_null("") for e in elements]
        return joined("[", pc.utf8_slice_codeunits(joined(*parts), 1), "]")
    given = pc.binary_join_element_wise(*[e.fill_null(_NULL) for e in elements], pa.scalar(","))
    return joined("[", given, "]")


def map_column(values: pa.Array, items: pa.Array) -> pa.Array | None:
    """Maps as objects, keys in order; `items` is the JSON of the values. None where a map has a key
    twice, or keys beyond ASCII, whose order is another."""
    keys, offsets = values.keys, values.offsets.to_numpy()
    encoded = keys.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    # ASCII sorts alike in code points and in UTF-16 units, beyond it the two differ.
    if keys.null_count or not all(k.isascii() for k in known):
        return None
    ranks = np.empty(len(known), np.int64)
    ranks[sorted(range(len(known)), key=known.__getitem__)] = np.arange(len(known))
    first, last = int(offsets[0]), int(offsets[-1])
    rows = np.repeat(np.arange(len(values)), np.diff(offsets))
    # One number per entry that sorts by row first and by key second.
    places = rows * max(len(known), 1) + ranks[encoded.indices.to_numpy()[first:last]]
    order = np.argsort(places, kind="stable")
    # Two equal numbers side by side: a key twice in one map.
    if len(order) > 1 and not np.diff(places[order]).all():
        return None
    members = joined(
        # Each distinct key is quoted once.
        quoted_column(encoded.dictionary).take(encoded.indices),
        ":",
        items.fill_null("null"),
    )
    lists = pa.ListArray.from_arrays(
        pa.array(offsets - first), members.take(pa.array(order + first))
    )
    present: BoolArray = valid(values, len(values))
    written = joined("{", pc.binary_join(lists, ","), "}")
    return (
        written
        if present.all()
        else pc.if_else(pa.array(present), written, pa.scalar(None, _STRING))
    )
