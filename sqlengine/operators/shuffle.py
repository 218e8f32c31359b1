"""Both ends of an exchange between the subtasks of a distributed graph.

An exchange carries encoded batches: rows with their change kinds and watermarks. As Flink's
KeyGroupStreamPartitioner, the sender chooses the subtask that owns the key's bucket, and
broadcasts watermarks; the receiver combines the watermarks of all subtasks."""

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
    OUTGOING_RECORDS,
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


class _SentWatermark:
    """The last watermark that was sent to all subtasks.

    State: table `told`, one row, which belongs to no bucket."""

    def __init__(self, context: Context) -> None:
        keys = Schema.of(what=INT)
        self._table: KeyedTable = context.table(
            "told", keys, Schema.of(watermark=_NUMBER, idle=_NUMBER), None
        )
        self._slots, is_new = self._table.slots_for([pa.array([0], pa.int32())], 1)
        if is_new[0]:
            self._write(MIN_WATERMARK, False)

    def advance(self, watermark: int, idle: bool) -> bool:
        """Records the watermark (ms) and idleness to send; False if both were sent before."""
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
    """Partitions rows by the subtask that owns their bucket.

    Port REMOTE emits encoded records for the shuffle sink, port LOCAL the rows of this subtask,
    with it as their origin. A subtask without rows of a batch still gets a tick if the watermark
    has advanced. Metrics: `rows_shuffled`, `parcels` (records), `ticks_shuffled` (records without
    rows)."""

    def __init__(self, node: ShuffleOut, encode: Encode) -> None:
        self._node = node
        self._encode = encode

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._sent_watermark = _SentWatermark(context)

    def process(self, port: int, batch: Batch) -> Output:
        return self._send(batch, self._sent_watermark.advance(batch.watermark, batch.idle))

    def process_many(self, parts: Sequence[tuple[int, Batch]]) -> Output:
        """Sends the batches of one epoch together, as few large records."""
        batches = [(b, self._sent_watermark.advance(b.watermark, b.idle)) for _, b in parts]
        advanced = any(is_new for _, is_new in batches)
        return [
            output
            for batch in merge_runs([b for b, is_new in batches if b.num_rows or is_new])
            for output in self._send(batch, advanced)
        ]

    def _send(self, batch: Batch, advanced: bool) -> Output:
        if not batch.num_rows and not advanced:
            return []
        by_subtask = self._partition(batch, advanced)
        local = by_subtask.pop(self._node.index, None)
        records = [
            encode_record(ShuffleRecord(self._node.exchange_id, self._encode(b)))
            for b in by_subtask.values()
        ]
        self._counters["rows_shuffled"] += batch.num_rows
        self._counters["parcels"] += len(by_subtask)
        self._counters["ticks_shuffled"] += sum(not b.num_rows for b in by_subtask.values())
        columns = (pa.array(list(by_subtask), pa.int32()), pa.array(records, pa.binary()))
        output: Output = [(REMOTE, Batch(OUTGOING_RECORDS, columns, len(records), batch.proctime))]
        if local is not None:
            origin = str(self._node.index)
            output.append((LOCAL, replace(local, origin=origin, proctime=batch.proctime)))
        return output

    def _partition(self, batch: Batch, advanced: bool) -> dict[int, Batch]:
        """Returns the rows for each subtask; for all of them if the watermark has advanced."""
        names = tuple(n for n in self._node.columns.names if n in batch.schema)
        rows = batch.with_columns(batch.schema.select(names), [batch.column(n) for n in names])
        # A subtask gets few of the rows, but all watermarks before them: as steps.
        row_watermarks = batch.row_watermarks
        steps = [batch.steps, None if row_watermarks is None else np.unique(row_watermarks)]
        rows = replace(rows, offsets=None, origin="", proctime=0, steps=joined_steps(steps))
        owners = self._owners(batch)
        by_subtask = {}
        for subtask in range(self._node.parallelism):
            indices = np.flatnonzero(owners == subtask)
            if len(indices) or advanced:
                by_subtask[subtask] = _take(rows, indices, batch)
        return by_subtask

    def _owners(self, batch: Batch) -> IntArray:
        """Returns the subtask that each row goes to."""
        keys = self._node.keys
        if not keys:
            return np.full(batch.num_rows, self._node.index if keys is None else 0, np.int64)
        buckets = buckets_of(
            [batch.schema.type(k) for k in keys], [batch.column(k) for k in keys], batch.num_rows
        )
        owners: IntArray = buckets.astype(np.int64) * self._node.parallelism // BUCKETS
        return owners

    def close(self) -> None: ...


def _take(rows: Batch, indices: IntArray, whole: Batch) -> Batch:
    if len(indices) == whole.num_rows:
        return replace(rows, steps=whole.steps)
    return replace(rows.take(indices), watermark=whole.watermark)


class ShuffleScanOperator:
    """Decodes records: each batch leaves by the port of its exchange, with its sender as origin.

    Records of exchanges that no longer exist are dropped (metric `parcels_dropped`)."""

    def __init__(self, node: ShuffleScan, decode: Decode) -> None:
        self._ports: Mapping[str, int] = {e: port for port, e in enumerate(node.exchange_ids)}
        self._decode = decode

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._senders = _Senders(context)
        self._successors = _ExchangeSuccessors(context)

    def on_state_takeover(self, nodes: Mapping[str, str], version: int) -> None:
        """See `StateSuccessor`. Rows in flight to an operation whose state was taken over, sent
        before `version`, go to its successor."""
        for exchange_id in self._ports:
            node, port = exchange_id.rsplit(".", 1)
            if node in nodes:
                self._successors.add(f"{nodes[node]}.{port}", exchange_id, version)

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows:
            tick = Batch(Schema(()), (), 0, batch.proctime)
            return [(to, tick) for to in self._ports.values()]
        output: Output = []
        keys, values, offsets = (
            batch.column(n).to_pylist() for n in (METADATA_PREFIX + KEY, RECORD, OFFSET)
        )
        headers = {key: decode_header(key) for key in dict.fromkeys(keys)}
        self._senders.check(headers.values())
        for key, value, offset in zip(keys, values, offsets, strict=True):
            header, record = headers[key], decode_record(value)
            ports = self._ports_of(record.exchange_id, header.version)
            if not ports:
                self._counters["parcels_dropped"] += 1
                continue
            rows = self._decode(record.batch)
            # Records of one batch share its seed: the offset makes random values differ.
            seed = rows.seed ^ batch.seed ^ ((offset * _SALT) & 0x7FFFFFFFFFFFFFFF)
            rows = replace(rows, origin=str(header.subtask), proctime=batch.proctime, seed=seed)
            output += [(to, rows) for to in ports]
        return output

    def _ports_of(self, exchange_id: str, version: int) -> list[int]:
        receivers = self._successors.of(exchange_id, version)
        return [self._ports[receiver] for receiver in receivers if receiver in self._ports]

    def close(self) -> None: ...


class _Senders:
    """The last epoch received from each subtask, which must not decrease.

    State: table `senders`, subtask -> epoch; the rows belong to no bucket."""

    def __init__(self, context: Context) -> None:
        self._table: KeyedTable = context.table(
            "senders", Schema.of(part=INT), Schema.of(epoch=_NUMBER), None
        )
        rows = self._table.live()
        subtasks = self._table.key_arrays(rows)[0].to_pylist()
        self._epochs: dict[int, int] = dict(
            zip(subtasks, self._table.columns["epoch"][rows].tolist(), strict=True)
        )
        self._slots: dict[int, int] = dict(zip(subtasks, rows.tolist(), strict=True))

    def check(self, headers: Iterable[SenderHeader]) -> None:
        """Records the epochs of a batch. ValueError if one comes before a later one."""
        received: dict[int, int] = {}
        for header in headers:
            last = received.get(header.subtask, self._epochs.get(header.subtask, -1))
            if header.epoch < last:
                raise ValueError(
                    f"part {header.subtask} sent epoch {header.epoch} behind its epoch {last}"
                )
            received[header.subtask] = header.epoch
        for subtask in received.keys() - self._slots.keys():
            key = pa.array([subtask], pa.int32())
            self._slots[subtask] = int(self._table.slots_for([key], 1)[0][0])
        slots = np.array([self._slots[subtask] for subtask in received], np.int64)
        self._table.columns["epoch"][slots] = list(received.values())
        self._table.mark(slots)
        self._epochs |= received


class _ExchangeSuccessors:
    """The exchanges that receive what was sent to another one before a version of the graph.

    State: table `heirs`, (exchange, successor) -> version; the rows belong to no bucket."""

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
        """Records that `new` receives what was sent to `old` before `version`."""
        slots, _ = self._table.slots_for([pa.array([old]), pa.array([new])], 1)
        self._table.columns["version"][slots] = version
        self._table.mark(slots)
        self._known.setdefault(old, []).append((new, version))

    def of(self, exchange_id: str, version: int) -> list[str]:
        """Returns the exchange itself and, for rows sent at `version`, its successors and
        theirs."""
        receivers = [exchange_id]
        for new, since in self._known.get(exchange_id, ()):
            if version < since:
                receivers += self.of(new, version)
        return receivers


@dataclass
class ShuffleInOperator:
    """Combines the watermarks of all subtasks: rows leave with the least of them.

    A subtask that has not sent any watermark yet holds the combined one back."""

    node: ShuffleIn

    def open(self, context: Context) -> None:
        self._times = PortTimes(context, self.node.parallelism)

    def process(self, port: int, batch: Batch) -> Output:
        return [(0, output) for output in _with_leading_tick(self._aligned(batch))]

    def process_many(self, parts: Sequence[tuple[int, Batch]]) -> Output:
        """Emits the batches of several senders or epochs as one: an operation takes less time for
        one batch of many rows than for many of few."""
        batches = [self._aligned(batch) for _, batch in parts]
        last = batches[-1]
        rows = [b for b in batches[:-1] if b.num_rows]
        if any(b.schema != last.schema for b in rows):
            return [(0, output) for batch in batches for output in _with_leading_tick(batch)]
        steps = joined_steps(
            [np.array([b.watermark for b in batches]), *(b.steps for b in batches)]
        )
        whole = replace(concat([*rows, last]), since=batches[0].since, steps=steps)
        return [(0, output) for output in _with_leading_tick(whole)]

    def close(self) -> None: ...

    def _aligned(self, batch: Batch) -> Batch:
        """Returns the batch with the combined watermark. A batch without an origin is a tick of
        this subtask itself."""
        if batch.origin:
            return replace(self._times.advance(int(batch.origin), batch), origin="")
        reached = self._times.reached
        tick = batch.tick(self.node.columns)
        return replace(tick, watermark=reached, since=reached, idle=self._times.idle)


def _with_leading_tick(batch: Batch) -> list[Batch]:
    """Emits a tick before a batch whose first row has a later watermark than the one before it:
    the rows that advanced it are in other subtasks."""
    first = int(batch.watermarks()[0]) if batch.num_rows else batch.since
    if first <= batch.since:
        return [batch]
    return [batch.slice(0, 0), replace(batch, since=first).slice(0, batch.num_rows)]
