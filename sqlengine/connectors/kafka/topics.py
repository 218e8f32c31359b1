"""The partitions that a table reads: of topics by name or by a pattern, also those that are made
later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zlib import crc32

import regex

from parser.errors import ExecutionError, OptionError
from planner.catalog import Table
from planner.graph.distribution import SubtaskAssignment
from sqlengine.connectors.health import Health
from sqlengine.connectors.kafka.client import failure, log, topics_of
from sqlengine.formats.options import did_you_mean

if TYPE_CHECKING:
    from confluent_kafka import Consumer

# Seconds that a pattern may take for the name of a topic.
_MATCH_S: Final = 1.0


@dataclass(frozen=True, order=True)
class Partition:
    """A partition of a topic; its shard is named as Kafka names it, 'topic-3'."""

    topic: str
    number: int

    @property
    def shard(self) -> str:
        return f"{self.topic}-{self.number}"

    @staticmethod
    def of(shard: str) -> Partition:
        """Returns the partition of a shard's name; ValueError for another text."""
        topic, _, number = shard.rpartition("-")
        return Partition(topic, int(number))

    def read_by(self, assignment: SubtaskAssignment) -> bool:
        """True if a subtask reads the partition: those of a topic are shared out in turn."""
        return assignment.has(self.number + crc32(self.topic.encode()))


@dataclass(frozen=True)
class Topics:
    """The topics of a table: `names`, or those whose whole name the `pattern` matches."""

    names: tuple[str, ...]
    pattern: str | None

    @staticmethod
    def of(table: Table, options: Mapping[str, object]) -> Topics:
        """Returns the topics that the table's options name. OptionError where these name none, or
        both, or the pattern is none."""
        names = _split(options.get("topic"))
        pattern = options.get("topic-pattern")
        if names and pattern is not None:
            raise OptionError(
                f"table '{table.display}' has both 'topic' and 'topic-pattern'",
                hint="keep one: names with ; between them, or a regular expression for names",
                subject="topic-pattern",
            )
        if not names and pattern is None:
            message = (
                f"table '{table.display}' needs one of the options 'topic' and 'topic-pattern'"
            )
            raise OptionError(message, subject="topic")
        if isinstance(pattern, str):
            try:
                regex.compile(pattern)
            except regex.error as error:
                message = f"'topic-pattern' of table '{table.display}' is no regular expression"
                raise OptionError(message, detail=str(error), subject="topic-pattern") from None
            return Topics((), pattern)
        return Topics(names, None)

    def partitions(self, client: Consumer, health: Health, servers: str) -> list[Partition]:
        """Asks the server. KafkaAway where it does not answer, ExecutionError for a topic by name
        that is missing, or may not be read."""
        from confluent_kafka import KafkaException

        try:
            topics = topics_of(client, health)
        except KafkaException as error:
            raise failure(f"Kafka at {servers} does not tell its topics", servers, error) from None
        if self.pattern is not None:
            return sorted(_all(topics[name] for name in topics if self._matches(name)))
        for name in self.names:
            if name not in topics or (topics[name].error and not topics[name].partitions):
                raise missing(name, topics, servers)
        return sorted(_all(topics[name] for name in self.names))

    def _matches(self, name: str) -> bool:
        assert self.pattern is not None
        try:
            return regex.fullmatch(self.pattern, name, timeout=_MATCH_S) is not None
        except TimeoutError:
            message = "'topic-pattern' takes too long for the name of a topic"
            raise ExecutionError(message, detail=f"'{self.pattern}' and '{name}'") from None


def _split(text: object) -> tuple[str, ...]:
    given = text.split(";") if isinstance(text, str) else ()
    return tuple(dict.fromkeys(name.strip() for name in given if name.strip()))


def _all(topics: Iterable[object]) -> Iterable[Partition]:
    for topic in topics:
        name, numbers = getattr(topic, "topic", ""), getattr(topic, "partitions", {})
        yield from (Partition(str(name), int(n)) for n in numbers)


def missing(name: str, topics: Iterable[str], servers: str) -> ExecutionError:
    """Returns the error for a topic that the server does not have, or not for this user."""
    return ExecutionError(
        f"Kafka at {servers} has no topic '{name}', or none for this user",
        detail=did_you_mean(name, [t for t in topics if not t.startswith("__")]),
        hint=f"create it: kafka-topics.sh --bootstrap-server {servers} --create --topic {name}",
    )


class Discovery:
    """The partitions of a table, asked for again at an interval (s; 0: never)."""

    def __init__(
        self,
        ask: Callable[[], list[Partition]],
        interval_s: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._interval_s = interval_s
        self._now = now
        self._due = 0.0
        self._known: list[Partition] | None = None

    def partitions(self) -> list[Partition]:
        """Returns what is known, or asks. A server that is away costs only new partitions; the
        first question raises as `Topics.partitions`."""
        if self._known is None:
            self._known = self._ask()
        elif self._interval_s and self._now() >= self._due:
            try:
                # One that is gone stays: its end is told when it is read.
                self._known = sorted({*self._known, *self._ask()})
            except ExecutionError as error:
                log.warning("%s", error)
            except Exception as error:  # noqa: BLE001  asked again, and rows are read meanwhile
                log.info("new partitions are not known: %s", error)
        else:
            return self._known
        self._due = self._now() + self._interval_s
        return self._known
