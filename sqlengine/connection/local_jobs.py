"""Jobs of an engine in this process."""

from __future__ import annotations

from dataclasses import asdict

from planner.rule_settings import rule_in
from sqlengine.connection.jobs import (
    JobAccess,
    JobInfo,
    JobResult,
    Plan,
    Rule,
    ShardPosition,
    Version,
)
from sqlengine.connection.server_jobs import moment, rule_of
from sqlengine.connectors.plain_secrets import masked
from sqlengine.engine import Engine
from sqlengine.engine.requests import Outcome
from sqlengine.system.hidden import hidden_in_sql


class LocalJobs(JobAccess):
    """Asks an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self) -> list[JobInfo]:
        """See `JobAccess`."""
        rows = self._engine.rows_by_job()
        return [
            JobInfo(
                j.name, j.version, j.state.value, j.origin.value, j.graph, j.reason, rows[j.name]
            )
            for j in self._engine.jobs()
        ]

    def defines(self) -> dict[str, tuple[str, ...]]:
        """See `JobAccess`."""
        return {job.name: tuple(job.defines) for job in self._engine.jobs()}

    def rules(self) -> list[Rule]:
        """See `JobAccess`."""
        rows = self._engine.rows_by_job()
        heads = ((job, rule_in(job.settings)) for job in self._engine.jobs())
        return [
            rule_of(job.name, job.state.value, rows[job.name], asdict(head))
            for job, head in heads
            if head is not None
        ]

    def submit(self, name: str, sql: str) -> JobResult:
        """See `JobAccess`."""
        return local_result(self._engine.submit(name, sql))

    def validate(self, name: str, sql: str) -> JobResult:
        """See `JobAccess`."""
        return local_result(self._engine.validate(name, sql))

    def remove(self, name: str) -> JobResult:
        """See `JobAccess`."""
        return local_result(self._engine.remove(name))

    def history(self, name: str) -> list[Version]:
        """See `JobAccess`."""
        return [
            Version(v.version, moment(v.created_ms), v.origin.value, v.by or None, masked(v.sql))
            for v in self._engine.history(name)
        ]

    def rollback(self, name: str, version: int) -> JobResult:
        """See `JobAccess`."""
        return local_result(self._engine.rollback(name, version))

    def start(self, name: str) -> JobResult:
        """See `JobAccess`."""
        return local_result(self._engine.start_job(name))

    def stop(self, name: str) -> JobResult:
        """See `JobAccess`."""
        return local_result(self._engine.stop_job(name))

    def explain(self, name: str) -> Plan:
        """See `JobAccess`."""
        return Plan(hidden_in_sql(self._engine.explain(name)))

    def positions(self, name: str) -> list[ShardPosition]:
        """See `JobAccess`."""
        progress = self._engine.progress.of(self._engine.job(name), settled=True)
        return [
            ShardPosition(t.table, s.shard, s.offset, s.end, t.ended)
            for t in progress.tables
            for s in t.shards
        ]


def local_result(outcome: Outcome) -> JobResult:
    """Returns the outcome of a request."""
    return JobResult(outcome.name, outcome.status, outcome.version)
