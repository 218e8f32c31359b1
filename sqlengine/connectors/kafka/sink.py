"""Writing to a topic of Kafka, at least once: rows of an epoch are produced when it is committed,
and the commit is done when all of them are delivered."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from parser.errors import ExecutionError, SqlError
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.base import Busy, Sink
from sqlengine.connectors.health import Health
from sqlengine.connectors.kafka.client import (
    ANSWER_S,
    KafkaAway,
    failure,
    producer,
    topics_of,
    words,
)
from sqlengine.connectors.kafka.properties import settings_of
from sqlengine.connectors.kafka.records import KafkaRecords, Records
from sqlengine.connectors.kafka.source import SERVERS
from sqlengine.connectors.kafka.topics import missing

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

# Seconds that one attempt of a commit waits for the server; its rows stay until the next one.
ATTEMPT_S: Final = 8.0
# Seconds for which a client that has no space is left alone: it does not tell when it has some.
_FULL_S: Final = 0.01
# Records between two looks at what the client has to tell.
_BETWEEN_POLLS: Final = 10_000


class Delivery:
    """Records on their way to a topic: those before `next` have been given to the client.

    `partition`: where all of them go; None: as their keys say, else to one after the other."""

    def __init__(self, records: Records, topic: str, partition: int | None) -> None:
        self._records, self._topic = records, topic
        self._partition = -1 if partition is None else partition
        self._next = 0

    def __len__(self) -> int:
        return len(self._records)

    def go_on(self, client: Producer, deadline: float) -> bool:
        """Gives the client what it has space for; True once it has all. False at the deadline
        (monotonic s): the next call goes on."""
        step = self._values if self._records.plain else self._whole
        while not step(client):
            client.poll(_FULL_S)
            if time.monotonic() > deadline:
                return False
        return True

    def _values(self, client: Producer) -> bool:
        """Gives records that are no more than values: most are."""
        n, produce, topic, partition = self._next, client.produce, self._topic, self._partition
        try:
            for n, value in enumerate(islice(self._records.values, n, None), n):  # noqa: B020
                produce(topic, value, None, partition)
                if not n % _BETWEEN_POLLS:
                    client.poll(0)
        except BufferError:
            self._next = n
            return False
        self._next = len(self)
        return True

    def _whole(self, client: Producer) -> bool:
        n, topic, partition = self._next, self._topic, self._partition
        try:
            for n, (value, key, time_ms, headers) in enumerate(islice(self._records, n, None), n):  # noqa: B020
                client.produce(
                    topic, value, key, partition, timestamp=time_ms, headers=headers or []
                )
                if not n % _BETWEEN_POLLS:
                    client.poll(0)
        except BufferError:
            self._next = n
            return False
        self._next = len(self)
        return True


class KafkaSink(Sink):
    """Buffers an epoch's records until its commit, which is `Busy` until all are delivered, and
    goes on when it is called again. A crash meanwhile delivers some of them twice.

    `partition`: see `Delivery`."""

    def __init__(self, table: Table, options: Mapping[str, object]) -> None:
        self.health: Health = Health()
        self._topic, self._servers = str(options["topic"]).strip(), str(options[SERVERS])
        self._table, self._settings = table.display, settings_of(table)
        self._records = KafkaRecords(table)
        self.partition: int | None = None
        self._pending: list[tuple[pa.Array, ...]] = []
        self._refusals: list[KafkaError] = []
        self._delivery: Delivery | None = None
        self._client: Producer | None = None

    def open(self) -> int:
        """Connects, and returns how many partitions the topic has. ExecutionError where it is
        missing, KafkaAway where nobody answers."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + ANSWER_S
        while True:
            try:
                topics = topics_of(self._opened(), self.health, self._topic)
            except KafkaException as error:
                what = f"Kafka at {self._servers} does not answer for topic '{self._topic}'"
                told = failure(what, self._servers, error)
                if isinstance(told, KafkaAway):
                    self._opened().poll(0)  # hears why
                    told = told.because(self.health.trouble)
                raise told from None
            found = topics[self._topic]
            if found.error is None:
                return len(found.partitions)
            # A server that makes topics by itself has just begun to.
            if time.monotonic() > deadline or not found.error.retriable():
                raise missing(self._topic, (), self._servers)
            time.sleep(0.2)

    def _opened(self) -> Producer:
        if self._client is None:
            self._client = producer(
                self._settings, self._table, self.health, self._refusals.append, None
            )
        return self._client

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        if batch.num_rows:
            self._pending.append(self._records.encoded(batch))

    def commit(self, epoch: int) -> int:
        """See `Sink`. ExecutionError where the server or its client refuses a record."""
        from confluent_kafka import KafkaException

        if not self._pending:
            return 0
        client, deadline = self._opened(), time.monotonic() + ATTEMPT_S
        self._delivery = self._delivery or self._delivering()
        try:
            given = self._delivery.go_on(client, deadline)
        except KafkaException as error:
            raise self._refused(error.args[0]) from None
        left = client.flush(max(deadline - time.monotonic(), 0.0)) if given else len(client)
        if self._refusals:
            raise self._refused(self._refusals[0])
        if not given or left:
            self.health.retries += 1
            raise self._busy(f"{left} records wait for Kafka at {self._servers}")
        return self._done()

    def _delivering(self) -> Delivery:
        return Delivery(self._records.records(self._pending), self._topic, self.partition)

    def _done(self) -> int:
        """Returns how many records have been delivered."""
        assert self._delivery is not None
        self.health.works()
        count, self._delivery, self._pending = len(self._delivery), None, []
        return count

    def _refused(self, error: KafkaError) -> SqlError:
        """Returns the error for a record that the server does not take; what is left is given up,
        and comes again when the job goes on."""
        from confluent_kafka import KafkaError

        self.health.failed(words(error))
        self._abandon()
        what = f"topic '{self._topic}' of Kafka refuses a record"
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            hint = f"raise 'max.message.bytes' of topic '{self._topic}'"
            return ExecutionError(what, detail=words(error), hint=hint)
        found = failure(what, self._servers, error)
        return ExecutionError(found.message, detail=found.detail, hint=found.hint)

    def _busy(self, detail: str) -> Busy:
        return Busy(
            f"topic '{self._topic}' of Kafka takes no rows now",
            detail=self.health.trouble or detail,
            hint="the rows are kept, and written once it does",
        )

    def _abandon(self) -> None:
        """Lets go of the client, and of what it has not delivered."""
        from confluent_kafka import KafkaException

        client, self._client, self._delivery = self._client, None, None
        if client is not None:
            with suppress(KafkaException):  # one that has failed for good does neither
                client.purge()
                client.flush(0.1)
        self._refusals.clear()

    def close(self) -> None:
        self._abandon()
