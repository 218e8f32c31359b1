"""Writing to a topic of RocketMQ.

A message says of which writer and epoch it is, and which number it has among those of its queue:
readers of ours drop what comes again (`repeats`), and a sink that does not know what has arrived
looks at the ends of queues before it sends."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ExecutionError, SqlError
from planner.catalog import Table
from sqlengine.batch import Batch, IntArray
from sqlengine.broker.rocketmq import codes
from sqlengine.broker.rocketmq.client import Queue
from sqlengine.broker.rocketmq.codes import PASSING
from sqlengine.broker.rocketmq.errors import Refused, RocketError
from sqlengine.broker.rocketmq.messages import DELAY_MS, DELIVER_AT, Outgoing, packed_body
from sqlengine.broker.rocketmq.topic import RocketTopic
from sqlengine.connectors.base import Busy, Sink
from sqlengine.connectors.health import Health
from sqlengine.connectors.rocketmq.delivery import (
    EpochDelivery,
    Last,
    Numbered,
    QueuePart,
    last_of,
)
from sqlengine.connectors.rocketmq.options import integer_of
from sqlengine.connectors.rocketmq.outgoing import MessageEncoder
from sqlengine.connectors.rocketmq.packing import packed, rows_text

_DELAYED: Final = (f"{DELAY_MS}\x01", f"{DELIVER_AT}\x01")
# Bytes of many rows in one message, before they are compressed.
_PACKED_BYTES: Final = 1 << 20
# Seconds between two looks for new queues.
_ROUTE_S: Final = 30.0
_KINDS: Final = {"ZLIB": codes.ZLIB, "ZSTD": codes.ZSTD}


class RocketSink(Sink):
    """Buffers an epoch's messages until its commit. Rows with keys go to the queue of these, others
    of an epoch together to one queue."""

    def __init__(
        self,
        topic: RocketTopic,
        table: Table,
        options: Mapping[str, object],
        writer: str | None,
    ) -> None:
        self.health: Health = Health()
        self._table = table
        self._topic = topic
        self._writer = writer
        self._encoder = MessageEncoder(table, options)
        self._most = integer_of(options, "maxMessageSize")
        self._kind = _KINDS.get(str(options["compressType"]))
        self._packs_over = integer_of(options, "compressMsgBodyOverHowmuch")
        self._retries = integer_of(options, "retryTimes")
        self._refusals = 0
        self._noted: RocketError | None = None
        self._pending: list[tuple[pa.Array, ...]] = []
        self._delivery: EpochDelivery | None = None
        self._last: int | None = None
        # What queues had of this writer when they were looked at. Older epochs may come all the
        # same, as those that a job brings; behind it only this sink has written.
        self._arrived: dict[Queue, Last] = {}
        self._queues: list[Queue] = []
        self._find_queues()
        if not self._queues:
            raise ExecutionError(
                f"topic '{topic.name}' of table '{table.display}' has no queue to write to"
            )

    def _find_queues(self) -> None:
        """Looks for queues. One whose broker is away is still one: its rows wait for it."""
        self._due = time.monotonic() + _ROUTE_S
        self._queues = sorted({*self._queues, *self._topic.route().writable})

    def last_epoch(self) -> int | None:
        """See `Sink`. After a start the last one may be incomplete: it is repeated then, if it is
        known here, and a new one must not have its number."""
        if self._last is None and self._writer is not None:
            for broker in {queue.broker for queue in self._queues}:
                self._topic.client.settle(broker)
            found = (last_of(self._topic, queue, self._writer) for queue in self._queues)
            epochs = [last[0] for last in found if last is not None]
            return max(epochs, default=None)
        return self._last

    def write(self, batch: Batch) -> None:
        if batch.num_rows:
            self._pending.append(self._encoder.encoded(batch))

    def commit(self, epoch: int) -> int:
        """See `Sink`. Busy while a broker is away, or does not take messages now."""
        if self._delivery is None:
            if not self._pending or (self._last is not None and epoch <= self._last):
                self._pending.clear()
                return 0
            self._delivery = self._planned(epoch)
            self._pending.clear()
        delivery = self._delivery
        try:
            delivery.run()
        except RocketError as error:
            raise self._failed(error) from None
        self.health.works()
        self._arrived |= delivery.arrived
        self._refusals, self._last, self._delivery = 0, epoch, None
        return delivery.sent

    def _failed(self, error: RocketError) -> SqlError:
        """Returns what a commit raises: Busy where it may work later."""
        if error is not self._noted:
            self._noted = error
            self.health.failed(error.words)
            self.health.retries += 1
        if isinstance(error, Refused):
            self._refusals += 1
            if error.code not in PASSING or self._refusals > self._retries:
                self._refusals = 0
                return error
        return Busy(
            f"table '{self._table.display}' cannot be written now",
            detail=error.words,
            hint="its rows are kept, and written when RocketMQ takes them",
        )

    # ---- messages --------------------------------------------------------------------------------

    def _planned(self, epoch: int) -> EpochDelivery:
        """Returns the delivery of what is pending."""
        if time.monotonic() >= self._due:
            try:
                self._find_queues()
            except RocketError:
                self._due = time.monotonic() + _ROUTE_S  # those that are known are asked
        values, properties, hashes = (pa.concat_arrays(c) for c in zip(*self._pending, strict=True))
        queues: Mapping[int, list[Outgoing]]
        if self._encoder.rows_per_message > 1:
            queues = self._packed(self._chosen(epoch, hashes), values)
        else:
            queues = self._single(self._chosen(epoch, hashes), values, properties)
        parts = [self._part(self._queues[q], found, epoch) for q, found in sorted(queues.items())]
        return EpochDelivery(self._topic, epoch, self._writer, parts, self._most)

    def _part(self, queue: Queue, messages: list[Outgoing], epoch: int) -> QueuePart:
        """Returns what a queue gets: without what it has, as far as that is known."""
        known = queue in self._arrived
        part = QueuePart(queue, self._numbered(messages), not known, self._arrived.get(queue))
        part.drop_arrived(epoch)
        return part

    def _single(
        self, chosen: IntArray, values: pa.Array, properties: pa.Array
    ) -> dict[int, list[Outgoing]]:
        """Returns the messages of each queue, one for each row."""
        queues: dict[int, list[Outgoing]] = {}
        rows = zip(chosen.tolist(), values.to_pylist(), properties.to_pylist(), strict=True)
        for queue, value, text in rows:
            queues.setdefault(queue, []).append(self._message(value or b"", text))
        return queues

    def _packed(self, chosen: IntArray, values: pa.Array) -> dict[int, list[Outgoing]]:
        """Returns the messages of each queue, with many rows in each."""
        queues: dict[int, list[Outgoing]] = {}
        for queue in np.unique(chosen).tolist():
            mine = values.take(pa.array(np.flatnonzero(chosen == queue))).fill_null(b"")
            queues[queue] = [self._message_of(part) for part in self._parts(mine)]
        return queues

    def _parts(self, records: pa.Array) -> Iterator[pa.Array]:
        """Divides records into those of one message each."""
        sizes = pc.binary_length(records).to_numpy().astype(np.int64) + 4
        ends = np.cumsum(sizes)
        begin, most = 0, min(self._most, _PACKED_BYTES)
        while begin < len(records):
            before = int(ends[begin - 1]) if begin else 0
            fitting = int(np.searchsorted(ends, before + most, "right"))
            end = min(max(fitting, begin + 1), begin + self._encoder.rows_per_message)
            yield records.slice(begin, end - begin)
            begin = end

    def _message_of(self, records: pa.Array) -> Outgoing:
        if len(records) == 1:
            return self._message(records[0].as_py(), "")
        body, flags = packed_body(packed(records), codes.ZSTD)
        return Outgoing(body, rows_text(len(records)), flags, bool(flags), len(records))

    def _numbered(self, messages: list[Outgoing]) -> deque[Numbered]:
        if not self._encoder.delays:
            return deque(map(Numbered, messages, count()))
        numbers = count()
        return deque(
            Numbered(m, None if self._is_delayed(m.properties) else next(numbers)) for m in messages
        )

    def _chosen(self, epoch: int, hashes: pa.Array) -> IntArray:
        """Returns the number of each row's queue."""
        number = len(self._queues)
        if hashes.null_count:
            return np.full(len(hashes), epoch % number, np.int64)
        chosen: IntArray = (hashes.to_numpy() % np.uint64(number)).astype(np.int64)
        return chosen

    def _message(self, body: bytes, properties: str) -> Outgoing:
        if self._kind is not None and len(body) > self._packs_over:
            smaller, flags = packed_body(body, self._kind)
            if flags:
                return Outgoing(smaller, properties, flags, alone=True)
        alone = self._encoder.delays and self._is_delayed(properties)
        return Outgoing(body, properties, 0, alone)

    def _is_delayed(self, properties: str) -> bool:
        return any(mark in properties for mark in _DELAYED)

    def close(self) -> None:
        self._topic.client.close()
