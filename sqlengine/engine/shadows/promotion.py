"""Promotion: a shadow takes the place of the live version, with its state, between two epochs."""

from __future__ import annotations

from collections.abc import Mapping

from parser.errors import JobError
from sqlengine.access.shadow_names import rule_of, shadow_of
from sqlengine.formats.options import did_you_mean
from sqlengine.jobs.job import AT_REST, Job, JobState
from sqlengine.jobs.planning import JobText


def shadow_job(rule: str, jobs: Mapping[str, Job]) -> Job:
    """Returns the job that runs the shadow of a rule. JobError where there is none."""
    shadow = jobs.get(shadow_of(rule))
    if shadow is None and rule in jobs:
        hint = "submit a text with 'status: shadow' in its head"
        raise JobError(f"job '{rule}' has no shadow", hint=hint)
    if shadow is None:
        hint = did_you_mean(rule, {rule_of(name) for name in jobs}) or "'sql jobs' lists all"
        raise JobError(f"job '{rule}' does not exist, and has no shadow", hint=hint)
    return shadow


def check_promotion(text: JobText, jobs: Mapping[str, Job]) -> None:
    """Raises JobError for a shadow that cannot become live now."""
    rule, live = text.name, jobs.get(text.name)
    shadow = shadow_job(rule, jobs)
    if shadow.version != text.promotes:
        raise JobError(f"version {text.promotes} of job '{rule}' is no shadow any more")
    if shadow.state is not JobState.RUNNING:
        raise _refusal(rule, f"the shadow is {shadow.state.value}", f"'sql start {shadow.name}'")
    if live is None or live.state in (*AT_REST, JobState.WAITING):
        return
    if live.state is not JobState.RUNNING:
        hint = f"'sql start {rule}', or remove it: the shadow stays then, and may become live"
        raise _refusal(rule, f"the live version is {live.state.value}, and keeps its rows", hint)
    if live.graph != shadow.graph:
        raise _refusal(
            rule,
            f"the live version runs in graph '{live.graph}', the shadow in '{shadow.graph}'",
            f"try again once they are merged: 'sql merge {rule}', 'sql merge {shadow.name}'",
        )


def _refusal(rule: str, detail: str, hint: str) -> JobError:
    return JobError(f"the shadow of job '{rule}' cannot become live now", detail=detail, hint=hint)
