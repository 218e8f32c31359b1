"""The answers of functions that are not deterministic, in tasks: they are in files beside the state
of the epoch before anything that came of them leaves the task. So whatever is repeated gives the
same: a task, a job of Spark, or the epoch after the death of the driver. Does not import Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

import msgspec
from xxhash import xxh3_64_hexdigest

from parser.errors import ServiceError
from sqlengine.executors.spark.splits import InputSplit
from sqlengine.executors.spark.state_files import epoch_name, local_path
from sqlengine.executors.spark.worker import Step
from sqlengine.functions.answers import Answer, EpochAnswers, answering

T = TypeVar("T")


class AnsweredElsewhere(BaseException):
    """Another attempt of the task was quicker, and what it was answered counts. Spark runs this one
    again, which finds those answers.

    A BaseException, because an Exception in a task is a failure of its jobs."""


class TaskAnswers:
    """The answers in one part of an epoch: a split, or a partition of a stage.

    What a part asks depends on its input and on the answers before, so that each attempt asks the
    same in the same order. `count`: the answers so far."""

    def __init__(self, folder: str, step: Step, part: str) -> None:
        """`folder` (a URI) has the state; `part` is the part's name within the epoch."""
        self._base = local_path(f"{folder}/state/{epoch_name(step)}/{part}.answers")
        self._epoch = step.epoch
        known = list(self._read())
        self._files = len(known)
        answers = [answer for file in known for answer in file]
        self.count = len(answers)
        self._answers = EpochAnswers(answers, whole=not step.answered)

    def behind(self, made: Iterator[T]) -> Iterator[T]:
        """Yields what is computed, each behind the answers on which it depends."""
        while True:
            with answering(self._answers):
                item = next(made, None)
            self._write()
            if item is None:
                return
            yield item

    def _write(self) -> None:
        """Writes new answers. ServiceError where the part has asked for some that are not there any
        more."""
        if self._answers.missing:
            raise ServiceError(
                f"epoch {self._epoch} cannot be repeated: what functions answered in it is gone",
                hint="to begin anew without the state of these jobs, remove the graph's checkpoint",
            )
        fresh = self._answers.fresh
        if fresh:
            self._create(msgspec.msgpack.encode(fresh))
            self.count += len(fresh)
            fresh.clear()

    def _create(self, data: bytes) -> None:
        """Writes the next file, whole or not at all, and only if no other attempt has."""
        scratch = self._base.with_name(f".{self._base.name}-{token_hex(8)}")
        self._base.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(data)
        try:
            os.link(scratch, self._file(self._files))
        except FileExistsError:
            raise AnsweredElsewhere from None
        finally:
            scratch.unlink()
        self._files += 1

    def _read(self) -> Iterator[list[Answer]]:
        with suppress(FileNotFoundError):
            for number in range(1 << 31):
                data = self._file(number).read_bytes()
                yield msgspec.msgpack.decode(data, type=list[Answer])

    def _file(self, number: int) -> Path:
        return self._base.with_name(f"{self._base.name}-{number}")


def of_split(folder: str, step: Step, split: InputSplit) -> TaskAnswers:
    """Returns the answers for the rows of a split, which no other split of the epoch has."""
    return TaskAnswers(folder, step, split_name(split))


def split_name(split: InputSplit) -> str:
    """Returns the name of a split within its epoch."""
    text = "\0".join((split.source, split.log, str(split.start), str(split.end), str(split.row)))
    return f"0-{xxh3_64_hexdigest(text.encode())}"
