"""A job in a graph of its own, whose clock is set by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from planner.catalog import Catalog
from planner.graph.merge import Graph, merge
from planner.settings import MINI_BATCH
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import EpochRecord
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.storage import GraphStorage
from sqlengine.formats.results import JsonValue, rows_of
from sqlengine.jobs.planning import JobText, plan_job

T0 = 1_700_000_000_000  # a multiple of 10 s


@dataclass
class Log:
    keeps_every_epoch: ClassVar[bool] = True
    records: list[EpochRecord] = field(default_factory=list)

    def append(self, record: EpochRecord) -> int:
        self.records.append(record)
        return len(self.records)

    def read(self, offset: int) -> Iterator[tuple[int, EpochRecord]]:
        return iter([(i + 1, r) for i, r in enumerate(self.records)][offset:])


class Running:
    """A job that writes to table o, which is in memory."""

    def __init__(
        self, text: str, memory: Memory | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.now, self.memory, self.log = T0, memory or Memory(), Log()
        environment = Environment(None, lambda: self.now, "job", memory=self.memory)
        executor = EmbeddedExecutor(OperatorFactory())
        self.runner = GraphRunner("g", executor, environment, GraphStorage(self.log))
        job = plan_job(JobText("job", text), Catalog(), {MINI_BATCH: "false", **(settings or {})})
        self.runner.apply(self.runner.prepare(merge(Graph(), {"job": job.sinks}), {"job": 1}))

    def after(self, ms: int) -> list[list[JsonValue]]:
        """Returns all rows emitted up to `ms` after the start."""
        self.now = T0 + ms
        while self.runner.step():
            pass
        held = self.memory.table("o").rows
        return [] if held is None else sorted(row for _, row in rows_of(held))
