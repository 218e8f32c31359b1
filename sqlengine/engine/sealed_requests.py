"""Requests without the passwords in their texts, and the outcomes for who has written them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from parser.errors import SqlError
from sqlengine.engine.requests import Outcome, Request
from sqlengine.jobs.planning import JobText
from sqlengine.jobs.sealing import SealedText
from sqlengine.registry import Registry

log = logging.getLogger("sqlengine")


@dataclass(frozen=True)
class SealedRequest:
    """A request whose texts have no passwords. `texts`: how each came about; `refused`: those whose
    masks stand for nothing, which it has no more."""

    request: Request
    texts: Mapping[str, SealedText]
    refused: Mapping[str, Outcome]

    def told(self, outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """Returns outcomes with the places in the texts as they were written, and a warning of each
        password in them."""
        return {**{n: self._told(n, o) for n, o in outcomes.items()}, **self.refused}

    def _told(self, name: str, outcome: Outcome) -> Outcome:
        sealed = self.texts.get(name)
        if sealed is None:
            return outcome
        if sealed.warning is not None and outcome.status in ("added", "replaced"):
            log.warning("job %s: %s", name, sealed.warning)
        error = None if outcome.error is None else sealed.told(outcome.error)
        return replace(outcome, error=error, warnings=sealed.warnings(outcome.warnings))


@contextmanager
def sealed_request(registry: Registry, request: Request) -> Iterator[SealedRequest]:
    """Takes the passwords out of a request for the time in which it is carried out. Any thread."""
    texts, refused = dict[str, SealedText](), dict[str, Outcome]()
    try:
        for name, text in request.upserts.items():
            try:
                texts[name] = registry.sealing.sealed(text, _present(registry, request, name))
            except SqlError as error:
                refused[name] = Outcome(name, "refused", error=error.in_file(text.file))
        yield SealedRequest(_with(request, texts, refused), texts, refused)
    finally:
        for sealed in texts.values():
            registry.sealing.end(sealed.given, registry.log.texts())


def _present(registry: Registry, request: Request, name: str) -> str:
    """Returns the present text of a job, perhaps under the name that it has had until now."""
    old = next((o for o, new in request.renames.items() if new == name), name)
    job = registry.log.jobs.get(old) or registry.log.jobs.get(name)
    return "" if job is None else registry.version(job).sql


def _with(
    request: Request, texts: Mapping[str, SealedText], refused: Mapping[str, Outcome]
) -> Request:
    """Returns the request with other texts, without those that are refused; itself where all stay
    as they are."""
    changed: dict[str, JobText] = {n: s.text for n, s in texts.items()}
    if not refused and changed == request.upserts:
        return request
    renames = {old: new for old, new in request.renames.items() if new not in refused}
    return replace(request, upserts=changed, renames=renames)
