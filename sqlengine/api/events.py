"""Server-sent events, for who accepts `text/event-stream`: rows of a query, and changes of jobs.

    GET /api/v1/queries/ID     event `rows`: a page, its id is its number; `end`: the last page
    GET /api/v1/jobs           event `job`: a job as it is now; `removed`: one that is gone

A stream takes a thread of the lane for requests that wait, and leaves it soon after its reader has
gone, or has lost the right to it. It is over after an hour at the latest: clients go on by
themselves, from the id of the last event (Last-Event-ID)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Self

from flask import Response, request

from parser.errors import SqlError
from sqlengine.access.policy import Action, allows
from sqlengine.access.principals import Principal
from sqlengine.api.principal import present_rights
from sqlengine.api.problems import describe
from sqlengine.api.serving.admission import HUNG_UP
from sqlengine.api.serving.lanes import EVENTS
from sqlengine.engine import Engine
from sqlengine.jobs.job import Job
from sqlengine.queries.page import about_page
from sqlengine.queries.query import Query

_TURN_S: Final = 0.25
_SILENT_S: Final = 10.0
_LONGEST_S: Final = 3600.0
# A line without an event shows both ends that the other one is there.
_ALIVE: Final = b":\n\n"


def wants_events() -> bool:
    """Returns whether who asks takes events in the place of an answer."""
    return EVENTS in request.headers.get("Accept", "")


def stream(events: Iterator[bytes]) -> Response:
    """Returns a response of events, whose head is sent at once: a server sends none before the
    first part of a body."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(chain((_ALIVE,), events), mimetype=EVENTS, headers=headers)


@dataclass
class _Reader:
    """The reader of a stream: `rights` tells who that is, `hung_up` whether the connection is
    closed, or its side of it. `told`: when something was last sent to him."""

    rights: Callable[[], Principal]
    hung_up: Callable[[], bool]
    told: float = field(default_factory=time.monotonic)
    ends: float = field(default_factory=lambda: time.monotonic() + _LONGEST_S)

    @classmethod
    def present(cls) -> Self:
        """Returns who has made the present request."""
        return cls(present_rights(), request.environ.get(HUNG_UP, lambda: False))

    def sent(self, event: bytes) -> bytes:
        """Returns an event, which is sent now."""
        self.told = time.monotonic()
        return event

    @property
    def waits(self) -> bool:
        """True if he is to be told that the stream lives. Who has hung up is told at once: if he is
        gone, and has not only said that he asks nothing more, the next one cannot be sent."""
        return self.hung_up() or time.monotonic() - self.told > _SILENT_S


def events_of_query(query: Query, wait_s: float) -> Iterator[bytes]:
    """Returns the pages of a query behind the one that the client has, as events."""
    last = request.headers.get("Last-Event-ID", "")
    token = int(last) + 1 if last.isascii() and last.isdigit() else 0
    return _pages(query, token, wait_s, _Reader.present())


def _pages(query: Query, token: int, wait_s: float, reader: _Reader) -> Iterator[bytes]:
    while time.monotonic() < reader.ends:
        try:
            page = query.buffer.page(token, wait_s)
            reader.rights()
        except SqlError as error:
            yield _event("error", describe(error))
            return
        if page.rows or page.next is None:
            body = about_page(query, page) | {"rows": [[k, values] for k, values in page.rows]}
            kind = "rows" if page.next is not None else "end"
            yield reader.sent(_event(kind, body, str(page.token)))
        elif reader.waits:
            yield reader.sent(_ALIVE)
        if page.next is None:
            return
        token = page.next


def events_of_jobs(engine: Engine, stopping: Callable[[], bool]) -> Iterator[bytes]:
    """Returns all jobs that who asks may see, and then each change of them, as events."""
    return _jobs(engine, stopping, _Reader.present())


def _jobs(engine: Engine, stopping: Callable[[], bool], reader: _Reader) -> Iterator[bytes]:
    known: dict[str, Job] = {}
    while time.monotonic() < reader.ends and not stopping():
        try:
            by = reader.rights()
        except SqlError as error:
            yield _event("error", describe(error))
            return
        jobs = {j.name: j for j in engine.jobs() if allows(by, Action.SEE_JOB, j.name)}
        events = list(_changes(known, jobs))
        if not events and reader.waits:
            events = [_ALIVE]
        if events:
            yield reader.sent(b"".join(events))
        known = jobs
        time.sleep(_TURN_S)


def _changes(before: Mapping[str, Job], after: Mapping[str, Job]) -> Iterator[bytes]:
    for name, job in after.items():
        if before.get(name) is not job:
            yield _event("job", _job_json(job))
    for name in before.keys() - after.keys():
        yield _event("removed", {"name": name})


def _job_json(job: Job) -> dict[str, object]:
    return {
        "name": job.name,
        "version": job.version,
        "state": job.state.value,
        "reason": job.reason,
        "graph": job.graph,
        "changed_ms": job.changed_ms,
    }


def _event(kind: str, data: object, identity: str | None = None) -> bytes:
    """Returns an event; JSON has no line breaks."""
    head = "" if identity is None else f"id: {identity}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
