"""The fate of a shadow when its rule, or what it reads, changes."""

from __future__ import annotations

from collections.abc import Mapping

from sqlengine.access.shadow_names import is_shadow, rule_of
from sqlengine.engine.work import Work
from sqlengine.jobs.job import Job


def fates(work: Work, jobs: Mapping[str, Job]) -> dict[str, str]:
    """Returns the shadows that end with a change that is planned, each with the reason."""
    shadows = filter(is_shadow, jobs)
    return {n: why for n in shadows if (why := _fate(work, jobs[n])) is not None}


def _fate(work: Work, shadow: Job) -> str | None:
    """Returns why a shadow ends; None for one that runs on."""
    name, rule, request = shadow.name, rule_of(shadow.name), work.request
    who = request.by.name or request.origin.value
    if name in work.removes:
        return request.reason or f"withdrawn by {who}"
    if name in work.ready:
        return "replaced by another shadow"
    text = work.texts.get(rule)
    if rule in work.ready and text is not None:
        promoted = request.reason or f"promoted by {who}"
        return promoted if text.promotes else "a version was submitted as live"
    if rule in work.ready:
        return "the live version was planned anew, over other definitions"
    if rule in work.gone:
        return "the live version was renamed or removed"
    changed = sorted(work.causes.keys() & set(shadow.uses))
    return f"'{changed[0].rsplit('.', 1)[-1]}' is defined differently now" if changed else None
