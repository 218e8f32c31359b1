"""Writing to a topic of Kafka exactly once, by transactions that Kafka alone ends.

Records and the number of their epoch are one transaction: the number is the offset that a group,
named for the writer, commits in it. Whoever opens the table again as the same writer ends what was
open (the transactional id is the writer's, so that a process left behind is fenced), reads the
number, and adds nothing for an epoch that is there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from parser.errors import ExecutionError, SqlError
from planner.catalog import Table
from sqlengine.connectors.kafka.client import ANSWER_S, consumer, log, producer, words
from sqlengine.connectors.kafka.sink import ATTEMPT_S, KafkaSink

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer
    from confluent_kafka.cimpl import TopicPartition

# The partition of the topic under which the group has the number of the epoch.
_MARK: Final = 0


class TransactionalSink(KafkaSink):
    """Commits the records of an epoch with its number.

    `name`: of this writer, as transactional id and as the group that has the number. A transaction
    that fails is given up with its client. The next one of the same id ends it, on whichever side
    of its commit it was, and then the number says whether the epoch is there."""

    def __init__(self, table: Table, options: Mapping[str, object], name: str) -> None:
        super().__init__(table, options)
        self._name = name
        self._last: int | None = None
        self._writes: Producer | None = None
        self._metadata: object = None
        # Of the epoch whose transaction was begun, and may yet turn out to be there.
        self._attempted = 0

    def last_epoch(self) -> int | None:
        """See `Sink`. Fences whoever has written as this writer. `Busy` where Kafka is away."""
        from confluent_kafka import KafkaException

        try:
            self._writer()
        except KafkaException as error:
            raise self._given_up(error.args[0]) from None
        return self._last

    def commit(self, epoch: int) -> int:
        """See `Sink`. `Busy` where the server is away; ExecutionError where another process writes
        as this writer, or a record is refused."""
        from confluent_kafka import KafkaException

        if not self._pending:
            return 0
        try:
            client = self._writer()
            if self._last is not None and self._last >= epoch:
                log.debug("epoch %d of '%s' is in '%s' already", epoch, self._name, self._topic)
                count, self._attempted, self._pending = self._attempted, 0, []
                return count
            self._transaction(client, epoch)
        except KafkaException as error:
            raise self._given_up(error.args[0]) from None
        self._last, self._attempted = epoch, 0
        return self._done()

    def _writer(self) -> Producer:
        """Returns the client, which is the only one of this writer from now on."""
        if self._writes is None:
            super()._abandon()  # it has told whether the topic is there
            made = producer(self._settings, self.health, self._refusals.append, self._name)
            made.init_transactions(ATTEMPT_S)
            # Nobody else can commit as this writer any more: what is read now stays so.
            self._last, self._metadata = self._read_mark()
            self._writes = made
        return self._writes

    def _read_mark(self) -> tuple[int | None, object]:
        """Reads the last epoch; returns what stands for the group in a transaction, too."""
        from confluent_kafka import KafkaException

        reader = consumer({**self._settings, "group.id": self._name}, self.health)
        deadline = time.monotonic() + ANSWER_S
        try:
            while True:
                try:
                    (found,) = reader.committed([self._at()], timeout=ANSWER_S)
                    if found.error is not None:
                        raise _raised(found.error)
                    last = found.offset if found.offset >= 0 else None
                    return last, reader.consumer_group_metadata()
                except KafkaException as error:  # where groups are new, nobody coordinates them yet
                    if not _passes(error.args[0]) or time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
        finally:
            reader.close()

    def _at(self, epoch: int | None = None) -> TopicPartition:
        from confluent_kafka import TopicPartition

        if epoch is None:
            return TopicPartition(self._topic, _MARK)
        return TopicPartition(self._topic, _MARK, epoch)

    def _transaction(self, client: Producer, epoch: int) -> None:
        """Writes the epoch and its number. KafkaException where that fails, or is not known."""
        self._delivery = self._delivering()
        self._attempted = len(self._delivery)
        client.begin_transaction()
        given = self._delivery.go_on(client, time.monotonic() + ATTEMPT_S)
        if not given or self._refusals:
            raise _raised(self._refusals[0] if self._refusals else None)
        client.send_offsets_to_transaction([self._at(epoch)], self._metadata, ATTEMPT_S)
        client.commit_transaction(ATTEMPT_S)

    def _given_up(self, error: KafkaError) -> SqlError:
        """Gives the transaction up with its client; returns the error to raise."""
        from confluent_kafka import KafkaError

        refusals = [e for e in self._refusals if not _passes(e)]
        self._abandon()
        fenced = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
        if error.code() in fenced:
            return ExecutionError(
                f"another process writes to topic '{self._topic}' of Kafka as '{self._name}'",
                detail=words(error),
                hint="give each server, and each new data folder, a"
                " 'sink.transactional-id-prefix' of its own",
            )
        if refusals:
            return self._refused(refusals[0])
        if not _passes(error):
            return self._refused(error)
        self.health.failed(words(error))
        self.health.retries += 1
        return self._busy(words(error))

    def _abandon(self) -> None:
        super()._abandon()
        self._client, self._writes = self._writes, None
        super()._abandon()


def _raised(error: KafkaError | None) -> Exception:
    """Returns an exception as the client raises it; None stands for time that is up."""
    from confluent_kafka import KafkaError, KafkaException

    return KafkaException(KafkaError(KafkaError._TIMED_OUT) if error is None else error)


def _passes(error: KafkaError) -> bool:
    """True if a new client may have more luck."""
    from confluent_kafka import KafkaError

    lasting = (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
    )
    return error.code() not in lasting
