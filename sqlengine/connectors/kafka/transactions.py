"""Writing to a topic of Kafka exactly once, by transactions that Kafka alone ends.

Records and the number of their epoch are one transaction: the number is the offset that a group,
named for the writer, commits in it. Whoever opens the table again as the same writer ends what was
open (the transactional id is the writer's, so that a process left behind is fenced), reads the
number, and adds nothing for an epoch that is there. With the number stands who has written it: a
client that is fenced may have been so by one that it has given up itself, whose question a broker
has answered late, and only the name tells that from another process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from parser.errors import ExecutionError, SqlError
from planner.catalog import Table
from sqlengine.connectors.base import Busy
from sqlengine.connectors.kafka.client import ANSWER_S, consumer, log, producer, words
from sqlengine.connectors.kafka.properties import Settings
from sqlengine.connectors.kafka.sink import ATTEMPT_S, KafkaSink
from sqlengine.system.lanes import get_on

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.cimpl import TopicPartition

# The partition of the topic under which the group has the number of the epoch.
_MARK: Final = 0
# Between two attempts to connect nothing looks whether the time of a question is up: with pauses of
# up to a minute one of `socket.timeout.ms` has taken 43 s, and its transaction with it.
_BACKOFF: Final[Settings] = {"reconnect.backoff.max.ms": 1000}


@dataclass(frozen=True)
class _Mark:
    """The mark of the group: the last epoch, 0 before there is one, and who has written it. `group`
    stands for the group in a transaction."""

    epoch: int
    owner: str
    group: object


class TransactionalSink(KafkaSink):
    """Commits the records of an epoch with its number.

    `name`: of this writer, as transactional id and as the group that has the number. A transaction
    that fails is given up with its client. The next one of the same id ends it, on whichever side
    of its commit it was, and then the number says whether the epoch is there."""

    def __init__(self, table: Table, options: Mapping[str, object], name: str) -> None:
        super().__init__(table, options)
        if "reconnect.backoff.ms" not in self._settings:  # it must not be the longer one
            self._settings = {**_BACKOFF, **self._settings}
        self._name = name
        # Tells this sink from all others that write as this writer, or did.
        self._owner = uuid4().hex
        # Once the group has named this sink, another one there has taken over.
        self._owns = False
        self._mark = _Mark(0, "", None)
        self._writes: Producer | None = None
        # Of the epoch whose transaction was begun, and may yet turn out to be there.
        self._attempted = 0
        # Its commit was asked for, and nobody knows whether it was made.
        self._in_doubt = False

    def last_epoch(self) -> int | None:
        """See `Sink`. Fences whoever has written as this writer. Raises as `commit`."""
        self._attempt(self._writer)
        return self._mark.epoch or None

    def commit(self, epoch: int) -> int:
        """See `Sink`. `Busy` where the server is away, or a client of this sink is fenced by one
        before it; ExecutionError where another process writes as this writer, or a record is
        refused."""
        if not self._pending:
            return 0
        self._attempt(partial(self._write_once, epoch))
        if self._delivery is not None:
            return self._done()
        log.debug("epoch %d of '%s' is in '%s' already", epoch, self._name, self._topic)
        count, self._attempted, self._pending = self._attempted, 0, []
        return count

    def _attempt(self, work: Callable[[], object]) -> None:
        """Does what needs the client, which is given up where that fails."""
        from confluent_kafka import KafkaException

        try:
            work()
            return
        except KafkaException as error:
            failed = error.args[0]
        # Not from within: an error that is kept would keep the client with it, and one that has
        # asked to be the writer goes on asking, and fences those that come after it.
        raise self._given_up(failed)

    def _write_once(self, epoch: int) -> None:
        """Writes the epoch, unless it is there: then there is no delivery."""
        client = self._writer()
        if self._mark.epoch < epoch:
            self._transaction(client, epoch)

    def _writer(self) -> Producer:
        """Returns the client, which is the only one of this writer from now on. ExecutionError
        where another process has taken over; it is left alone."""
        if self._writes is None:
            super()._abandon()  # it has told whether the topic is there
            if self._owns:
                # A transaction that a client before has left open must not hold this up.
                self._read_mark(settled=False)
            made = producer(
                self._settings, self._table, self.health, self._refusals.append, self._name
            )
            made.init_transactions(ATTEMPT_S)
            # Nobody else can commit as this writer any more: what is read now stays so.
            self._mark = self._settled_mark()
            if self._mark.owner != self._owner:
                made.begin_transaction()
                self._commit_mark(made, self._mark.epoch)
            self._owns, self._writes = True, made
        return self._writes

    def _settled_mark(self) -> _Mark:
        """Reads the last epoch once all transactions before have ended. Busy where Kafka does not
        end one, as after the death of a broker, unless it is known how that has ended."""
        from confluent_kafka import KafkaError, KafkaException

        try:
            mark = self._read_mark(settled=True)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TIMED_OUT:
                raise
            mark = self._read_mark(settled=False)  # raises the same where nobody answers
            if self._in_doubt or not self._owns:
                raise self._hanging() from None
            # The transaction is that of the last epoch; the next one ends it, too.
            return replace(mark, epoch=max(mark.epoch, self._mark.epoch))
        self._in_doubt = False
        return mark

    def _hanging(self) -> Busy:
        return Busy(
            f"topic '{self._topic}' of Kafka takes no rows now",
            detail=f"Kafka has not ended a transaction of '{self._name}'",
            hint="find it with 'kafka-transactions.sh find-hanging', and abort or commit it; the"
            " rows are kept, and written then",
        )

    def _read_mark(self, *, settled: bool) -> _Mark:
        """Reads the last epoch: where it is to be `settled`, that of a transaction which is open
        yet is waited for. ExecutionError where another process has taken over."""
        get_on()
        isolation = "read_committed" if settled else "read_uncommitted"
        asking = {**self._settings, "group.id": self._name, "isolation.level": isolation}
        reader = consumer(asking, self._table, self.health)
        try:
            found = self._committed(reader)
            group = reader.consumer_group_metadata()
        finally:
            reader.close()
        get_on()
        if found.offset < 0:
            return _Mark(0, "", group)
        mark = _Mark(found.offset, found.metadata or "", group)
        if self._owns and mark.owner != self._owner:
            raise ExecutionError(
                f"another process writes to topic '{self._topic}' of Kafka as '{self._name}'",
                detail=f"it has taken over from this one, and its last epoch is {mark.epoch}",
                hint="give each server, and each new data folder, a"
                " 'sink.transactional-id-prefix' of its own",
            )
        return mark

    def _committed(self, reader: Consumer) -> TopicPartition:
        """Asks what the group has committed."""
        from confluent_kafka import KafkaException, TopicPartition

        deadline = time.monotonic() + ANSWER_S
        while True:
            left = max(deadline - time.monotonic(), 0.1)
            try:
                (found,) = reader.committed([TopicPartition(self._topic, _MARK)], timeout=left)
                if found.error is not None:
                    raise _raised(found.error)
                return found
            except KafkaException as error:  # where groups are new, nobody coordinates them yet
                if not _passes(error.args[0]) or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _transaction(self, client: Producer, epoch: int) -> None:
        """Writes the epoch and its number. KafkaException where that fails, or is not known."""
        self._delivery = self._delivering()
        self._attempted = len(self._delivery)
        client.begin_transaction()
        given = self._delivery.go_on(client, time.monotonic() + ATTEMPT_S)
        if not given or self._refusals:
            raise _raised(self._refusals[0] if self._refusals else None)
        self._commit_mark(client, epoch)
        self._attempted = 0

    def _commit_mark(self, client: Producer, epoch: int) -> None:
        """Ends a transaction: with it the group has this epoch, and that it is of this sink."""
        from confluent_kafka import TopicPartition

        get_on()
        at = TopicPartition(self._topic, _MARK, epoch, self._owner)
        client.send_offsets_to_transaction([at], self._mark.group, ATTEMPT_S)
        get_on()
        self._in_doubt = True
        client.commit_transaction(ATTEMPT_S)
        self._in_doubt = False
        self._mark = replace(self._mark, epoch=epoch, owner=self._owner)

    def _given_up(self, error: KafkaError) -> SqlError:
        """Gives the transaction up with its client; returns the error to raise."""
        refusals = [e for e in self._refusals if not _passes(e)]
        self._abandon()
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
