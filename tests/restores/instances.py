"""One statement in several instances: its stages as Spark runs them, without Spark. Every instance
has a part of the buckets, epochs are small, behind each of them all that was in memory is gone, and
the next one has another number of instances: buckets move with what is kept of them."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, closing, nullcontext
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pytest

from parser.errors import SqlError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.connectors.base import Environment
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.spark import keyed as spark_keyed
from sqlengine.executors.spark import splits
from sqlengine.formats.results import Row
from sqlengine.session import spark as spark_session
from sqlengine.session.spark import SparkRunner
from tests.restores.lives import START, Outcome, Rows, Statement, files_in
from tests.spark.staged import Staged

INSTANCES: Final = (2, 3)
# An epoch reads so many turns: several epochs for a statement.
TURNS: Final = 4


class Alternating:
    """A cluster that has another number of cores for each batch."""

    def __init__(self, counts: Counter[str]) -> None:
        self._sessions = cycle(map(Staged, INSTANCES))
        self._counts = counts

    def session(self) -> Any:
        self._counts["batches"] += 1
        return next(self._sessions)

    def errors(self) -> AbstractContextManager[None]:
        return nullcontext()

    def worker_memory(self) -> int | None:
        return None

    def close(self) -> None: ...


def in_instances(
    statement: Statement, folder: Path, out: Path, rows_per_read: int, counts: Counter[str]
) -> Outcome:
    """What comes out; nothing for a statement whose rows need not come together."""
    before = set(out.rglob("*"))
    outcome, told = Outcome(), list[Row]()
    outcome.rows[0] = told
    try:
        with pytest.MonkeyPatch.context() as patch:
            # Whoever reads: in turns of so many rows as elsewhere.
            patch.setattr(splits, "READ_BY_TASKS", {})
            patch.setattr(spark_session, "_TURNS_PER_EPOCH", TURNS)
            patch.setattr(spark_keyed, "_cache", lambda instance, key: None)  # only files last
            _run(statement, folder, rows_per_read, told, counts)
    except SqlError as error:
        outcome.error = str(error)
    outcome.files = files_in(out, before)
    return outcome


def _run(
    statement: Statement, folder: Path, rows_per_read: int, told: list[Row], counts: Counter[str]
) -> None:
    with closing(EmbeddedBroker(folder / "topics", fsync="none", clock=lambda: START)) as broker:
        runner = SparkRunner(
            Environment(broker, lambda: START, "instances", lambda line: None, Memory()),
            OperatorFactory(),
            rows_per_read,
            spark=Alternating(counts),
            folder=folder,
        )
        runner.run(statement.sinks, statement.settings, Rows(told).write)
