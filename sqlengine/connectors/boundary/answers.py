"""Looks at what a connector answers: what cannot be must not get into a graph, which would break in
the middle of an epoch.

Each check costs in proportion to columns and shards, never to rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from planner.logical import Scan
from sqlengine.connectors.chunks import Chunk, Part, Place
from sqlengine.connectors.refused_rows import RefusedRows
from sqlengine.formats.registry import decodes_keys, value_metadata
from sqlengine.system.hidden import hidden

# Offsets and counts are written with 64 bits.
_MOST: Final = 1 << 63


class Nonsense(Exception):
    """An answer that cannot be: the words say what was answered."""


def whole(answer: object, what: str = "returned") -> int:
    """Returns an offset or a number of rows."""
    if isinstance(answer, bool) or not isinstance(answer, int | np.integer):
        raise Nonsense(f"{what} {shown(answer)}, not a whole number")
    if not 0 <= answer < _MOST:
        raise Nonsense(f"{what} {shown(answer)}, which is no offset and no number of rows")
    return int(answer)


def whole_or_none(answer: object) -> int | None:
    """Returns an offset, or None."""
    return None if answer is None else whole(answer)


def truth(answer: object) -> bool:
    """Returns True or False."""
    if not isinstance(answer, bool | np.bool_):
        raise Nonsense(f"returned {shown(answer)}, not True or False")
    return bool(answer)


def text(answer: object) -> str:
    """Returns a text."""
    if not isinstance(answer, str):
        raise Nonsense(f"returned {shown(answer)}, not a text")
    return answer


def text_or_none(answer: object) -> str | None:
    """Returns a text, or None."""
    return None if answer is None else text(answer)


def names(answer: object) -> list[str]:
    """Returns the names of shards."""
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes | Mapping):
        raise Nonsense(f"returned {shown(answer)}, not a list of shards")
    listed = answer if isinstance(answer, list) else list(answer)
    for name in listed:
        if not isinstance(name, str):
            raise Nonsense(f"returned {shown(name)} as the name of a shard")
    if len(set(listed)) < len(listed):
        raise Nonsense("returned a shard twice")
    return listed


def texts(answer: object) -> dict[str, str]:
    """Returns texts by name."""
    if not isinstance(answer, Mapping):
        raise Nonsense(f"returned {shown(answer)}, not texts by shard")
    found = dict(answer)
    if not all(isinstance(k, str) and isinstance(v, str) for k, v in found.items()):
        raise Nonsense(f"returned {shown(answer)}, not texts by shard")
    return found


def lines(answer: object) -> pa.Array:
    """Returns an array of bytes."""
    if not isinstance(answer, pa.Array) or not pa.types.is_binary(answer.type):
        raise Nonsense(f"returned {shown(answer)}, not an array of bytes")
    return answer


def refused(answer: object) -> Sequence[RefusedRows]:
    """Returns rows that were refused, each of a batch that was written; their reasons without
    secrets that the other side gives back."""
    if not isinstance(answer, list | tuple) or not all(isinstance(r, RefusedRows) for r in answer):
        raise Nonsense(f"returned {shown(answer)}, not refused rows")
    for found in answer:
        if not all(0 <= whole(row) < found.rows.num_rows for row in found.reasons):
            raise Nonsense("refused rows that were not written")
    shown_as = {why: hidden(why) for found in answer for why in set(found.reasons.values())}
    return [replace(r, reasons={n: shown_as[why] for n, why in r.reasons.items()}) for r in answer]


def parts(answer: object) -> Sequence[Part] | None:
    """Returns the parts of a shard, whose ends rise; None where there are none."""
    if answer is None:
        return None
    if not isinstance(answer, list) or not all(isinstance(p, Part) for p in answer):
        raise Nonsense(f"returned {shown(answer)}, not a list of parts")
    ends = [0, *(whole(p.end) for p in answer)]
    if ends != sorted(ends):
        raise Nonsense("returned parts that are in no order")
    return answer


class ChunkCheck:
    """Looks at the chunks of one scan."""

    def __init__(self, scan: Scan) -> None:
        in_value = value_metadata(scan.table)
        self._keyed = decodes_keys(scan.table)
        self._keys = [m.key for m in scan.table.metadata if m not in in_value]
        self._columns = [(c.name, c.type.arrow) for c in scan.schema]

    def __call__(self, answer: object, shard: str, start: int, until: int | None) -> Chunk | None:
        """Returns the chunk that was read from `start` on."""
        if answer is None:
            return None
        if not isinstance(answer, Chunk):
            raise Nonsense(f"returned {shown(answer)}, not a chunk of rows")
        if answer.shard != shard:
            raise Nonsense(f"returned a chunk of shard {shown(answer.shard)} for '{shard}'")
        if whole(answer.start, "returned a chunk from") != start:
            raise Nonsense(f"returned a chunk from {answer.start} on, not from {start}")
        rows, end = whole(answer.num_rows, "returned as rows"), whole(answer.end, "ended at")
        if end < start or (rows and end == start):
            raise Nonsense(f"returned {rows} rows from {start} to {end}")
        if until is not None and end > until:
            raise Nonsense(f"returned a chunk to {end}, asked for one to {until}")
        if not isinstance(answer.digest, str):
            raise Nonsense(f"returned {shown(answer.digest)} as a digest")
        if answer.places:
            _require_places(answer.places)
        else:
            self._look_at_rows(answer)
        return answer

    def _look_at_rows(self, chunk: Chunk) -> None:
        rows = chunk.num_rows
        if chunk.columns is not None:
            self._look_at_columns(chunk.columns, rows)
        else:
            _require_length(lines(chunk.records), rows, "records")
            _require_numbers(chunk.offsets, rows, np.int64, "offsets")
            self._look_at_metadata(chunk.metadata, rows)
            if self._keyed:
                _require_length(lines(chunk.keys), rows, "keys")
        if chunk.kinds is not None:
            _require_numbers(chunk.kinds, rows, np.int8, "kinds of rows")

    def _look_at_metadata(self, metadata: object, rows: int) -> None:
        for key in self._keys:
            if not isinstance(metadata, Mapping) or key not in metadata:
                raise Nonsense(f"returned no metadata '{key}'")
            _require_length(metadata[key], rows, f"values of metadata '{key}'")

    def _look_at_columns(self, columns: object, rows: int) -> None:
        if not isinstance(columns, Mapping):
            raise Nonsense(f"returned {shown(columns)} as columns")
        for name, kind in self._columns:
            if name not in columns:
                raise Nonsense(f"returned no column '{name}'")
            _require_length(columns[name], rows, f"values of column '{name}'")
            if columns[name].type != kind:
                raise Nonsense(f"returned column '{name}' as {columns[name].type}, not {kind}")


def _require_places(found: object) -> None:
    if not isinstance(found, Sequence) or not all(isinstance(p, Place) for p in found):
        raise Nonsense(f"returned {shown(found)}, not the places of rows")


def _require_length(values: object, rows: int, what: str) -> None:
    if not isinstance(values, pa.Array) or len(values) != rows:
        count = len(values) if isinstance(values, Sequence | pa.Array) else shown(values)
        raise Nonsense(f"returned {count} as {what} for {rows} rows")


def _require_numbers(values: object, rows: int, kind: type[np.generic], what: str) -> None:
    if not isinstance(values, np.ndarray) or values.dtype != kind or values.shape != (rows,):
        raise Nonsense(f"returned {shown(values)} as {what} for {rows} rows")


def shown(answer: object) -> str:
    """Returns an answer for people: a number or text itself, of anything else the kind."""
    if answer is None or isinstance(answer, bool | int):
        text = repr(answer)
    elif isinstance(answer, str):
        text = repr(answer[:50])
    else:
        return f"a value of type {type(answer).__name__}"
    return text if len(text) < 60 else text[:60] + "…"
