"""What an instance has done since it started, for its reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlengine.cluster.control_log import InstanceReport, SubtaskReport
from sqlengine.cluster.subtask import Subtask
from sqlengine.graphs.load_monitor import IsolationTrigger
from sqlengine.system.memory import Usage


@dataclass
class Counters:
    """Rows and epochs of parts; `jobs`, `sinks`: rows by job and by the id of the sink; `letters`:
    dead letters by job."""

    jobs: Counter[str] = field(default_factory=Counter)
    sinks: Counter[str] = field(default_factory=Counter)
    letters: Counter[str] = field(default_factory=Counter)
    rows_in: int = 0
    epochs: int = 0
    dead_letters: int = 0

    def add(self, part: Subtask) -> None:
        progress = part.runner.progress
        self.jobs.update(part.graph.rows_by_job())
        self.sinks.update(dict(progress.rows_out))
        self.letters.update(dict(progress.letters))
        self.rows_in += progress.rows_in
        self.epochs += progress.epochs
        self.dead_letters += progress.dead_letters

    def with_parts(self, parts: Iterable[Subtask]) -> Counters:
        """This, and what parts have done that run still."""
        jobs, sinks, letters = map(Counter, (self.jobs, self.sinks, self.letters))
        total = Counters(jobs, sinks, letters, self.rows_in, self.epochs, self.dead_letters)
        for part in parts:
            total.add(part)
        return total

    def report(
        self,
        name: str,
        since_ms: int,
        now_ms: int,
        parts: Mapping[int, SubtaskReport],
        usage: Usage,
        problem: str | None,
        troubles: list[IsolationTrigger],
    ) -> InstanceReport:
        return InstanceReport(
            name,
            usage.pid,
            since_ms,
            now_ms,
            dict(parts),
            dict(self.jobs),
            dict(self.sinks),
            self.rows_in,
            self.epochs,
            self.dead_letters,
            usage.memory_bytes,
            usage.cpu_s,
            problem,
            dict(self.letters),
            troubles,
        )


def described(part: Subtask) -> SubtaskReport:
    """A part for a report."""
    positions: dict[str, dict[str, int]] = {}
    for source in part.runner.inputs.running.values():
        topic = source.scan.table.options.get("topic")
        if topic is None:
            continue
        read = positions.setdefault(topic, {})
        for shard, at in source.positions.items():
            read[shard] = min(at, read.get(shard, at))
    stored = part.graph.checkpoints.stored_version
    return SubtaskReport(
        part.runner.graph.version,
        part.runner.epoch,
        positions,
        dict(part.runner.backpressured_by),
        stored,
    )
