"""Jobs, their versions and the outcomes of changes as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from msgspec import to_builtins

from parser.canary import canary_of
from planner.rule_settings import Rule, rule_in
from sqlengine.access.shadow_names import is_shadow
from sqlengine.api.problems import describe_refusal
from sqlengine.broker.auto_create import NewTopic
from sqlengine.config import Target
from sqlengine.connectors.plain_secrets import masked
from sqlengine.engine.requests import Outcome
from sqlengine.engine.views.family_views import FamilyView
from sqlengine.executors.job_counts import JobCounts
from sqlengine.jobs.job import Job, JobState, JobVersion
from sqlengine.system.hidden import hidden


def outcome_json(outcome: Outcome) -> dict[str, object]:
    """Returns the outcome of a request for a job, as JSON."""
    body: dict[str, object] = {
        "name": outcome.name,
        "status": outcome.status,
        "version": outcome.version,
    }
    if outcome.error is not None:
        body["error"] = describe_refusal(outcome.error)
    if outcome.savepoint is not None:
        body["savepoint"] = outcome.savepoint
    if outcome.state:
        body["state"] = [
            {"operator": s.operator, "outcome": s.outcome, "reason": s.reason}
            for s in outcome.state
        ]
    if outcome.topics:
        body["topics"] = [_topic_json(t, created=outcome.status != "valid") for t in outcome.topics]
    if outcome.deliveries:
        body["sinks"] = [d.as_json() for d in outcome.deliveries]
    if outcome.warnings:
        body["warnings"] = list(outcome.warnings)
    if outcome.dependents:
        body["dependents"] = [outcome_json(o) for o in outcome.dependents]
    return body


def _topic_json(topic: NewTopic, *, created: bool) -> dict[str, object]:
    """Returns a topic that a job's table needs and that was missing, as JSON."""
    body: dict[str, object] = {
        "name": topic.name,
        "shards": topic.shards,
        "retention_ms": topic.retention_ms,
        "compacted": topic.compacted,
        "created": created,
        "text": str(topic),
    }
    return body if topic.similar is None else body | {"similar": topic.similar}


def job_json(
    job: Job,
    version: JobVersion,
    counts: JobCounts,
    hint: str | None = None,
    *,
    target: Target,
    cost_s: float = 0.0,
    families: Sequence[FamilyView] = (),
) -> dict[str, object]:
    """Returns a job with its present version as JSON. `counts`: over all its versions and restarts;
    `hint`: what is perhaps wrong with it; `target`: where its graph runs; `cost_s`: the time of its
    operators since the server started; `families`: those in which it runs."""
    rule = rule_in(job.settings)
    return {
        "name": job.name,
        "version": job.version,
        "state": job.state.value,
        "origin": job.origin.value,
        "by": version.by or None,
        "file": version.file,
        "changed_ms": job.changed_ms,
        "reason": None if job.reason is None else hidden(job.reason),
        "hint": hint,
        "restarts": job.restarts,
        "next_ms": job.next_ms if job.state is JobState.RESTARTING else None,
        "position": "kept" if job.kept else None,
        "graph": job.graph,
        "target": target,
        "isolated": job.cause.value,
        "rows": counts.rows,
        "version_rows": counts.version_rows if counts.version == job.version else 0,
        "late_rows": counts.late_rows,
        "held_back": counts.held_back,
        "dead_letters": counts.dead_letters,
        "cost_s": round(cost_s, 3),
        "families": to_builtins(families),
        "defines": list(job.defines),
        "uses": list(job.uses),
        "rule": None if rule is None else asdict(rule),
        "canary": _canary_json(job, rule),
    }


def _canary_json(job: Job, rule: Rule | None) -> dict[str, object] | None:
    """Returns the canary of a shadow, with how long it has run as far as that has been noted."""
    if rule is None or not rule.canary or not is_shadow(job.name):
        return None
    duration_ms = canary_of(rule.canary).duration_ms
    return {"text": rule.canary, "ran_ms": job.ran_ms, "duration_ms": duration_ms}


def version_json(version: JobVersion) -> dict[str, object]:
    return {
        "version": version.version,
        "created_ms": version.created_ms,
        "origin": version.origin.value,
        "by": version.by or None,
        "file": version.file,
        "follows": list(version.follows),
        "shadow": version.shadow,
        "beside": version.beside or None,
        "fate": version.fate or None,
        "fate_ms": version.fate_ms or None,
        "sql": masked(version.sql),
    }
