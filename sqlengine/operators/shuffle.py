"""Both ends of the shuffle between the subtasks of a distributed graph.

Shuffle records carry encoded batches: rows with their kinds and with the watermarks before and
after them.
"""

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


class _LastSent:
    """The watermark and idleness that were sent last.

    State: table `told`, one row, which belongs to no bucket.
    """

    def __init__(self, context: Context) -> None:
        keys = Schema.of(what=INT)
        self._table: KeyedTable = context.table(
            "told", keys, Schema.of(watermark=_NUMBER, idle=_NUMBER), None
        )
        self._slots, is_new = self._table.slots_for([pa.array([0], pa.int32())], 1)
        if is_new[0]:
            self._write(MIN_WATERMARK, False)

    def advance(self, watermark: int, idle: bool) -> bool:
        """Returns True if the watermark advanced or the idleness changed, and records both."""
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
    """Partitions rows by subtask: emits shuffle records for the sink (REMOTE), and the subtask's
    own rows as they are (LOCAL).

    Own rows have the subtask as their origin. Subtasks without rows in a batch get a tick where the
    watermark advanced. State: `_LastSent`. Counters: `rows_shuffled`, `parcels`, and
    `ticks_shuffled` for records without rows.
    """

    def __init__(self, node: ShuffleOut, encode: Encode) -> None:
        self._node = node
        self._encode = encode

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._last_sent = _LastSent(context)

    def process(self, port: int, batch: Batch) -> Output:
        return self._send(batch, self._last_sent.advance(batch.watermark, batch.idle))

    def process_many(self, parts: Sequence[tuple[int, Batch]]) -> Output:
        """Sends the batches of one epoch together."""
        timed = [(b, self._last_sent.advance(b.watermark, b.idle)) for _, b in parts]
        advanced = any(changed for _, changed in timed)
        return [
            out
            for b in merge_runs([b for b, changed in timed if b.num_rows or changed])
            for out in self._send(b, advanced)
        ]

    def _send(self, batch: Batch, advanced: bool) -> Output:
        if not batch.num_rows and not advanced:
            return []
        names = tuple(n for n in self._node.columns.names if n in batch.schema)
        owners = self._owners(batch)
        rows = batch.with_columns(batch.schema.select(names), [batch.column(n) for n in names])
        watermarks = [
            batch.steps,
            None if batch.row_watermarks is None else np.unique(batch.row_watermarks),
        ]
        rest = replace(rows, offsets=None, origin="", proctime=0, steps=joined_steps(watermarks))
        shares = ((part, np.flatnonzero(owners == part)) for part in range(self._node.parts))
        batches = {
            part: self._share(rest, indices, batch)
            for part, indices in shares
            if len(indices) or advanced
        }
        local = batches.pop(self._node.index, None)
        parcels = [
            encode_record(ShuffleRecord(self._node.crossing, self._encode(b)))
            for b in batches.values()
        ]
        self._counters["rows_shuffled"] += batch.num_rows
        self._counters["parcels"] += len(batches)
        self._counters["ticks_shuffled"] += sum(not b.num_rows for b in batches.values())
        columns = (pa.array(list(batches), pa.int32()), pa.array(parcels, pa.binary()))
        output: Output = [(REMOTE, Batch(PARCELS, columns, len(parcels), batch.proctime))]
        if local is not None:
            output.append(
                (LOCAL, replace(local, origin=str(self._node.index), proctime=batch.proctime))
            )
        return output

    def _owners(self, batch: Batch) -> IntArray:
        """Returns the subtask that each row goes to."""
        keys = self._node.keys
        if not keys:
            return np.full(batch.num_rows, self._node.index if keys is None else 0, np.int64)
        buckets = buckets_of(
            [batch.schema.type(k) for k in keys], [batch.column(k) for k in keys], batch.num_rows
        )
        # Subtask p owns a contiguous range of buckets, as key groups are ranges in Flink.
        owners: IntArray = buckets.astype(np.int64) * self._node.parts // BUCKETS
        return owners

    def _share(self, rows: Batch, indices: IntArray, whole: Batch) -> Batch:
        if len(indices) == whole.num_rows:
            return replace(rows, steps=whole.steps)
        return replace(rows.take(indices), watermark=whole.watermark)

    def close(self) -> None: ...


class ShuffleScanOperator:
    """Decodes shuffle records: each batch leaves by the port of its exchange, with the sending
    subtask as its origin.

    Records of exchanges that no longer exist are dropped (`parcels_dropped`). State: the last epoch
    of each sender, and the exchanges that took over others.
    """

    def __init__(self, node: ShuffleScan, decode: Decode) -> None:
        self._ports: Mapping[str, int] = {c: port for port, c in enumerate(node.crossings)}
        self._decode = decode

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._sender_epochs = _SenderEpochs(context)
        self._successors = _Successors(context)

    def on_state_takeover(self, nodes: Mapping[str, str], version: int) -> None:
        """Registers exchanges whose nodes took over state: records sent to the old ones before, and
        read later, go to the new ones too."""
        for crossing in self._ports:
            node, port = crossing.rsplit(".", 1)
            if node in nodes:
                self._successors.add(f"{nodes[node]}.{port}", crossing, version)

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows:
            tick = Batch(Schema(()), (), 0, batch.proctime)
            return [(to, tick) for to in self._ports.values()]
        output: Output = []
        keys, records, offsets = (
            batch.column(n).to_pylist() for n in (METADATA_PREFIX + KEY, RECORD, OFFSET)
        )
        headers = {key: decode_header(key) for key in dict.fromkeys(keys)}
        self._sender_epochs.check(headers.values())
        for key, record, offset in zip(keys, records, offsets, strict=True):
            header, shuffled = headers[key], decode_record(record)
            ports = [
                self._ports[c]
                for c in self._successors.of(shuffled.crossing, header.version)
                if c in self._ports
            ]
            if not ports:
                self._counters["parcels_dropped"] += 1
                continue
            received = self._decode(shuffled.batch)
            # All records of a batch have its seed: mixed with the offset, subtasks differ.
            seed = received.seed ^ batch.seed ^ ((offset * _SALT) & 0x7FFFFFFFFFFFFFFF)
            received = replace(
                received, origin=str(header.part), proctime=batch.proctime, seed=seed
            )
            output += [(to, received) for to in ports]
        return output

    def close(self) -> None: ...


class _SenderEpochs:
    """The last epoch received from each subtask; epochs only ascend.

    State: table `senders`, subtask -> epoch; belongs to no bucket.
    """

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

    def check(self, headers: Iterable[SenderHeader]) -> None:
        """Records the epochs of these headers. ValueError if a sender's epoch falls."""
        received: dict[int, int] = {}
        for header in headers:
            known = received.get(header.part, self._known.get(header.part, -1))
            if header.epoch < known:
                raise ValueError(
                    f"part {header.part} sent epoch {header.epoch} behind its epoch {known}"
                )
            received[header.part] = header.epoch
        for part in received.keys() - self._slots.keys():
            self._slots[part] = int(self._table.slots_for([pa.array([part], pa.int32())], 1)[0][0])
        slots = np.array([self._slots[part] for part in received], np.int64)
        self._table.columns["epoch"][slots] = list(received.values())
        self._table.mark(slots)
        self._known |= received


class _Successors:
    """Exchanges that receive the records sent to another exchange before a version of the graph.

    State: table `heirs`, (old exchange, new exchange) -> version of the graph; belongs to no
    bucket.
    """

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
        """Returns the exchange itself, and all exchanges that took it over after the version of the
        sender."""
        exchanges = [crossing]
        for new, since in self._known.get(crossing, ()):
            if version < since:
                exchanges += self.of(new, version)
        return exchanges


@dataclass
class ShuffleInOperator:
    """Combines the watermarks of all subtasks: rows leave with the least of them.

    Every subtask holds the watermark back until it has sent one of its own. State: `PortTimes`, by
    subtask.
    """

    node: ShuffleIn

    def open(self, context: Context) -> None:
        self._times = PortTimes(context, self.node.parts)

    def process(self, port: int, batch: Batch) -> Output:
        return [(0, part) for part in _in_time(self._aligned(batch))]

    def process_many(self, parts: Sequence[tuple[int, Batch]]) -> Output:
        """Concatenates the batches of several subtasks, or of one in several epochs: one large
        batch is cheaper than many small ones."""
        aligned = [self._aligned(batch) for _, batch in parts]
        rows = [b for b in aligned[:-1] if b.num_rows]
        if any(b.schema != aligned[-1].schema for b in rows):
            return [(0, part) for batch in aligned for part in _in_time(batch)]
        steps = joined_steps(
            [np.array([b.watermark for b in aligned]), *(b.steps for b in aligned)]
        )
        merged = replace(concat([*rows, aligned[-1]]), since=aligned[0].since, steps=steps)
        return [(0, part) for part in _in_time(merged)]

    def close(self) -> None: ...

    def _aligned(self, batch: Batch) -> Batch:
        """Returns the batch with the combined watermark; a tick of this subtask itself has no
        origin."""
        if batch.origin:
            return replace(self._times.advance(int(batch.origin), batch), origin="")
        reached = self._times.reached
        tick = batch.tick(self.node.columns)
        return replace(tick, watermark=reached, since=reached, idle=self._times.idle)


def _in_time(batch: Batch) -> list[Batch]:
    """Splits off a tick where the watermark advanced before the first row, because of rows of other
    subtasks."""
    first = int(batch.watermarks()[0]) if batch.num_rows else batch.since
    if first <= batch.since:
        return [batch]
    return [batch.slice(0, 0), replace(batch, since=first).slice(0, batch.num_rows)]
