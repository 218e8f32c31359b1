"""Answers of a table that is asked for the rows of keys, kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import Schema
from sqlengine.state.columns import IntArray, blank, longer, to_arrow, to_numpy

_FIRST: Final = 1 << 10
_NONE: Final[IntArray] = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Keeping:
    """The bounds of what is kept: at most `most_rows` rows, where a key without rows counts as one;
    so many ms after they came (`written`), and after they were last used (`used`), None: for ever;
    with `missing` also that a key has no rows."""

    most_rows: int
    written_ms: int | None = None
    used_ms: int | None = None
    missing: bool = True


class AnswerCache:
    """Rows by key; those that were used longest ago go first. One thread.

    Rows are kept as columns, in slots that are used again. `clock`: ms."""

    def __init__(self, schema: Schema, keeping: Keeping, clock: Callable[[], int]) -> None:
        self._schema, self._keeping, self._clock = schema, keeping, clock
        # By key: its slots, when it came, and when it was last used.
        self._entries: OrderedDict[bytes, tuple[IntArray, int, int]] = OrderedDict()
        self._values = [blank(c.type, _FIRST) for c in schema]
        self._valid = [np.zeros(_FIRST, np.bool_) for _ in schema]
        self._free = list(range(_FIRST))
        self._rows = 0

    def __len__(self) -> int:
        """Returns the number of rows that are kept, see `Keeping`."""
        return self._rows

    def get(self, key: bytes) -> IntArray | None:
        """Returns the slots of a key's rows; None where they are not known, or no more."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        slots, written, used = entry
        now, keeping = self._clock(), self._keeping
        late = keeping.written_ms is not None and now - written >= keeping.written_ms
        if late or (keeping.used_ms is not None and now - used >= keeping.used_ms):
            self._remove(key)
            return None
        self._entries[key] = slots, written, now
        self._entries.move_to_end(key)
        return slots

    def columns(self, slots: IntArray) -> list[pa.Array]:
        """Returns the rows in these slots."""
        return [
            to_arrow(c.type, values[slots], valid[slots])
            for c, values, valid in zip(self._schema, self._values, self._valid, strict=True)
        ]

    def put(self, keys: Sequence[bytes], columns: Sequence[pa.Array], of: IntArray) -> None:
        """Keeps the rows of keys that are not kept; `of` has the number of each row's key, in
        order."""
        slots = self._taken(len(of))
        for i, (column, array) in enumerate(zip(self._schema, columns, strict=True)):
            self._values[i][slots], self._valid[i][slots] = to_numpy(column.type, array)
        starts = np.searchsorted(of, np.arange(len(keys) + 1))
        now = self._clock()
        for number, key in enumerate(keys):
            own = slots[starts[number] : starts[number + 1]]
            if len(own) or self._keeping.missing:
                self._entries[key] = own, now, now
                self._rows += max(len(own), 1)
        while self._rows > self._keeping.most_rows:
            self._remove(next(iter(self._entries)))

    def _taken(self, count: int) -> IntArray:
        """Returns slots that nobody has."""
        if not count:
            return _NONE
        more = count - len(self._free)
        if more > 0:
            size = len(self._valid[0]) if self._valid else 0
            more = max(more, size)
            self._values = [
                np.concatenate([v, blank(c.type, more)])
                for c, v in zip(self._schema, self._values, strict=True)
            ]
            self._valid = [longer(v, more) for v in self._valid]
            self._free += range(size, size + more)
        taken = np.array(self._free[-count:], np.int64)
        del self._free[-count:]
        return taken

    def _remove(self, key: bytes) -> None:
        slots = self._entries.pop(key)[0]
        self._rows -= max(len(slots), 1)
        self._free += slots.tolist()
        for column, values in zip(self._schema, self._values, strict=True):
            values[slots] = blank(column.type, len(slots))
