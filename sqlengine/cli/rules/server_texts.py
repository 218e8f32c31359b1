"""The texts of jobs of a server, with what they need."""

from __future__ import annotations

from collections.abc import Collection

from sqlengine.cli.outcomes import items_of
from sqlengine.cli.texts import Texts
from sqlengine.client import Client, Json, job_url


def jobs_of(client: Client) -> dict[str, Json]:
    """Returns all jobs of a server by their names."""
    return {str(j["name"]): j for j in items_of(client.get("/api/v1/jobs"), "jobs")}


def objects_of(job: Json) -> set[str]:
    """Returns the names of what a job defines, and of what it uses of others."""
    return _names(job.get("uses")) | _names(job.get("defines"))


def texts_of(client: Client, names: Collection[str]) -> tuple[Texts, Texts]:
    """Returns the texts of jobs, and those of the jobs that define what they need."""
    return {name: (None, _text(client, name)) for name in names}, needed_by(client, names)


def needed_by(client: Client, names: Collection[str]) -> Texts:
    """Returns the texts of the jobs that define what these need; of all, for one that is not there
    any more, of which nobody knows what it used."""
    jobs, needed, waiting = jobs_of(client), Texts(), list(names)
    while waiting:
        job = jobs.get(waiting.pop())
        uses = set[str]().union(*map(objects_of, jobs.values())) if job is None else _used(job)
        for other, job in jobs.items():
            if other not in needed and other not in names and uses & _names(job["defines"]):
                needed[other] = None, _text(client, other)
                waiting.append(other)
    return needed


def _used(job: Json) -> set[str]:
    return _names(job.get("uses"))


def _text(client: Client, name: str) -> str:
    return str(client.get(job_url(name))["sql"])


def _names(value: object) -> set[str]:
    return set(map(str, value)) if isinstance(value, list) else set()
