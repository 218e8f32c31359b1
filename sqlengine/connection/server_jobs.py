"""Jobs of a server, over HTTP."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from sqlengine.client import Client, Json, job_url
from sqlengine.connection.jobs import (
    JobAccess,
    JobInfo,
    JobResult,
    Plan,
    Rule,
    ShardPosition,
    Version,
)

_JOBS: Final = "/api/v1/jobs"


class ServerJobs(JobAccess):
    """Asks a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def all(self) -> list[JobInfo]:
        """See `JobAccess`."""
        fields = JobInfo.__match_args__
        return [JobInfo(**{field: job[field] for field in fields}) for job in self._listed()]

    def defines(self) -> dict[str, tuple[str, ...]]:
        """See `JobAccess`."""
        return {job["name"]: tuple(job["defines"]) for job in self._listed()}

    def rules(self) -> list[Rule]:
        """See `JobAccess`."""
        return [
            rule_of(j["name"], j["state"], j["rows"], j["rule"])
            for j in self._listed()
            if j["rule"] is not None
        ]

    def _listed(self) -> list[dict[str, Any]]:
        jobs = self._client.get(_JOBS)["jobs"]
        assert isinstance(jobs, list)
        return jobs

    def submit(self, name: str, sql: str) -> JobResult:
        """See `JobAccess`."""
        return result_of(self._client.put(job_url(name), sql.encode()))

    def validate(self, name: str, sql: str) -> JobResult:
        """See `JobAccess`."""
        return result_of(self._client.put(job_url(name), sql.encode(), dry_run="true"))

    def remove(self, name: str) -> JobResult:
        """See `JobAccess`."""
        return result_of(self._client.delete(job_url(name)))

    def history(self, name: str) -> list[Version]:
        """See `JobAccess`."""
        found: Any = self._client.get(f"{job_url(name)}/history")["versions"]
        return [
            Version(v["version"], moment(v["created_ms"]), v["origin"], v["by"], v["sql"])
            for v in found
        ]

    def rollback(self, name: str, version: int) -> JobResult:
        """See `JobAccess`."""
        return result_of(self._client.post(f"{job_url(name)}/rollback", version=version))

    def start(self, name: str) -> JobResult:
        """See `JobAccess`."""
        return result_of(self._client.post(f"{job_url(name)}/start"))

    def stop(self, name: str) -> JobResult:
        """See `JobAccess`."""
        return result_of(self._client.post(f"{job_url(name)}/stop"))

    def explain(self, name: str) -> Plan:
        """See `JobAccess`."""
        return Plan(self._client.get_text(f"{job_url(name)}/explain"))

    def positions(self, name: str) -> list[ShardPosition]:
        """See `JobAccess`."""
        tables: Any = self._client.get(job_url(name), settled="true")["tables"]
        return [
            ShardPosition(t["table"], s["shard"], s["offset"], s["end"], t["ended"])
            for t in tables
            for s in t["shards"]
        ]


def result_of(body: Json) -> JobResult:
    """Returns the outcome of a request."""
    version = body["version"]
    assert isinstance(version, int)
    return JobResult(str(body["name"]), str(body["status"]), version)


def moment(ms: int) -> dt.datetime:
    """Returns a time since 1970."""
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)


def rule_of(name: str, state: str, rows: int, head: Mapping[str, Any]) -> Rule:
    """Returns a rule by the fields of its head, as JSON has them."""
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in head.items()}
    return Rule(name, state, rows, **fields)
