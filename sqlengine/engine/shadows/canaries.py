"""Canaries: shadows that become live by themselves after a time, or are withdrawn, as their rows
say.

The time counts while the server runs and both versions do. It is noted in the job log, so that a
restart goes on where it was."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import floor
from typing import Final, TypeAlias

from parser.canary import LEAST, Canary, canary_of
from planner.rule_settings import rule_in
from sqlengine.access.jwt_tokens import PREFIX as JWT
from sqlengine.access.principals import NOBODY, TRUSTED, Principal
from sqlengine.access.shadow_names import is_shadow, rule_of
from sqlengine.engine.requests import Outcome, Request
from sqlengine.engine.shadows.rows import RowCounts
from sqlengine.engine.watch.watch import Watch
from sqlengine.jobs.job import AT_REST, Job, JobState
from sqlengine.registry import Registry, text_of
from sqlengine.system.words import count, span

EVERY_S: Final = 1.0
# How far a canary has come is noted after this share of its time, and this time (ms) at least.
_SHARE, _LEAST_NOTED_MS = 60, 1_000
log = logging.getLogger("sqlengine")

# Makes a change, in the thread that makes changes.
Change: TypeAlias = Callable[[Request], Mapping[str, Outcome]]


@dataclass(frozen=True)
class Verdict:
    """The fate of a canary, and the reason."""

    promoted: bool
    reason: str


def verdict(canary: Canary, shadow: int, live: int, ran_ms: float) -> Verdict | None:
    """Returns what becomes of a canary with so many rows after `ran_ms`; None while nobody
    knows."""
    ran, whole = span(ran_ms), span(canary.duration_ms)
    most = canary.bound_so_far(live, round(ran_ms))
    if most is not None and shadow > most:
        why = f"{count(shadow, 'row')} in {ran}, more than {_bound(canary, live, ran_ms)}"
        return Verdict(False, f"rolled back by its canary: {why}")
    if ran_ms < canary.duration_ms:
        return None
    beside = f", {live:,} of the live version" if live else ""
    return Verdict(True, f"promoted by its canary: {count(shadow, 'row')} in {whole}{beside}")


def _bound(canary: Canary, live: int, ran_ms: float) -> str:
    """The rows that a canary may give, in words: by what the live version has given, or would have
    at the end."""
    whole = span(canary.duration_ms)
    if canary.ratio is None:
        return f"{floor(canary.bound(live) or 0):,} in {whole}"
    counted = "" if live >= LEAST else f", which count as {LEAST}"
    times = f"{canary.ratio:g} times the {live:,} of the live version{counted}"
    return times if ran_ms >= canary.duration_ms else f"{times}, at that rate until {whole}"


class Canaries(Watch):
    """Looks after the canaries of one engine. After `start` it does so every EVERY_S, in the thread
    that makes changes. `tell` hears what has become of one: rule, version, verdict."""

    name = "canaries"
    every_s = EVERY_S
    fault = "canaries could not be looked at"

    def __init__(self, registry: Registry, change: Change, now: Callable[[], float]) -> None:
        self._registry = registry
        self._change = change
        self._now = now
        self._counts = RowCounts(registry.broker)
        # By job and version: how long it has run (ms), and when that was looked at (s).
        self._ran: dict[tuple[str, int], tuple[float, float]] = {}
        self._obstacles: dict[str, str] = {}
        self.tell: Callable[[str, int, Verdict], None] = lambda rule, version, verdict: None

    def _canaries(self) -> dict[str, tuple[Job, Canary]]:
        jobs = [j for j in list(self._registry.log.jobs.values()) if is_shadow(j.name)]
        rules = ((job, rule_in(job.settings)) for job in jobs)
        return {j.name: (j, canary_of(rule.canary)) for j, rule in rules if rule and rule.canary}

    def is_due(self) -> bool:
        return bool(self._canaries())

    def check(self) -> None:
        """Lets canaries become live, or withdraws them, that are due."""
        canaries = self._canaries()
        self._ran = {k: v for k, v in self._ran.items() if k[0] in canaries}
        if not canaries:
            return
        versions = [self._registry.version(job) for job, _ in canaries.values()]
        self._counts.refresh(min(v.created_ms for v in versions))
        for job, canary in canaries.values():
            found = self._verdict(job, canary)
            if found is not None:
                self._carry_out(job, found)

    def _verdict(self, job: Job, canary: Canary) -> Verdict | None:
        if job.state in (JobState.FAILED, JobState.RESTARTING):
            return Verdict(False, f"rolled back by its canary: it failed: {job.reason}")
        ran_ms = self._advance(job, canary)
        shadow, live = self._counts.of(rule_of(job.name), job.version)
        return verdict(canary, shadow, live, ran_ms)

    def _advance(self, job: Job, canary: Canary) -> float:
        """Returns how long a canary has run (ms), and notes it now and then."""
        key, now = (job.name, job.version), self._now()
        ran_ms, looked = self._ran.get(key, (float(job.ran_ms), now))
        if self._runs(job):
            ran_ms += (now - looked) * 1_000
        self._ran[key] = ran_ms, now
        if ran_ms - job.ran_ms >= max(canary.duration_ms / _SHARE, _LEAST_NOTED_MS):
            noted = {job.name: replace(job, ran_ms=round(ran_ms))}
            self._registry.log.write(noted, self._registry.clock())
        return ran_ms

    def _runs(self, job: Job) -> bool:
        """True if a canary runs, and the live version too, if there is one."""
        live = self._registry.log.jobs.get(rule_of(job.name))
        beside = live is None or live.state in (JobState.RUNNING, *AT_REST)
        return job.state is JobState.RUNNING and beside

    def _owner(self, name: str) -> Principal:
        """Returns whose rights a canary has that becomes live: those of who has submitted it. One
        that is not known any more has none; a token of a provider ends, and what it was allowed
        holds."""
        known = self._registry.access.named(name)
        return known or (TRUSTED if name.startswith(JWT) else NOBODY)

    def _carry_out(self, job: Job, found: Verdict) -> None:
        """Makes the change; what is in its way is logged once, and it is tried again."""
        rule = rule_of(job.name)
        version = self._registry.version(job)
        by = self._owner(version.by)
        request = Request(version.origin, removes=frozenset({job.name}), reason=found.reason)
        if found.promoted:
            texts = {rule: replace(text_of(version), promotes=version.version)}
            request = Request(version.origin, texts, by=by, reason=found.reason).signed()
        (outcome,) = self._change(request).values()
        if outcome.error is not None:
            if self._obstacles.get(job.name) != str(outcome.error):
                log.warning("canary of %s: %s: %s", rule, found.reason, outcome.error)
            self._obstacles[job.name] = str(outcome.error)
            return
        self._obstacles.pop(job.name, None)
        log.info("%s, version %d: %s", rule, version.version, found.reason)
        self.tell(rule, version.version, found)
