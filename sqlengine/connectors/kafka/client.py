"""The client library: it is loaded when a table is opened, and its errors are told in one line."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from parser.errors import ExecutionError, OptionError, ServiceError, SqlError
from sqlengine.connectors.health import Health
from sqlengine.connectors.kafka.properties import PREFIX, Settings
from sqlengine.connectors.kafka.remedies import refused_option, remedy

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin._metadata import TopicMetadata

_C = TypeVar("_C")
log = logging.getLogger("sqlengine.connectors.kafka")
_client_log = logging.getLogger("sqlengine.connectors.kafka.client")

# The kind of lines about a connection that is lost, and what they begin with.
_FAILED: Final = "FAIL"
_THREAD: Final = re.compile(r"^\[thrd:[^\]]*\]: ")
# Seconds between two lines of one kind in the log.
_QUIET_S: Final = 60.0
# Seconds that a question to the server may take.
ANSWER_S: Final = 10.0
# … and after which it is looked at what the client has heard: whoever submits a job waits for less.
_SOON_S: Final = 1.5
# Between two attempts to connect: the first pause, and the longest; the client doubles them and
# spreads them. Of the first one every new connection waits for a part.
_BACKOFF: Final = {"reconnect.backoff.ms": 100, "reconnect.backoff.max.ms": 60_000}
_COMMON: Final[Settings] = {
    "client.id": f"sqlengine-{os.getpid()}",
    "socket.keepalive.enable": True,
    "socket.timeout.ms": 10_000,  # a commit must come back, be it without an answer
    **_BACKOFF,
}
_CONSUMER: Final[Settings] = {
    "group.id": "sqlengine",  # the client wants one; nothing is committed unless the table has one
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    # What has been fetched and not been read yet, in KB; with more the client stops fetching.
    "queued.max.messages.kbytes": 32_768,
    # It counts values alone. With a hundred times as many, records of nothing but long headers took
    # all memory, and short ones come no faster.
    "queued.min.messages": 1000,
    # For so long a server holds a question for records, and no other partition can be asked for.
    "fetch.wait.max.ms": 100,
    # By default a full queue is looked at once a second, which holds up bulk reads.
    "fetch.queue.backoff.ms": 5,
}
_PRODUCER: Final[Settings] = {
    "enable.idempotence": True,
    "linger.ms": 5,
    "compression.type": "lz4",
    "delivery.report.only.error": True,
    "queue.buffering.max.kbytes": 65_536,
    "message.max.bytes": 1_200_000,  # larger rows are refused before, see `largest_record`
    "message.timeout.ms": 0,  # rows are kept until they are delivered
    "partitioner": "murmur2_random",  # of a key the partition that Java's client chooses
}
_TRANSACTIONAL: Final[Settings] = {
    # A transaction often comes before the server has ended the one before it.
    "retry.backoff.ms": 20,
    # Where all brokers were away the client makes new handles of them, and waits without end for
    # the old one that coordinated its group.
    "metadata.recovery.strategy": "none",
}
# Of the other side only.
_CONSUMERS_ALONE: Final = ("fetch.", "group.", "isolation.", "queued.", "session.", "heartbeat.")
_CONSUMERS_OWN: Final = frozenset(
    ("max.poll.interval.ms", "check.crcs", "allow.auto.create.topics")
)
_PRODUCERS_ALONE: Final = (
    "linger.", "compression.", "batch.", "acks", "retries", "queue.", "message.timeout",
    "max.in.flight", "transaction.", "delivery.", "request.required", "sticky.",
)  # fmt: skip


class _Seldom(logging.Filter):
    """Lets a line of the client pass if there was none of its kind for a minute: one of each
    attempt to connect would fill the log. How often it happens is in the metrics."""

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.args[0] if isinstance(record.args, tuple) and record.args else record.msg)
        passes = record.created >= self._next.get(kind, 0.0)
        if passes:
            self._next[kind] = record.created + _QUIET_S
        return passes


_client_log.addFilter(_Seldom())


class _Heard:
    """Hears what one client tells, from within `consume` or `poll`: lines for the log, and errors
    of connections for the health of a table."""

    def __init__(self, health: Health | None) -> None:
        self._health = health
        self._lost = ""

    def log(self, level: int, text: str, *args: object) -> None:
        """Takes a line, as a logger does: kind, name of the client and what it says. That the
        other side has closed a connection is no matter for the log: most were idle."""
        is_end = bool(args) and args[0] == _FAILED
        if is_end:
            self._lost = _THREAD.sub("", words(args[-1]))
        if not is_end or level > logging.INFO:
            _client_log.log(level, text, *args)

    def error(self, error: KafkaError) -> None:
        """Takes an error. That all brokers are down is no reason: that is in the log, alone where a
        server closes the connection."""
        if self._health is None:
            log.info("kafka: %s", words(error))
        elif error.code() == error._ALL_BROKERS_DOWN and self._lost:
            self._health.failed(self._lost)
        elif not error.fatal():
            self._health.failed(words(error))


class KafkaAway(ServiceError):
    """Raised where no broker answers; the same may work later."""

    def because(self, trouble: str | None) -> KafkaAway:
        """Returns the error with what is known of the connection, if something is."""
        if trouble is None:
            return self
        return KafkaAway(self.message, detail=trouble, hint=remedy(trouble) or self.hint)


def topics_of(
    client: Consumer | Producer, health: Health, name: str | None = None
) -> Mapping[str, TopicMetadata]:
    """Returns what the brokers tell of all topics, or of one. KafkaException where they do not:
    soon where the client has heard what no waiting mends, such as a wrong password."""
    from confluent_kafka import KafkaException

    def asked(seconds: float) -> Mapping[str, TopicMetadata]:
        given = {} if name is None else {"topic": name}
        topics: Mapping[str, TopicMetadata] = client.list_topics(timeout=seconds, **given).topics
        return topics

    try:
        return asked(_SOON_S)
    except KafkaException:
        client.poll(0)  # hears why
        if remedy(health.trouble) is not None:
            raise
    return asked(ANSWER_S - _SOON_S)


def consumer(settings: Settings, table: str, health: Health | None = None) -> Consumer:
    """Opens a consumer for a table, which reads what it is told to. OptionError for a setting that
    the client does not know."""
    from confluent_kafka import Consumer

    given = {k: v for k, v in settings.items() if not k.startswith(_PRODUCERS_ALONE)}
    heard = _Heard(health)
    made = {**_COMMON, **_CONSUMER, **given, "error_cb": heard.error}
    return _made(lambda: Consumer(made, logger=heard), table)


def producer(
    settings: Settings,
    table: str,
    health: Health,
    failed: Callable[[KafkaError], None],
    transactional_id: str | None,
) -> Producer:
    """Opens a producer for a table. `failed` hears of records that cannot be delivered. OptionError
    as `consumer` raises it."""
    from confluent_kafka import Producer

    given = {
        k: v
        for k, v in settings.items()
        if not k.startswith(_CONSUMERS_ALONE) and k not in _CONSUMERS_OWN
    }

    def told(error: KafkaError | None, message: object) -> None:
        if error is not None:
            failed(error)

    default = dict(_PRODUCER)
    own: dict[str, object] = {"on_delivery": told}
    if transactional_id is not None:
        del default["message.timeout.ms"]  # no record waits for longer than its transaction
        own |= {"transactional.id": transactional_id, **_TRANSACTIONAL}
    heard = _Heard(health)
    made = {**_COMMON, **default, **given, **own, "error_cb": heard.error}
    return _made(lambda: Producer(made, logger=heard), table)


def _made(make: Callable[[], _C], table: str) -> _C:
    from confluent_kafka import KafkaException

    try:
        return make()
    except KafkaException as error:
        why = words(error.args[0])
        setting, hint = refused_option(why)
        option = PREFIX + setting
        message = f"the client of Kafka refuses a setting of table '{table}', option '{option}'"
        raise OptionError(message, detail=why, hint=hint, subject=option) from None


def require_library() -> None:
    """Raises ServiceError with the remedy where the client is not installed."""
    try:
        import confluent_kafka  # noqa: F401
    except ModuleNotFoundError:
        raise ServiceError(
            "Kafka needs a client that is not installed", hint="pip install 'sqlengine[kafka]'"
        ) from None


def words(error: object) -> str:
    """Returns an error of the client in one line."""
    text = getattr(error, "str", lambda: str(error))()
    return " ".join(str(text).split())[:300]


def failure(what: str, servers: str, error: object) -> SqlError:
    """Returns the error for `what` could not be done, by the client's own: KafkaAway where it may
    work later."""
    from confluent_kafka import KafkaError

    if not isinstance(error, KafkaError):
        error = getattr(error, "args", [error])[0]
    detail = words(error)
    if not isinstance(error, KafkaError):
        return ExecutionError(what, detail=detail)
    away = (
        KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE, KafkaError._MAX_POLL_EXCEEDED, KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR, KafkaError._WAIT_COORD,
    )  # fmt: skip
    if error.code() in away or error.retriable():
        hint = f"see whether Kafka at {servers} is there and can be reached"
        return KafkaAway(what, detail=detail, hint=remedy(detail) or hint)
    return ExecutionError(what, detail=detail, hint=remedy(detail))
