"""The answers of nondeterministic functions in an epoch: kept, so that its repetition gives the
same rows.

A request is known by its content and by how often it was made, so the order in which operators ask
does not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import pyarrow as pa
from xxhash import xxh3_128_hexdigest

from parser.errors import ServiceError
from sqlengine.functions.host import Ask, Binding, Failure, Take
from sqlengine.functions.pool import POOL
from sqlengine.functions.process import Serve
from udf.user import UserFunction


@dataclass(frozen=True)
class Answer:
    """The answer to a request: for rows from start to end blobs of Arrow, and the rows that failed,
    with the reason."""

    request: str
    parts: tuple[tuple[int, int, tuple[bytes, ...]], ...]
    failures: tuple[Failure, ...]


class CannotRepeat(ServiceError):
    """An epoch cannot be repeated here: what functions answered in it is elsewhere."""


class EpochAnswers:
    """The answers of one epoch: `known` ones are given again, `fresh` ones were computed now.

    Where `known` is incomplete (not `whole`), nothing is computed anew, and `missing` is set once a
    request has no answer. `partitions`: the number of partitions of tasks that keep the answers
    themselves, 0 where none do."""

    def __init__(self, known: Sequence[Answer], *, whole: bool = True, partitions: int = 0) -> None:
        self.whole, self.missing = whole and not partitions, False
        self.partitions = partitions
        self._known: dict[str, list[Answer]] = {}
        for answer in known:
            self._known.setdefault(answer.request, []).append(answer)
        self._asked: Counter[str] = Counter()
        self.fresh: list[Answer] = []

    def again(self, request: str) -> Answer | None:
        """Returns the recorded answer of the next such request; None where there is none."""
        known, place = self._known.get(request, []), self._asked[request]
        self._asked[request] += 1
        return known[place] if place < len(known) else None

    def of_tasks(self, partitions: int) -> tuple[int, bool]:
        """Leaves the answers to tasks, of so many partitions where the epoch is new.

        Returns the number of partitions with which the epoch runs, which say what is asked at a
        time, and True if tasks have all answers from before. CannotRepeat where they were given in
        this process."""
        if self._known:
            raise CannotRepeat(
                "an epoch cannot be repeated on Spark: functions have answered in it elsewhere",
                hint="start the server with --target embedded, and end it in order before that",
            )
        return self.partitions or partitions, not self.whole


_now: ContextVar[EpochAnswers | None] = ContextVar("answers", default=None)


def present_answers() -> EpochAnswers | None:
    """Returns the answers of the epoch to which the requests of this thread belong."""
    return _now.get()


@contextmanager
def answering(answers: EpochAnswers) -> Iterator[None]:
    """Requests of this thread are those of an epoch."""
    token = _now.set(answers)
    try:
        yield
    finally:
        _now.reset(token)


def run(
    function: UserFunction,
    binding: Binding,
    rows: int,
    ask: Ask,
    take: Take,
    serve: Serve | None = None,
) -> list[Failure]:
    """Calls `ModuleHost.run`, but takes the recorded answers of a nondeterministic function where
    an epoch is repeated."""
    answers = _now.get()
    if function.deterministic or answers is None:
        return POOL.host(function.content).run(binding, rows, ask, take, serve)
    about, blobs = ask(0, rows)
    request = _digest(function, about, blobs)
    known = answers.again(request)
    if known is not None:
        for start, end, held in known.parts:
            take(start, end, [pa.py_buffer(b) for b in held])
        return list(known.failures)
    if not answers.whole:
        answers.missing = True
        return [(row, "its answer is gone") for row in range(rows)]
    parts: list[tuple[int, int, tuple[bytes, ...]]] = []

    def keep(start: int, end: int, given: list[pa.Buffer]) -> None:
        parts.append((start, end, tuple(bytes(b) for b in given)))
        take(start, end, given)

    failures = POOL.host(function.content).run(binding, rows, ask, keep, serve)
    answers.fresh.append(Answer(request, tuple(parts), tuple(failures)))
    return failures


def _digest(function: UserFunction, about: Mapping[str, object], blobs: Sequence[pa.Buffer]) -> str:
    words = [function.identity, *(f"{k}={v}" for k, v in sorted(about.items()))]
    return xxh3_128_hexdigest(
        b"\0".join([*(w.encode() for w in words), *(bytes(b) for b in blobs)])
    )
