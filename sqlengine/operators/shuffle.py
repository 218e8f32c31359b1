"""Both ends of a crossing between the parts of a divided graph. What crosses is batches in bytes:
rows with their kinds and the times before and behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, STRING, Schema
from planner.logical import LOCAL, REMOTE, ShuffleIn, ShuffleOut, ShuffleScan
from planner.logical.shuffle import KEY
from sqlengine.batch import MIN_WATERMARK, Batch, IntArray, concat, joined_steps, merge_runs
from sqlengine.formats.shuffle_records import (
    PARCELS,
    SenderHeader,
    ShuffleRecord,
    decode_header,
    decode_record,
    encode_record,
)
from sqlengine.operators.base import Context, Output
from sqlengine.operators.ports import PortTimes
from sqlengine.operators.scan import METADATA_PREFIX, OFFSET, RECORD
from sqlengine.state.keys import BUCKETS, buckets_of
from sqlengine.state.table import KeyedTable

Encode: TypeAlias = Callable[[Batch], bytes]
Decode: TypeAlias = Callable[[bytes], Batch]

_NUMBER = BIGINT.with_nullable(False)
_SALT: Final = 0x9E3779B97F4A7C15


class _Told:
    """How far the time is that was last told of: a table of one row, which belongs to no bucket."""

    def __init__(self, context: Context) -> None:
        keys = Schema.of(what=INT)
        self._table: KeyedTable = context.table(
            "told", keys, Schema.of(watermark=_NUMBER, idle=_NUMBER), None
        )
        self._slots, is_new = self._table.slots_for([pa.array([0], pa.int32())], 1)
        if is_new[0]:
            self._write(MIN_WATERMARK, False)

    def news(self, watermark: int, idle: bool) -> bool:
        """Whether that is new; it is told of from now on."""
        columns, slot = self._table.columns, self._slots[0]
        if watermark <= columns["watermark"][slot] and bool(columns["idle"][slot]) == idle:
            return False
        self._write(max(watermark, int(columns["watermark"][slot])), idle)
        return True

    def _write(self, watermark: int, idle: bool) -> None:
        self._table.columns["watermark"][self._slots] = watermark
        self._table.columns["idle"][self._slots] = idle
        self._table.mark(self._slots)


class ShuffleOutOperator:
    """Gives parcels for the sink, and the part's own rows as they are, with the part as their
    origin. A part that gets no rows of a batch is told of the time where that is new.
    `rows_shuffled`, `parcels` and `ticks_shuffled` (those without rows) count what goes."""

    def __init__(self, node: ShuffleOut, encode: Encode) -> None:
        self._node = node
        self._encode = encode

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._told = _Told(context)

    def process(self, port: int, batch: Batch) -> Output:
        return self._send(batch, self._told.news(batch.watermark, batch.idle))

    def process_many(self, parts: Sequence[tuple[int, Batch]]) -> Output:
        """What came in one epoch crosses together."""
        news = [(b, self._told.news(b.watermark, b.idle)) for _, b in parts]
        told = any(moved for _, moved in news)
        return [
            out
            for b in merge_runs([b for b, moved in news if b.num_rows or moved])
            for out in self._send(b, told)
        ]

    def _send(self, batch: Batch, moved: bool) -> Output:
        if not batch.num_rows and not moved:
            return []
        names = tuple(n for n in self._node.columns.names if n in batch.schema)
        owners = self._owners(batch)
        rows = batch.with_columns(batch.schema.select(names), [batch.column(n) for n in names])
        told = [
            batch.steps,
            None if batch.row_watermarks is None else np.unique(batch.row_watermarks),
        ]
        rest = replace(rows, offsets=None, origin="", proctime=0, steps=joined_steps(told))
        shares = ((part, np.flatnonzero(owners == part)) for part in range(self._node.parts))
        sent = {part: self._share(rest, mine, batch) for part, mine in shares if len(mine) or moved}
        own = sent.pop(self._node.index, None)
        parcels = [
            encode_record(ShuffleRecord(self._node.crossing, self._encode(b)))
            for b in sent.values()
        ]
        self._counters["rows_shuffled"] += batch.num_rows
        self._counters["parcels"] += len(sent)
        self._counters["ticks_shuffled"] += sum(not b.num_rows for b in sent.values())
        columns = (pa.array(list(sent), pa.int32()), pa.array(parcels, pa.binary()))
        output: Output = [(REMOTE, Batch(PARCELS, columns, len(parcels), batch.proctime))]
        if own is not None:
            output.append(
                (LOCAL, replace(own, origin=str(self._node.index), proctime=batch.proctime))
            )
        return output

    def _owners(self, batch: Batch) -> IntArray:
        """The part that each row goes to."""
        keys = self._node.keys
        if not keys:
            return np.full(batch.num_rows, self._node.index if keys is None else 0, np.int64)
        buckets = buckets_of(
            [batch.schema.type(k) for k in keys], [batch.column(k) for k in keys], batch.num_rows
        )
        owners: IntArray = buckets.astype(np.int64) * self._node.parts // BUCKETS
        return owners

    def _share(self, rows: Batch, mine: IntArray, whole: Batch) -> Batch:
        if len(mine) == whole.num_rows:
            return replace(rows, steps=whole.steps)
        return replace(rows.take(mine), watermark=whole.watermark)

    def close(self) -> None: ...


class ShuffleScanOperator:
    """Opens parcels: each batch leaves by the port of its crossing, with the part that sent it as
    its origin. Those of crossings that are no more are dropped (`parcels_dropped`)."""

    def __init__(self, node: ShuffleScan, decode: Decode) -> None:
        self._ports: Mapping[str, int] = {c: port for port, c in enumerate(node.crossings)}
        self._decode = decode

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._senders = _Senders(context)
        self._heirs = _Heirs(context)

    def on_state_takeover(self, nodes: Mapping[str, str], version: int) -> None:
        """See `Heir`: what was sent to the others before, and comes later, is for those, too."""
        for crossing in self._ports:
            node, port = crossing.rsplit(".", 1)
            if node in nodes:
                self._heirs.add(f"{nodes[node]}.{port}", crossing, version)

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows:
            tick = Batch(Schema(()), (), 0, batch.proctime)
            return [(to, tick) for to in self._ports.values()]
        output: Output = []
        keys, records, offsets = (
            batch.column(n).to_pylist() for n in (METADATA_PREFIX + KEY, RECORD, OFFSET)
        )
        stamps = {key: decode_header(key) for key in dict.fromkeys(keys)}
        self._senders.check(stamps.values())
        for key, record, offset in zip(keys, records, offsets, strict=True):
            stamp, parcel = stamps[key], decode_record(record)
            ports = [
                self._ports[c]
                for c in self._heirs.of(parcel.crossing, stamp.version)
                if c in self._ports
            ]
            if not ports:
                self._counters["parcels_dropped"] += 1
                continue
            came = self._decode(parcel.batch)
            # Parcels of one batch have its seed, and what is random is not the same in all parts.
            seed = came.seed ^ batch.seed ^ ((offset * _SALT) & 0x7FFFFFFFFFFFFFFF)
            came = replace(came, origin=str(stamp.part), proctime=batch.proctime, seed=seed)
            output += [(to, came) for to in ports]
        return output

    def close(self) -> None: ...


class _Senders:
    """The last epoch of each part that something came from: they only grow."""

    def __init__(self, context: Context) -> None:
        self._table: KeyedTable = context.table(
            "senders", Schema.of(part=INT), Schema.of(epoch=_NUMBER), None
        )
        rows = self._table.live()
        parts = self._table.key_arrays(rows)[0].to_pylist()
        self._known: dict[int, int] = dict(
            zip(parts, self._table.columns["epoch"][rows].tolist(), strict=True)
        )
        self._slots: dict[int, int] = dict(zip(parts, rows.tolist(), strict=True))

    def check(self, stamps: Iterable[SenderHeader]) -> None:
        came: dict[int, int] = {}
        for stamp in stamps:
            known = came.get(stamp.part, self._known.get(stamp.part, -1))
            if stamp.epoch < known:
                raise ValueError(
                    f"part {stamp.part} sent epoch {stamp.epoch} behind its epoch {known}"
                )
            came[stamp.part] = stamp.epoch
        for part in came.keys() - self._slots.keys():
            self._slots[part] = int(self._table.slots_for([pa.array([part], pa.int32())], 1)[0][0])
        slots = np.array([self._slots[part] for part in came], np.int64)
        self._table.columns["epoch"][slots] = list(came.values())
        self._table.mark(slots)
        self._known |= came


class _Heirs:
    """Crossings that take what was sent over another one before a version of the graph."""

    def __init__(self, context: Context) -> None:
        keys = Schema.of(crossing=STRING, heir=STRING)
        self._table: KeyedTable = context.table("heirs", keys, Schema.of(version=_NUMBER), None)
        self._known: dict[str, list[tuple[str, int]]] = {}
        rows = self._table.live()
        for old, new, version in zip(
            *(c.to_pylist() for c in self._table.key_arrays(rows)),
            self._table.columns["version"][rows].tolist() if len(rows) else (),
            strict=True,
        ):
            self._known.setdefault(old, []).append((new, version))

    def add(self, old: str, new: str, version: int) -> None:
        slots, _ = self._table.slots_for([pa.array([old]), pa.array([new])], 1)
        self._table.columns["version"][slots] = version
        self._table.mark(slots)
        self._known.setdefault(old, []).append((new, version))

    def of(self, crossing: str, version: int) -> list[str]:
        """The crossing itself and, of what was sent at that version, its heirs and theirs."""
        found = [crossing]
        for new, since in self._known.get(crossing, ()):
            if version < since:
                found += self.of(new, version)
        return found


@dataclass
class ShuffleInOperator:
    """Puts the times of all parts together: rows come with the one that all have reached. Every
    part holds the others back until it has told of a time of its own."""

    node: ShuffleIn

    def open(self, context: Context) -> None:
        self._times = PortTimes(context, self.node.parts)

    def process(self, port: int, batch: Batch) -> Output:
        return [(0, made) for made in _in_time(self._aligned(batch))]

    def process_many(self, parts: Sequence[tuple[int, Batch]]) -> Output:
        """What several parts sent, or one in several epochs, goes on together: an operation takes
        one batch of many rows in less time than many of few."""
        came = [self._aligned(batch) for _, batch in parts]
        rows = [b for b in came[:-1] if b.num_rows]
        if any(b.schema != came[-1].schema for b in rows):
            return [(0, made) for batch in came for made in _in_time(batch)]
        steps = joined_steps([np.array([b.watermark for b in came]), *(b.steps for b in came)])
        whole = replace(concat([*rows, came[-1]]), since=came[0].since, steps=steps)
        return [(0, made) for made in _in_time(whole)]

    def close(self) -> None: ...

    def _aligned(self, batch: Batch) -> Batch:
        """With the time of all parts; what comes from none of them is a tick of this one."""
        if batch.origin:
            return replace(self._times.advance(int(batch.origin), batch), origin="")
        reached = self._times.reached
        tick = batch.tick(self.node.columns)
        return replace(tick, watermark=reached, since=reached, idle=self._times.idle)


def _in_time(batch: Batch) -> list[Batch]:
    """Where time goes on before the first row, since of rows that are elsewhere, a tick says so."""
    first = int(batch.watermarks()[0]) if batch.num_rows else batch.since
    if first <= batch.since:
        return [batch]
    return [batch.slice(0, 0), replace(batch, since=first).slice(0, batch.num_rows)]
