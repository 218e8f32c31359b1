"""Tells the audit log of requests: changes each, reads of data and refusals, appends and reads of
topics by their numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from flask import Flask, Response
from flask import Request as FlaskRequest

from parser.errors import ServiceError
from sqlengine.access.actor import Actor, note_actor
from sqlengine.access.audit.log import Audit, AuditFull, Event, NoAudit
from sqlengine.access.policy import Forbidden
from sqlengine.api.permissions import NEEDS
from sqlengine.api.principal import present_principal, present_request, request_origin
from sqlengine.api.problems import problem
from sqlengine.api.serving.admission import PEER, Admit, Head, Peer, Refusal
from sqlengine.broker.remote.wire import (
    AlterTopic,
    Append,
    AppendAll,
    Compact,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    Lookup,
    Read,
    ReadAll,
    Request,
    Trim,
    appends_of,
)
from sqlengine.broker.topic_access import COMMANDS

_RECORDS: Final = "/api/v1/topics/<name>/records"
_QUERIES: Final = "/api/v1/queries"
_BROKER: Final = "/api/v1/broker"
_RSQLDB: Final = ("/rsqldb", "/command/task")
_JOB: Final = "/api/v1/jobs/<name>"
_SESSION: Final = "/<gateway:version>/sessions/<session>"
_OPERATION: Final = f"{_SESSION}/operations/<handle>"


class Kind(Enum):
    """The way in which the audit log has a request: a line, or a number in one."""

    CHANGE = 1
    READ = 2
    COUNTED_READ = 3
    APPEND = 4


# Other requests without a change tell of jobs and topics, and not what is in them.
_READS: Final = {
    ("GET", _RECORDS): Kind.COUNTED_READ,
    ("POST", _RECORDS): Kind.APPEND,
    ("POST", "/api/v1/tables/<name>/rows"): Kind.APPEND,
    ("POST", "/v1/logs"): Kind.APPEND,
    ("GET", "/api/v1/dead-letters"): Kind.READ,
    ("GET", f"{_JOB}/dead-letters"): Kind.READ,
    ("GET", f"{_JOB}/diff"): Kind.READ,
    ("GET", f"{_JOB}/state/<int:operation>"): Kind.READ,
    ("POST", _QUERIES): Kind.READ,
}
# Those that change nothing for others although they are no GET, and messages, which tell of
# themselves.
_OWN: Final = frozenset(
    {
        ("DELETE", "/api/v1/queries/<query>"),
        ("POST", "/api/v1/sessions"),
        ("DELETE", "/api/v1/sessions/<session>"),
        ("POST", "/<gateway:version>/sessions"),
        ("DELETE", _SESSION),
        ("POST", f"{_SESSION}/heartbeat"),
        ("POST", f"{_SESSION}/configure-session"),
        ("POST", f"{_SESSION}/materialized-tables/<name>/refresh"),
        ("POST", f"{_OPERATION}/cancel"),
        ("DELETE", f"{_OPERATION}/close"),
        ("POST", _BROKER),
        ("POST", "/command/task/list"),
        *(("POST", f"{p}/queryAll") for p in _RSQLDB),
        *(("POST", f"{p}/queryById") for p in _RSQLDB),
    }
)
_KINDS: Final = {
    **{r: Kind.CHANGE for r in NEEDS if r[0] != "GET" and r not in _OWN},
    **_READS,
}
_CHANGES: Final = frozenset({Kind.CHANGE, Kind.APPEND})
_REFUSED: Final = (401, 403)
_REFUSED_OUTCOME: Final = "refused"


@dataclass
class Note:
    """The object and the text of a request, which its route does not tell; whether the audit log
    knows of it already."""

    object: str = ""
    detail: str = ""
    told: bool = False


# In the WSGI environment.
_NOTE: Final = "sqlengine.audit-note"
_NOTHING: Final = Note()


def note(subject: str = "", detail: str = "") -> None:
    """Notes the object of the request, or its text, for the audit log."""
    known = _note()
    known.object, known.detail = subject or known.object, detail or known.detail


def note_request() -> None:
    """Notes who asks, for the trail of jobs: where principals are not told apart, by what."""
    asked = present_request()
    if asked.method != "GET":
        by = present_principal().name or request_origin().value
        what = f"{asked.method} {asked.path}"[:300]
        note_actor(Actor(by, peer_name(asked.environ.get(PEER)), what))


def told() -> None:
    """Notes that the audit log knows of the request."""
    _note().told = True


def _note() -> Note:
    found: Note = present_request().environ.setdefault(_NOTE, Note())
    return found


def audited(admit: Admit, audit: Audit) -> Admit:
    """Returns what decides as `admit` does, and tells of refusals that no handler will see."""

    def decide(head: Head) -> Refusal | None:
        refused = admit(head)
        if refused is not None:
            what = f"{head.method} {head.path}"[:200]
            by, named = "", ""
            if isinstance(refused.error, Forbidden):
                by, named = refused.error.by, refused.error.named
            audit.count(_refusal(by, peer_name(head.peer), what, refused.error, named))
        return refused

    return decide


def add_audit(app: Flask, audit: Audit) -> None:
    """Lets an application tell its audit log of requests, and refuse changes that the log has no
    space for."""
    if isinstance(audit, NoAudit):
        return

    @app.before_request
    def refuse_untold() -> Response | None:
        if _kind(present_request()) in _CHANGES and not audit.ready():
            return problem(no_space(), 507)
        return None

    @app.after_request
    def tell(response: Response) -> Response:
        asked = present_request()
        kind, status = _kind(asked), response.status_code
        refused = status in _REFUSED and asked.url_rule is not None
        if (kind is not None or refused) and not (status >= 400 and _note().told):
            _tell(audit, asked, response, kind)
        return response


def no_space() -> ServiceError:
    """Returns the refusal of a change for which the audit log has no space."""
    return AuditFull(
        "nothing can be changed: the audit log cannot be written",
        detail="its disk is full; jobs go on, and can be read",
        hint="make space in the folder 'audit' of the data folder",
    )


def _kind(asked: FlaskRequest) -> Kind | None:
    rule = asked.url_rule
    return None if rule is None else _KINDS.get((asked.method, rule.rule))


def _tell(audit: Audit, asked: FlaskRequest, response: Response, kind: Kind | None) -> None:
    event = _event(asked, response)
    if event.outcome == _REFUSED_OUTCOME or kind is Kind.COUNTED_READ:
        audit.count(event)
    elif kind is Kind.APPEND and event.subject != COMMANDS:
        audit.count(event, size=int(asked.environ.get("CONTENT_LENGTH") or 0))
    elif kind is Kind.READ:
        audit.write([event])
    else:
        audit.write(_changes_of(event, response))


def _event(asked: FlaskRequest, response: Response) -> Event:
    known: Note = asked.environ.get(_NOTE, _NOTHING)
    status, names = response.status_code, asked.view_args or {}
    rule = "" if asked.url_rule is None else asked.url_rule.rule
    refused = _REFUSED_OUTCOME if status in _REFUSED else "failed"
    outcome = refused if status >= 400 else "done"
    return Event(
        present_principal().name,
        peer_name(asked.environ.get(PEER)),
        f"{asked.method} {rule}",
        known.object or str(names.get("name", names.get("group", ""))),
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


def _refusal(by: str, peer: str, what: str, error: Exception, named: str = "") -> Event:
    return Event(by, peer, what, named, outcome="refused", detail=str(error)[:300])


def peer_name(peer: object) -> str:
    """Returns the other end of a connection, for people."""
    if not isinstance(peer, Peer):
        return present_request().remote_addr or ""
    if peer.uid is not None:
        return f"user {peer.uid}"
    return peer.address or ""


# ---- messages to the broker ----------------------------------------------------------------------


def tell_message(audit: Audit, asked: Request, refused: ServiceError | None) -> None:
    """Tells of a message to the broker: appends and reads by their numbers, changes each."""
    by, peer = present_principal().name, peer_name(present_request().environ.get(PEER))
    name = type(asked).__name__
    if refused is not None:
        audit.count(_refusal(by, peer, f"broker {name}", refused))
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
    elif isinstance(asked, Read | Lookup):
        audit.count(Event(by, peer, f"broker {name}", asked.topic))
    elif isinstance(asked, _CHANGES_OF_TOPICS | DeleteGroup):
        subject = asked.group if isinstance(asked, DeleteGroup) else asked.topic
        audit.write([Event(by, peer, f"broker {name}", subject)])


_CHANGES_OF_TOPICS: Final = CreateTopic | AlterTopic | DeleteTopic | Compact | Trim


def changes_broker(asked: Request) -> bool:
    """Returns True for a message that the audit log must have space for."""
    return bool(appends_of(asked)) or isinstance(asked, _CHANGES_OF_TOPICS | DeleteGroup)
