"""OVER in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import Over
from sqlengine.batch import MAX_WATERMARK, Batch
from sqlengine.operators.base import Context, Output
from sqlengine.operators.late_rows import BEHIND, LateGate
from sqlengine.operators.over.forgetting import Forgetting
from sqlengine.operators.over.frames import (
    NUMBERING,
    Ordered,
    aggregate,
    in_order,
    known_rows,
    neighbour,
    offsets,
)
from sqlengine.operators.over.running_sums import RunningSums
from sqlengine.operators.over.totals import Totals
from sqlengine.state.columns import IntArray, milliseconds
from sqlengine.state.rows import RowsTable
from sqlengine.state.table import KeyedTable

# The time of a row in ms, the watermark with which it leaves (a late row does with the next one),
# and the time of the last row of its key that has left.
_TIME, _DUE, _LEFT = "#time", "#due", "#left"
_MS = BIGINT.with_nullable(False)


# As in Flink: with a bounded frame, rows up to the beginning of 1970 are late.
_NOTHING_LEFT = 0


@dataclass(frozen=True)
class _Rows:
    """Rows to tell of, in order of time and arrival: all columns by name, their time, the slots of
    their keys, and the watermark that lets them go: their time, or the next one where it has passed
    that before they came."""

    columns: dict[str, pa.Array]
    times: IntArray
    keys: IntArray
    due: IntArray


class OverOperator:
    """By the time of events rows wait until the watermark has passed them; with an unbounded frame
    a row that is late is dropped (`late_rows`), with a bounded one a row that comes when one of its
    time or later has left. By processing time rows leave as they come.

    Keys whose frames reach back over an interval are forgotten (`Forgetting`).

    State: rows that wait, per key what calls with unbounded frames keep, and the rows that bounded
    frames still see."""

    def __init__(self, node: Over, owner: str = "") -> None:
        self._node = node
        self._late = LateGate(node, owner, reason=BEHIND)
        time = node.order[0].column
        self._time = time
        self._by_event = node.input.schema.type(time).is_rowtime
        self._bounded = node.frame.preceding is not None
        # By processing time each row is a peer of its own, but for what an interval reaches back
        # over.
        self._peers = not node.frame.is_rows and (self._by_event or self._bounded)
        self._lags = [c for c in node.calls if c.function == "LAG"]
        self._framed = [
            c for c in node.calls if self._bounded and c.function not in ("LAG", *NUMBERING)
        ]
        self._sums = RunningSums(self._framed)
        self._totals = Totals(
            [c for c in node.calls if c not in self._lags and c not in self._framed]
        )
        self._forgets = (
            self._by_event and self._bounded and not node.frame.is_rows and not self._lags
        )
        self._forgetting = Forgetting(node.frame.preceding or 0, time, _LEFT)

    def open(self, context: Context) -> None:
        self._late.open(context)
        schema, by = self._node.input.schema, self._node.partition
        key = schema.select(by)
        own = [Column(_LEFT, BIGINT), *(Forgetting.columns if self._forgets else [])]
        self._keys: KeyedTable = context.table(
            "keys", key, Schema((*own, *self._totals.columns, *self._sums.columns)), by
        )
        self._totals.attach(self._keys)
        self._sums.attach(self._keys)
        time = Column(_TIME, _MS)
        if self._by_event:
            rest = schema.select(tuple(n for n in schema.names if n not in by))
            self._waiting = RowsTable(
                context,
                "waiting",
                key,
                Schema(()),
                Schema((time, Column(_DUE, _MS), *rest)),
                by,
                _TIME,
            )
        if self._framed or self._lags:
            seen = dict.fromkeys(a for c in (*self._framed, *self._lags) for a in c.arguments)
            read = schema.select(tuple(n for n in seen if n not in by))
            self._frame = RowsTable(
                context, "frame", key, Schema(()), Schema((time, *read)), by, _TIME
            )
        if self._forgets:
            self._forgetting.open(context, key)
            self._forgetting.attach(self._keys, self._frame)

    def process(self, port: int, batch: Batch) -> Output:
        output: Output = []
        if not self._forgets:
            told = self._told(batch, output)
            return [*output, (0, told)]
        for piece in self._forgetting.pieces(batch):
            told = self._told(piece, output)
            output.append((0, told))
        return output

    def close(self) -> None: ...

    def _told(self, batch: Batch, output: Output) -> Batch:
        rows = self._due(batch, output) if self._by_event else self._at_once(batch)
        return batch.tick(self._node.schema) if rows is None else self._tell(batch, rows)

    # ---- which rows ------------------------------------------------------------------------------

    def _at_once(self, batch: Batch) -> _Rows | None:
        if not batch.num_rows:
            return None
        columns = {n: batch.column(n) for n in self._node.input.schema.names}
        slots, _ = self._keys.slots_for([columns[k] for k in self._node.partition], batch.num_rows)
        times = np.full(batch.num_rows, batch.proctime, np.int64)
        return _Rows(columns, times, slots, times)

    def _due(self, batch: Batch, output: Output) -> _Rows | None:
        if batch.num_rows:
            self._wait(batch, output)
        slots = self._waiting.table.due(_DUE, batch.watermark)
        if not len(slots):
            return None
        slots = self._waiting.table.in_order(slots, _TIME)
        names = self._node.input.schema.names
        columns = dict(zip(names, self._waiting.arrays(names, slots), strict=True))
        times = self._waiting.table.columns[_TIME][slots].astype(np.int64)
        due = self._waiting.table.columns[_DUE][slots].astype(np.int64)
        self._waiting.drop(slots)
        keys, _ = self._keys.slots_for([columns[k] for k in self._node.partition], len(slots))
        return _Rows(columns, times, keys, due)

    def _wait(self, batch: Batch, output: Output) -> None:
        times, valid = milliseconds(batch.column(self._time))
        key = [batch.column(k) for k in self._node.partition]
        if self._bounded:
            good = valid & self._behind_none(key, times, batch)
        else:
            good = valid & (times > batch.watermarks())
        if not good.all():
            self._late.drop(batch, np.flatnonzero(~good), output)
            batch = batch.take(np.flatnonzero(good))
            key, times = [batch.column(k) for k in self._node.partition], times[good]
        names = self._waiting.table.values.names[3:]
        due = np.maximum(times, np.minimum(batch.watermarks(), MAX_WATERMARK - 1) + 1)
        own = [pa.array(times), pa.array(due)]
        self._waiting.put(key, [], [*own, *(batch.column(n) for n in names)], batch.num_rows)

    def _behind_none(
        self, key: Sequence[pa.Array], times: IntArray, batch: Batch
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which rows come before a row of their key with their time or a later one has left: as if
        each came alone."""
        slots, _ = self._keys.slots_for(key, len(times))
        left: dict[int, int] = {}
        came: dict[int, list[tuple[int, int]]] = {}
        held, has_left = self._keys.columns[_LEFT], self._keys.columns[_LEFT + "?"]
        groups = self._waiting.groups(key, len(times)).tolist()
        good = np.ones(len(times), np.bool_)
        for i, (slot, time, watermark) in enumerate(
            zip(slots.tolist(), times.tolist(), batch.watermarks().tolist(), strict=True)
        ):
            before = left.get(slot, int(held[slot]) if has_left[slot] else _NOTHING_LEFT)
            moved = groups[i] >= 0 and watermark > batch.since
            waits = self._waiting.last_until(groups[i], watermark) if moved else None
            gone = [
                t
                for t, arrival in came.setdefault(slot, [])
                if t <= watermark and arrival < watermark
            ]
            left[slot] = max([before, *gone, *(() if waits is None else (waits,))])
            good[i] = time > left[slot]
            if good[i]:
                came[slot].append((time, watermark))
        if self._forgets:
            self._forgetting.live_on(slots[good], times[good], batch.watermarks()[good])
        return good

    # ---- what they have --------------------------------------------------------------------------

    def _tell(self, batch: Batch, rows: _Rows) -> Batch:
        by_key = np.argsort(rows.keys, kind="stable")
        back = np.empty(len(by_key), np.int64)
        back[by_key] = np.arange(len(by_key))
        keys, times = rows.keys[by_key], rows.times[by_key]
        index = pa.array(by_key)
        columns = {n: c.take(index) for n, c in rows.columns.items()}
        ordered = in_order(keys, [times] if self._peers else [np.arange(len(keys))])
        found = self._totals.after(keys, columns, ordered)
        if self._framed or self._lags:
            found |= self._seen(keys, times, columns)
        self._left(keys, times)
        at = pa.array(back)
        values = [found[c.name].cast(c.type.arrow).take(at) for c in self._node.calls]
        tick = batch.tick(self._node.schema)
        before = batch.watermarks_before(rows.due) if self._by_event else None
        return replace(
            tick,
            columns=(*rows.columns.values(), *values),
            num_rows=len(keys),
            row_watermarks=before,
        )

    def _left(self, keys: IntArray, times: IntArray) -> None:
        last = np.append(np.flatnonzero(keys[1:] != keys[:-1]), len(keys) - 1)
        self._keys.write(keys[last], {_LEFT: pa.array(times[last])})
        self._keys.mark(keys[last])

    def _seen(
        self, keys: IntArray, times: IntArray, columns: dict[str, pa.Array]
    ) -> dict[str, pa.Array]:
        """Calls over the rows that are kept and those that come now (sorted by key, then time)."""
        frame, count = self._frame, len(keys)
        key = [columns[k] for k in self._node.partition]
        firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        of, held = frame.matches([c.take(pa.array(firsts)) for c in key], len(firsts))
        names = frame.table.values.names[2:]
        kept = dict(zip(names, frame.arrays(names, held), strict=True))
        all_keys = np.concatenate([keys[firsts][of], keys])
        at = np.argsort(all_keys, kind="stable")
        all_times = np.concatenate([frame.table.columns[_TIME][held].astype(np.int64), times])[at]
        index = pa.array(at)
        together = {n: pa.concat_arrays([kept[n], columns[n]]).take(index) for n in names}
        together |= {
            n: columns[n].take(pa.array(np.concatenate([firsts[of], np.arange(count)])[at]))
            for n in self._node.partition
        }
        rows = in_order(all_keys[at], [all_times] if self._peers else [np.arange(len(at))])
        new = np.flatnonzero(at >= len(held))
        found = self._framed_values(keys, rows, all_times, together, new)
        lasts = np.flatnonzero(np.append(np.diff(rows.partition) != 0, True))
        reach = np.zeros(len(lasts), np.int64)
        for call in self._lags:
            values = [together[a] for a in call.arguments]
            known = None if call.constants else known_rows(offsets(values), rows)
            # Flink counts from the last row of those of one time.
            found[call.name] = neighbour(call, rows, values, rows.last_peer, known).take(
                pa.array(new)
            )
            reach = np.maximum(reach, call.constants[0] if known is None else known[lasts])
        frame.put(key, [], [pa.array(times), *(columns[n] for n in names)], count)
        self._forget(key, firsts, reach)
        return found

    def _framed_values(
        self,
        keys: IntArray,
        rows: Ordered,
        times: IntArray,
        columns: dict[str, pa.Array],
        new: IntArray,
    ) -> dict[str, pa.Array]:
        if not self._framed:
            return {}
        reach = self._node.frame.preceding or 0
        at = np.arange(len(rows))
        if self._node.frame.is_rows:
            low, high = np.maximum(at - reach, rows.partition), at
        else:
            low, high = _since(rows, times, reach), rows.last_peer
        others = [c for c in self._framed if c not in self._sums.calls]
        values = ((c, columns[c.arguments[0]] if c.arguments else None) for c in others)
        found = {c.name: aggregate(c, v, low[new], high[new], moves=True) for c, v in values}
        return found | self._sums.after(keys, rows, (low, high), new, columns)

    def _forget(self, key: Sequence[pa.Array], firsts: IntArray, reach: IntArray) -> None:
        """Drops the rows that no frame sees any more; `reach`: how many rows LAG looks back from
        the last of each key."""
        frame = self._frame
        framed = self._framed and self._node.frame.is_rows
        least = (self._node.frame.preceding or 0) + bool(self._sums.calls) if framed else 0
        at = pa.array(firsts)
        gone = []
        groups = frame.groups([c.take(at) for c in key], len(firsts)).tolist()
        for group, rows in zip(groups, np.maximum(reach, least).tolist(), strict=True):
            slots = frame.slots(group)
            old = slots[: max(len(slots) - rows, 0)]
            if self._framed and not self._node.frame.is_rows:
                times = frame.table.columns[_TIME][old].astype(np.int64)
                last = int(frame.table.columns[_TIME][slots[-1]])
                old = old[times < last - (self._node.frame.preceding or 0)]
            gone.append(old)
        frame.drop(np.concatenate(gone))


def _since(rows: Ordered, times: IntArray, reach: int) -> IntArray:
    """For each row the first one of its partition that is at most `reach` ms older; times do not
    fall in a partition."""
    low = np.empty(len(rows), np.int64)
    starts = np.unique(rows.partition)
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
        part = times[start:end]
        low[start:end] = start + np.searchsorted(part, part - reach, "left")
    return low
