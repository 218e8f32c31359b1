"""The entries of views in the server: a table with a row for each, which answers the questions of
a worker and takes what it has written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, BYTES, INT, Column, Schema
from sqlengine.functions.protocol import Header
from sqlengine.operators.base import NO_TICK, Context, Rest
from sqlengine.state.chains import KeyChains
from sqlengine.state.columns import IntArray
from sqlengine.state.table import KeyedTable

_VIEW, _ENTRY, _VALUE, _UNTIL = "#view", "#entry", "#value", "#until"
_NEVER: Final = 0


class ViewEntries:
    """The entries of the views of all keys. `ttls`: of each view how long an entry stays that was
    not written (ms), 0 for ever.

    State: table `entries`, key, view, entry -> value, `#until` (processing time, ms; NULL for
    ever). Timers: `#until`."""

    def __init__(self, context: Context, keys: Schema, ttls: Sequence[int]) -> None:
        self._keys = keys
        self._ttls = ttls
        named = Schema((*keys, Column(_VIEW, INT), Column(_ENTRY, BYTES)))
        values = Schema((Column(_VALUE, BYTES), Column(_UNTIL, BIGINT)))
        self._table: KeyedTable = context.table("entries", named, values, keys.names)
        self._chains = KeyChains(self._table, (*keys.names, _VIEW))

    def rest(self) -> Rest:
        first = self._table.earliest(_UNTIL) if any(self._ttls) else None
        return NO_TICK if first is None else Rest(proctime=first)

    def forget(self, proctime: int) -> None:
        """Removes the entries whose time is over."""
        self._chains.refresh()
        if any(self._ttls):
            self._remove(self._table.due(_UNTIL, proctime))

    def _remove(self, slots: IntArray) -> None:
        self._chains.remove(slots)
        self._table.remove(slots)

    def get(self, key: Sequence[pa.Array], view: int, entry: bytes) -> bytes | None:
        named = [*key, _views([view]), pa.array([entry], pa.binary())]
        (slot,) = self._table.slots_for(named, 1, insert=False)[0]
        return None if slot < 0 else bytes(self._table.columns[_VALUE][slot])

    def all(self, key: Sequence[pa.Array], view: int) -> dict[bytes, bytes]:
        """The entries of a view of a key, in the order in which they came."""
        slots = self._table.in_order(self._members(key, view))
        columns = (self._table.columns[name][slots].tolist() for name in (_ENTRY, _VALUE))
        return dict(zip(*columns, strict=True))

    def clear(self, key: Sequence[pa.Array], view: int) -> None:
        self._remove(self._members(key, view))

    def _members(self, key: Sequence[pa.Array], view: int) -> IntArray:
        return self._chains.members(self._chains.groups([*key, _views([view])], 1))[1]

    def put(
        self,
        keys: Sequence[pa.Array],
        views: Sequence[int],
        entries: Sequence[bytes],
        values: Sequence[bytes | None],
        proctime: int,
    ) -> None:
        """Writes entries, each once; None removes."""
        named = [*keys, _views(views), pa.array(entries, pa.binary())]
        gone = np.array([v is None for v in values], np.bool_)
        known, _ = self._table.slots_for(named, len(values), insert=False)
        self._remove(known[gone & (known >= 0)])
        kept: list[int] = np.flatnonzero(~gone).tolist()
        columns = [column.take(pa.array(kept, pa.int64())) for column in named]
        slots, is_new = self._table.slots_for(columns, len(kept))
        new = np.flatnonzero(is_new)
        group = [column.take(pa.array(new)) for column in columns[:-1]]
        self._chains.add(slots[new], group)
        ttls = np.array([self._ttls[views[i]] for i in kept], np.int64)
        until = pa.array(ttls + proctime, pa.int64(), mask=ttls == _NEVER)
        written = pa.array([values[i] for i in kept], pa.binary())
        self._table.write(slots, {_VALUE: written, _UNTIL: until})
        self._table.mark(slots)


class Writing:
    """The entries while a batch is given to the worker in parts: what it has written in the ones
    before is seen by those behind, and becomes state at the end."""

    def __init__(self, entries: ViewEntries, keys: Sequence[pa.Array]) -> None:
        self._entries = entries
        self._keys = keys
        self._cleared: set[tuple[int, int]] = set()
        self._written: dict[tuple[int, int], dict[bytes, bytes | None]] = {}

    def answer(self, header: Header, blobs: list[pa.Buffer]) -> tuple[Header, list[pa.Buffer]]:
        """The answer to a question of the worker: entries and values in turn."""
        number, view = header["key"], header["view"]
        assert isinstance(number, int)
        assert isinstance(view, int)
        found = (
            self._all(number, view) if header["all"] else self._one(number, view, bytes(blobs[0]))
        )
        pairs = [pa.py_buffer(part) for pair in found.items() for part in pair]
        return {}, pairs

    def _one(self, number: int, view: int, entry: bytes) -> dict[bytes, bytes]:
        written = self._written.get((number, view), {})
        if entry in written or (number, view) in self._cleared:
            value = written.get(entry)
        else:
            value = self._entries.get(self._key(number), view, entry)
        return {} if value is None else {entry: value}

    def _all(self, number: int, view: int) -> dict[bytes, bytes]:
        cleared = (number, view) in self._cleared
        stored = {} if cleared else self._entries.all(self._key(number), view)
        found = {**stored, **self._written.get((number, view), {})}
        return {entry: value for entry, value in found.items() if value is not None}

    def _key(self, number: int) -> list[pa.Array]:
        return [column.slice(number, 1) for column in self._keys]

    def take(self, changes: pa.RecordBatch) -> None:
        """Takes what the worker has written."""
        columns = (column.to_pylist() for column in changes.columns)
        for number, view, entry, value in zip(*columns, strict=True):
            if entry is None:
                self._cleared.add((number, view))
                self._written.pop((number, view), None)
            else:
                self._written.setdefault((number, view), {})[entry] = value

    def keep(self, proctime: int) -> None:
        """Makes what was written state."""
        for number, view in sorted(self._cleared):
            self._entries.clear(self._key(number), view)
        rows = [
            (number, view, entry, value)
            for (number, view), written in self._written.items()
            for entry, value in written.items()
        ]
        if not rows:
            return
        numbers, views, entries, values = map(list, zip(*rows, strict=True))
        at = pa.array(numbers, pa.int64())
        keys = [column.take(at) for column in self._keys]
        self._entries.put(keys, views, entries, values, proctime)


def _views(numbers: Sequence[int]) -> pa.Array:
    return pa.array(numbers, pa.int32())
