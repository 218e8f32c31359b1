"""Records that `sql why` is given, and what else of a server it needs: texts of jobs as they were,
and the broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from parser.errors import JobError
from sqlengine.access.shadow_names import is_shadow, rule_of
from sqlengine.cli.outcomes import items_of
from sqlengine.cli.rules.server_texts import jobs_of, needed_by, objects_of
from sqlengine.cli.texts import Texts, job_texts, tables_above
from sqlengine.client import Client, Json, job_url

if TYPE_CHECKING:
    from sqlengine.broker.remote.client import RemoteBroker
    from sqlengine.trial.recorded import Place


def place_of(text: str) -> Place:
    """Returns the place that TOPIC@OFFSET or TOPIC:SHARD@OFFSET names. JobError for another
    text."""
    from sqlengine.trial.recorded import Place

    topic, at, offset = text.rpartition("@")
    name, _, shard = topic.partition(":")
    if not at or not name or not offset.isdigit() or not (shard or "0").isdigit():
        raise JobError(
            f"'{text}' is no event",
            hint='write an object of JSON, \'{"host": "a"}\', or a record as TOPIC@OFFSET',
        )
    return Place(name, int(shard or "0"), int(offset))


def check_record(client: Client, place: Place) -> str:
    """Returns the value of a record. JobError where it is not there any more, or yet."""
    body = client.get(
        f"/api/v1/topics/{place.topic}/records",
        offset=place.offset,
        limit=1,
        shard=str(place.shard),
    )
    found = [r for r in items_of(body, "records") if r["offset"] == place.offset]
    if not found:
        raise JobError(
            f"topic '{place.topic}' has no record at offset {place.offset} any more, or yet"
        )
    return str(found[0]["value"])


@contextmanager
def broker_of(client: Client) -> Iterator[RemoteBroker]:
    """Opens the broker of a server."""
    from sqlengine.broker.remote.client import connect

    broker = connect(client.server, client.token, client.tls)
    try:
        yield broker
    finally:
        broker.close()


def texts_of_file(rule: str, define: Sequence[str]) -> tuple[Texts, Texts]:
    """Returns the text of a rule in a file, and those of the tables above it."""
    return job_texts([rule], None, define), tables_above([rule], define)


def job_texts_at(client: Client, name: str, until: int | None) -> tuple[Texts, Texts, int]:
    """Returns the text that a job had at a time (ms; None: has now), those of the jobs that define
    what it needs, and since when the job has been there (ms). RULE@shadow is the rule's shadow."""
    rule = rule_of(name)
    versions = items_of(client.get(f"{job_url(rule)}/history"), "versions")
    shadows = [v for v in versions if v["shadow"] and not v["fate"]]
    live = [v for v in versions if not v["shadow"] or _promoted(v)]
    if is_shadow(name) and not shadows:
        raise JobError(
            f"job '{rule}' has no shadow", hint=f"'sql history {rule}' lists its versions"
        )
    found = (shadows if is_shadow(name) else live) or versions
    before = [v for v in found if until is None or _time(v) <= until] or found
    text = str(max(before, key=_time)["sql"])
    return {rule: (None, text)}, needed_by(client, [name]), min(map(_time, versions))


def _promoted(version: dict[str, object]) -> bool:
    return str(version["fate"] or "").startswith("promoted")


def _time(version: dict[str, object]) -> int:
    """Returns since when a version has been live (ms), or a shadow that never was has run."""
    return int(str(version["fate_ms" if _promoted(version) else "created_ms"]))


def jobs_named_in(client: Client, values: set[str]) -> list[str]:
    """Returns the jobs of a server that run or ran whose name, title or id is among these values,
    as those of a rule's alerts usually have them."""
    return [name for name, job in _rules_of(client).items() if _said(job) & values]


def jobs_over(client: Client, topic: str) -> list[str]:
    """Returns the jobs of a server that run or ran; those with tables over the topic come first."""
    jobs, tables = _rules_of(client), _tables_over(client, topic)
    return sorted(jobs, key=lambda name: not tables & objects_of(jobs[name]))


def _rules_of(client: Client) -> dict[str, Json]:
    jobs = jobs_of(client).items()
    return {n: job for n, job in jobs if job["state"] != "defined" and not is_shadow(n)}


def _tables_over(client: Client, topic: str) -> set[str]:
    """The names of what texts define that speak of a topic."""
    found: set[str] = set()
    for name, job in jobs_of(client).items():
        if job["defines"] and f"'{topic}'" in str(client.get(job_url(name))["sql"]):
            found |= objects_of(job)
    return found


def _said(job: dict[str, object]) -> set[str]:
    rule = job.get("rule")
    told = [rule.get("title"), rule.get("id")] if isinstance(rule, dict) else []
    return {str(job["name"]), *(str(t) for t in told if t)}
