"""Totals of an instance since it started, for its reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlengine.cluster.control_log import InstanceReport, SubtaskReport
from sqlengine.cluster.subtask import Subtask
from sqlengine.graphs.event_times import event_times
from sqlengine.graphs.load_monitor import IsolationTrigger
from sqlengine.system.memory import Usage


@dataclass
class Counters:
    """Rows and epochs of subtasks. `sinks`: rows by the id of the sink; `letters`: dead letters by
    job."""

    sinks: Counter[str] = field(default_factory=Counter)
    letters: Counter[str] = field(default_factory=Counter)
    rows_in: int = 0
    epochs: int = 0
    dead_letters: int = 0

    def add(self, subtask: Subtask) -> None:
        """Adds what a subtask has done since it was opened."""
        progress = subtask.runner.progress
        self.sinks.update(dict(progress.rows_out))
        self.letters.update(dict(progress.letters))
        self.rows_in += progress.rows_in
        self.epochs += progress.epochs
        self.dead_letters += progress.dead_letters

    def plus(self, subtasks: Iterable[Subtask]) -> Counters:
        """Returns the sum of these counters and of subtasks that are still open."""
        sinks, letters = map(Counter, (self.sinks, self.letters))
        total = Counters(sinks, letters, self.rows_in, self.epochs, self.dead_letters)
        for subtask in subtasks:
            total.add(subtask)
        return total

    def report(
        self,
        instance: str,
        since_ms: int,
        now_ms: int,
        subtasks: Mapping[int, SubtaskReport],
        usage: Usage,
        problem: str | None,
        triggers: list[IsolationTrigger],
    ) -> InstanceReport:
        """Returns the periodic report of an instance with these totals."""
        return InstanceReport(
            instance=instance,
            pid=usage.pid,
            since_ms=since_ms,
            now_ms=now_ms,
            subtasks=dict(subtasks),
            sinks=dict(self.sinks),
            rows_in=self.rows_in,
            epochs=self.epochs,
            dead_letters=self.dead_letters,
            memory=usage.memory_bytes,
            cpu_s=usage.cpu_s,
            problem=problem,
            letters=dict(self.letters),
            triggers=triggers,
        )


def subtask_report(subtask: Subtask) -> SubtaskReport:
    """Returns the progress of a subtask for a report."""
    positions: dict[str, dict[str, int]] = {}
    for source in subtask.runner.inputs.running.values():
        topic = source.scan.table.options.get("topic")
        if topic is None:
            continue
        offsets = positions.setdefault(topic, {})
        for shard, offset in source.positions.items():
            # Several scans may read one topic: the one that is behind counts.
            offsets[shard] = min(offset, offsets.get(shard, offset))
    runner = subtask.runner
    return SubtaskReport(
        version=runner.graph.version,
        epoch=runner.epoch,
        positions=positions,
        backpressured_by=dict(runner.polling.backpressured_by),
        stored_version=subtask.graph.checkpoints.stored_version,
        counts=subtask.graph.counts(),
        times=event_times(subtask.graph.executor),
    )
