"""Tells the audit log of requests: changes each, reads of data and refusals, appends and reads of
topics by their numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from flask import Flask, Response, g, request

from parser.errors import ServiceError
from sqlengine.access.audit.log import Audit, AuditFull, Event
from sqlengine.access.policy import Forbidden
from sqlengine.api.permissions import NEEDS
from sqlengine.api.principal import present_principal
from sqlengine.api.problems import problem
from sqlengine.api.serving.admission import PEER, Admit, Head, Peer, Refusal
from sqlengine.broker.remote.wire import Append, AppendAll, ReadAll, Request, appends_of
from sqlengine.broker.topic_access import COMMANDS

_RECORDS: Final = "/api/v1/topics/<name>/records"
_QUERIES: Final = "/api/v1/queries"
_BROKER: Final = "/api/v1/broker"
_JOB: Final = "/api/v1/jobs/<name>"
# Reads of data; others tell of jobs and topics, and not what is in them.
_READS: Final = frozenset(
    {
        ("GET", _RECORDS),
        ("GET", "/api/v1/dead-letters"),
        ("GET", f"{_JOB}/dead-letters"),
        ("GET", f"{_JOB}/state/<int:operation>"),
        ("POST", _QUERIES),
    }
)
# Those that change nothing for others although they are no GET.
_OWN: Final = frozenset(
    {
        ("DELETE", "/api/v1/queries/<query>"),
        ("POST", "/api/v1/sessions"),
        ("DELETE", "/api/v1/sessions/<session>"),
    }
)
_REFUSED: Final = (401, 403)


@dataclass
class Note:
    """The object and the text of a request, which its route does not tell; whether the audit log
    knows of it already."""

    object: str = ""
    detail: str = ""
    told: bool = False


def note(subject: str = "", detail: str = "") -> None:
    """Notes the object of the request, or its text, for the audit log."""
    known = _note()
    known.object, known.detail = subject or known.object, detail or known.detail


def told() -> None:
    """Notes that the audit log knows of the request."""
    _note().told = True


def _note() -> Note:
    if "audit_note" not in g:
        g.audit_note = Note()
    found: Note = g.audit_note
    return found


def audited(admit: Admit, audit: Audit) -> Admit:
    """Returns what decides as `admit` does, and tells of refusals that no handler will see."""

    def decide(head: Head) -> Refusal | None:
        refused = admit(head)
        if refused is not None:
            what = f"{head.method} {head.path}"[:200]
            by = refused.error.by if isinstance(refused.error, Forbidden) else ""
            audit.count(_refusal(by, peer_name(head.peer), what, refused.error))
        return refused

    return decide


def add_audit(app: Flask, audit: Audit) -> None:
    """Lets an application tell its audit log of requests, and refuse changes that the log has no
    space for."""

    @app.before_request
    def refuse_untold() -> Response | None:
        if _changes() and not audit.ready():
            return problem(no_space(), 507)
        return None

    @app.after_request
    def tell(response: Response) -> Response:
        if request.url_rule is not None:
            _tell(audit, response)
        return response


def no_space() -> ServiceError:
    """Returns the refusal of a change for which the audit log has no space."""
    return AuditFull(
        "nothing can be changed: the audit log cannot be written",
        detail="its disk is full; jobs go on, and can be read",
        hint="make space in the folder 'audit' of the data folder",
    )


def _route() -> tuple[str, str]:
    rule = request.url_rule
    return request.method, "" if rule is None else rule.rule


def _changes() -> bool:
    route = _route()
    if route[0] in ("GET", "HEAD", "OPTIONS") or route in _READS | _OWN:
        return False
    return route in NEEDS and route[1] != _BROKER


def _tell(audit: Audit, response: Response) -> None:
    route = _route()
    event = _event(response)
    if _note().told:
        return
    if response.status_code in _REFUSED:
        audit.count(event)
    elif route == ("GET", _RECORDS):
        audit.count(event, size=response.content_length or 0)
    elif route == ("POST", _RECORDS) and event.subject != COMMANDS:
        audit.count(event, size=request.content_length or 0)
    elif route in _READS:
        audit.write([event])
    elif _changes():
        audit.write(_changes_of(event, response))


def _event(response: Response) -> Event:
    known = _note()
    status = response.status_code
    names = request.view_args or {}
    subject = known.object or str(names.get("name", names.get("group", "")))
    outcome = "refused" if status in _REFUSED else "failed" if status >= 400 else "done"
    return Event(
        present_principal().name,
        peer_name(request.environ.get(PEER)),
        f"{request.method} {_route()[1]}",
        subject,
        outcome=outcome,
        detail=_reason(response) if outcome != "done" else known.detail,
    )


def _changes_of(event: Event, response: Response) -> Sequence[Event]:
    """Returns an event for each job that a change names, as the answer tells them."""
    body = response.get_json(silent=True)
    jobs = body.get("jobs") if isinstance(body, dict) else None
    if isinstance(jobs, list):
        return [_of_job(event, job) for job in jobs if isinstance(job, dict)]
    return [_of_job(event, body) if isinstance(body, dict) else event]


def _of_job(event: Event, outcome: dict[str, object]) -> Event:
    name, version, status = (outcome.get(k) for k in ("name", "version", "status"))
    if not isinstance(status, str):  # no outcome of a job: a topic, a savepoint, a problem
        return event if event.subject or not isinstance(name, str) else replace(event, subject=name)
    refused = status == "refused"
    return replace(
        event,
        subject=str(name),
        version=version if isinstance(version, int) else 0,
        outcome="refused" if refused else "done",
        detail=json.dumps(outcome.get("error")) if refused else event.detail or status,
    )


def _reason(response: Response) -> str:
    body = response.get_json(silent=True, force=True)
    return str(body.get("message", "")) if isinstance(body, dict) else ""


def _refusal(by: str, peer: str, what: str, error: Exception) -> Event:
    return Event(by, peer, what, outcome="refused", detail=str(error)[:300])


def peer_name(peer: object) -> str:
    """Returns the other end of a connection, for people."""
    if not isinstance(peer, Peer):
        return request.remote_addr or ""
    if peer.uid is not None:
        return f"user {peer.uid}"
    return peer.address or ""


# ---- messages to the broker ----------------------------------------------------------------------


def tell_message(audit: Audit, asked: Request, refused: ServiceError | None) -> None:
    """Tells of a message to the broker: appends and reads by their numbers, changes each."""
    by, peer = present_principal().name, peer_name(request.environ.get(PEER))
    kind = type(asked).__name__
    if refused is not None:
        audit.count(_refusal(by, peer, f"broker {kind}", refused))
    elif isinstance(asked, Append | AppendAll):
        for append in appends_of(asked):
            event = Event(by, peer, "broker Append", append.topic)
            if append.topic == COMMANDS:
                audit.write([event])
            else:
                audit.count(event, size=len(append.payload.body))
    elif isinstance(asked, ReadAll):
        for read in asked.reads:
            audit.count(Event(by, peer, "broker Read", read.topic))
    elif kind in _READ_MESSAGES:
        audit.count(Event(by, peer, f"broker {kind}", str(getattr(asked, "topic", ""))))
    elif kind in _CHANGING_MESSAGES:
        subject = str(getattr(asked, "topic", getattr(asked, "group", "")))
        audit.write([Event(by, peer, f"broker {kind}", subject)])


_READ_MESSAGES: Final = frozenset({"Read", "Lookup"})
_CHANGING_MESSAGES: Final = frozenset(
    {"CreateTopic", "AlterTopic", "DeleteTopic", "Compact", "Trim", "DeleteGroup"}
)


def changes_broker(asked: Request) -> bool:
    """Returns True for a message that the audit log must have space for."""
    return bool(appends_of(asked)) or type(asked).__name__ in _CHANGING_MESSAGES
