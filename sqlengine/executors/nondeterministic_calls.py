"""The log of what nondeterministic functions have answered, epoch by epoch: a topic beside the
epoch log.

The answers of an epoch are written before any output that depends on them, so that the epoch can be
repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from parser.errors import ServiceError
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import TopicNotFound
from sqlengine.functions.answers import Answer, EpochAnswers, answering
from sqlengine.system.format_numbers import check_record

ANSWERS: Final = "_answers"
FORMAT: Final = 1


class _Record(msgspec.Struct):
    """The answers of an epoch; those of tasks, of so many `partitions`, are in their files."""

    graph: str
    epoch: int
    answers: tuple[Answer, ...]
    format: int = FORMAT
    partitions: int = 0


class NondeterministicCallLog:
    """The answers of one graph. Without a broker nothing is kept: for scripts, and where epochs are
    not repeated.

    `start`: the offset from which a recovery needs answers, after those of its checkpoint."""

    def __init__(self, broker: Broker | None, graph: str) -> None:
        self.start = 0
        self._broker = broker
        self._graph = graph
        self._known: dict[int, list[Answer]] = {}
        self._partitions: dict[int, int] = {}
        self._complete = True
        self._unwritten: list[_Record] = []

    def load(self) -> None:
        """Reads the answers of epochs that may be repeated. ServiceError for records of another
        format."""
        if self._broker is None:
            return
        with suppress(TopicNotFound):
            begin = self._broker.begin_offset(ANSWERS, 0)
            # Retention removes from the front: answers are missing if the topic begins behind the
            # checkpoint.
            self._complete, offset = self.start >= begin, max(self.start, begin)
            while (records := self._broker.read(ANSWERS, 0, offset)) is not None:
                assert records.keys is not None
                for key, value in zip(
                    records.keys.to_pylist(), records.values.to_pylist(), strict=True
                ):
                    if key == self._graph.encode():
                        record = _decoded(value)
                        self._known.setdefault(record.epoch, []).extend(record.answers)
                        self._partitions[record.epoch] = record.partitions
                offset = records.next_offset

    def forget(self) -> None:
        """Drops what was loaded: no epoch is repeated any more."""
        self._known.clear()
        self._partitions.clear()
        self._complete = True

    @contextmanager
    def recording(self, epoch: int) -> Iterator[None]:
        """Runs the body as this epoch: gives it the answers that it had before, or records new
        ones. ServiceError where it is repeated and its answers are not here any more."""
        known, partitions = self._known.pop(epoch, ()), self._partitions.pop(epoch, 0)
        answers = EpochAnswers(known, whole=self._complete, partitions=partitions)
        with answering(answers):
            yield
        if answers.missing:
            raise self._missing(epoch, partitions)
        if answers.fresh or answers.partitions != partitions:
            fresh, told = tuple(answers.fresh), answers.partitions
            self._unwritten.append(_Record(self._graph, epoch, fresh, partitions=told))

    def _missing(self, epoch: int, partitions: int) -> ServiceError:
        what = f"epoch {epoch} of graph '{self._graph}' cannot be repeated"
        if partitions:
            return ServiceError(
                f"{what} here: tasks of Spark have what functions answered in it",
                hint="start the server with --target spark, and end it in order before that",
            )
        return ServiceError(
            f"{what}: retention has taken what functions answered in it",
            detail=f"topic {ANSWERS} is shorter than what the last checkpoint needs",
            hint="to begin anew without the state of these jobs, remove the graph's checkpoint",
        )

    def flush(self) -> None:
        """Writes new answers. BrokerFull where there is no space: no output that depends on them
        may leave then."""
        while self._unwritten:
            if self._broker is not None:
                self._broker.create_topic(ANSWERS, retention_bytes=1 << 30, if_not_exists=True)
                value = msgspec.json.encode(self._unwritten[0])
                self._broker.append(
                    ANSWERS, 0, [value], keys=[self._graph.encode()], timestamp_ms=0
                )
            # After the append: with a full broker the record stays, and the next flush tries it
            # again.
            del self._unwritten[0]

    def end(self) -> int:
        """The offset after all answers so far, for a checkpoint."""
        if self._broker is None:
            return 0
        try:
            return self._broker.end_offset(ANSWERS, 0)
        except TopicNotFound:
            return 0


def _decoded(value: bytes) -> _Record:
    check_record(value, FORMAT, "a record of answers")
    return msgspec.json.decode(value, type=_Record)
