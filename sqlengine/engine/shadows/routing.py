"""Texts that are to run as shadows go to jobs of their own, beside those of their rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from sqlengine.access.shadow_names import is_shadow, shadow_of
from sqlengine.engine.requests import Outcome, Request
from sqlengine.jobs.job import JobVersion, Origin
from sqlengine.jobs.planning import JobText
from sqlengine.jobs.shadow_plans import is_shadow_text
from sqlengine.registry import LIVE, Registry

T = TypeVar("T")


class ShadowRouting:
    """Sorts the texts of requests, in the thread that makes changes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def routed(self, request: Request) -> Request:
        """Returns the request with the names of the jobs that run its texts, or are removed."""
        moved = {new for old, new in request.renames.items() if old in self._registry.log.jobs}
        texts = {n: t for n, t in request.upserts.items() if n not in moved}
        to = {n: shadow_of(n) for n, t in texts.items() if self._is_shadow(request, t)}
        alone = {n: shadow_of(n) for n in request.removes if self._is_alone(n)}
        left = {shadow_of(old) for old in request.renames if self._is_alone(old)}
        if not to and not alone and not left:
            return request
        return replace(
            request,
            upserts={to.get(n, n): _named(t, to.get(n, n)) for n, t in request.upserts.items()},
            removes=frozenset(alone.get(n, n) for n in request.removes) | left,
            savepoints=_renamed(request.savepoints, to),
            targets=_renamed(request.targets, to),
            owners=_renamed(request.owners, to),
        )

    def told(self, request: Request, outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """Returns the outcomes of the request as it was: of shadows by the names of their rules."""
        found = {n: o for n, o in outcomes.items() if not is_shadow(n)}
        for name in (*request.upserts, *request.removes):
            outcome = outcomes.get(name) or outcomes[shadow_of(name)]
            found[name] = replace(outcome, name=name, status=_status(request, outcome))
        return found

    def ended(self, text: JobText, origin: Origin) -> JobVersion | None:
        """Returns the last version of a rule, where it was a shadow that has ended, and the watched
        folder, which brings its texts with every start, brings that again."""
        versions = self._registry.log.versions_of(text.name)
        if origin is not Origin.FOLDER or not is_shadow(text.name) or not versions:
            return None
        last = versions[max(versions)]
        return last if last.fate and last.sql == text.sql else None

    def _is_shadow(self, request: Request, text: JobText) -> bool:
        """True if a text is to run as a shadow, and is not that of the live version already."""
        if request.live or text.promotes or is_shadow(text.name) or not is_shadow_text(text.sql):
            return False
        live = self._registry.log.jobs.get(text.name)
        if live is None or live.state not in LIVE:
            return True
        return not self._registry.has_text(self._registry.version(live), text, request.origin)

    def _is_alone(self, name: str) -> bool:
        """True if a rule has a shadow and no live version."""
        jobs = self._registry.log.jobs
        return name not in jobs and shadow_of(name) in jobs


def _status(request: Request, outcome: Outcome) -> str:
    if outcome.status not in ("added", "replaced"):
        return outcome.status
    text = request.upserts.get(outcome.name)
    if text is not None and text.promotes:
        return "promoted"
    return "shadowed" if is_shadow(outcome.name) else outcome.status


def _named(text: JobText, name: str) -> JobText:
    return text if text.name == name else replace(text, name=name)


def _renamed(by_name: Mapping[str, T], to: Mapping[str, str]) -> dict[str, T]:
    return {to.get(name, name): value for name, value in by_name.items()}
