"""Sending the rows of an epoch to a webhook, at least once.

A request that is repeated, by an attempt or after a crash, has the same idempotency key: writer,
epoch and number. What the other side refuses is told as refused rows, and becomes dead letters."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

from xxhash import xxh3_128_hexdigest

from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.base import Busy, Sink
from sqlengine.connectors.environment import writer_of
from sqlengine.connectors.health import Health
from sqlengine.connectors.http.client import Answer, HttpClient, NoAnswer, site
from sqlengine.connectors.http.headers import on_the_wire
from sqlengine.connectors.refused_rows import RefusedRows
from sqlengine.connectors.retry_after import retry_after
from sqlengine.connectors.webhook.answers import Meaning, meaning
from sqlengine.connectors.webhook.requests import Record, Request, Requests
from sqlengine.connectors.webhook.signing import Signer
from sqlengine.system.back_off import BackOff
from sqlengine.system.lanes import get_on

# Bytes of an answer that are looked at.
_MOST_ANSWER = 4096


@dataclass(frozen=True)
class Sending:
    """The way in which requests are sent.

    `headers` are those of all; `retried`: statuses after which a request is sent again;
    `in_flight`: requests at a time; `key_header`: has the idempotency key."""

    method: str
    headers: Mapping[str, str]
    signer: Signer | None
    retried: frozenset[int]
    in_flight: int
    key_header: str


class WebhookSink(Sink):
    """Sends the rows of one writer.

    A commit sends the requests of its epoch, in order where one is in flight at a time. While the
    host is away or asks for patience it is `Busy`: the next commit goes on where this one was."""

    def __init__(
        self,
        table: Table,
        requests: Requests,
        sending: Sending,
        client: HttpClient,
        writer: str,
        clock: Callable[[], int],
    ) -> None:
        self.health: Health = Health()
        self._table = table.display
        self._requests = requests
        self._sending = sending
        self._client = client
        self._writer = xxh3_128_hexdigest(writer_of(writer, table).encode())
        self._clock = clock
        self._pool = (
            ThreadPoolExecutor(sending.in_flight, "webhook") if sending.in_flight > 1 else None
        )
        self._batches: list[tuple[Batch, list[Record]]] = []
        # The requests of the epoch that have not been answered, once its commit has begun.
        self._left: deque[Request] | None = None
        self._taken = 0
        self._refused: list[RefusedRows] = []
        self._back_off = BackOff()
        self.now: Callable[[], float] = time.monotonic
        self._waits_for = ""

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        if batch.num_rows:
            self._batches.append((batch, self._requests.records(batch)))

    def commit(self, epoch: int) -> int:
        """See `Sink`. Busy while the host does not take the rows, ExecutionError where it never
        will."""
        if self._left is None:
            records = (record for _, of_batch in self._batches for record in of_batch)
            self._left = deque(self._requests.of(records))
        if self._left and self.now() < self._back_off.until:
            raise self._busy()
        while self._left:
            self._send_some(self._left, epoch)
        taken, self._taken = self._taken, 0
        self._batches, self._left = [], None
        return taken

    def refused(self) -> Sequence[RefusedRows]:
        """See `Sink`."""
        refused, self._refused = self._refused, []
        return refused

    def _send_some(self, left: deque[Request], epoch: int) -> None:
        """Sends as many requests as may be in flight, and takes those that are answered out of what
        is left."""
        some = list(islice(left, self._sending.in_flight))
        send = partial(self._send, epoch=epoch)
        answers = map(send, some) if self._pool is None else self._pool.map(send, some)
        again: list[Request] = []
        for request, answer in zip(some, answers, strict=True):
            get_on()  # the deadline is one for each answer
            left.popleft()
            if not self._settled(request, answer):
                again.append(request)
        left.extendleft(reversed(again))
        if again:
            raise self._busy()

    def _send(self, request: Request, epoch: int) -> Answer | NoAnswer:
        body, key = self._requests.body(request.records), f"{self._writer}-{epoch}-{request.number}"
        sending = self._sending
        headers = {**sending.headers, sending.key_header: key}
        headers |= {name: on_the_wire(value) for name, value in request.headers}
        if sending.signer is not None:
            headers |= sending.signer.headers(body, key, self._clock() // 1000)
        try:
            return self._client.send(sending.method, request.url, headers, body, _MOST_ANSWER)
        except NoAnswer as error:
            return error

    def _settled(self, request: Request, answer: Answer | NoAnswer) -> bool:
        """Takes an answer; returns False where the request is to be sent again."""
        if isinstance(answer, NoAnswer):
            self._failed(answer.reason)
            return False
        found = meaning(answer, self._sending.retried, self._table, request.url)
        if found is Meaning.LATER:
            what = f"{site(request.url)} answers {answer.shown}"
            self._failed(what, retry_after(answer.headers))
            return False
        self._back_off.works()
        self.health.works()
        if found is Meaning.REFUSED:
            self.health.errors += 1
            self._refuse(request, f"the webhook answers {answer.shown}")
        else:
            self._taken += len(request.records)
        return True

    def _failed(self, what: str, asked_s: float = 0.0) -> None:
        self.health.failed(what)
        self.health.retries += 1
        self._waits_for = what
        self._back_off.failed(self.now(), asked_s)

    def _refuse(self, request: Request, reason: str) -> None:
        """Notes rows of a request as refused, by the batches that they came in."""
        first, end, at = request.first, request.first + len(request.records), 0
        for batch, records in self._batches:
            mine = range(max(first - at, 0), min(end - at, len(records)))
            if mine:
                self._refused.append(RefusedRows(batch, dict.fromkeys(mine, reason)))
            at += len(records)

    def _busy(self) -> Busy:
        left_s = max(self._back_off.until - self.now(), 0.0)
        return Busy(
            f"the webhook of table '{self._table}' does not take rows now",
            detail=self._waits_for,
            hint=f"its rows are kept, and sent again in {left_s:.0f} s",
        )

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()
