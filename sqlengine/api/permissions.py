"""The permissions of routes. A route that is not in this table is refused, and fails a test.

python -m sqlengine.api.permissions docs/security.md     writes the page's table anew"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from sqlengine.access.policy import Action, allows, decide, forbidden
from sqlengine.access.principals import TRUSTED, Grant, Principal, Role


@dataclass(frozen=True)
class Need:
    """The action that a request needs, None for none.

    `of`: the part of the path that names the object; `each`: the handler asks for each object that
    the body, or a file, names; `own`: it answers with what the client may see."""

    action: Action | None
    of: str | None = None
    each: str = ""
    own: str = ""


# All jobs, or the figures of all of them: a pattern of jobs that stands for every name.
ALL: Final = "*"
_OPEN: Final = Need(None)
_KNOWN: Final = Need(Action.BE_KNOWN)
_ADMIN: Final = Need(Action.ADMINISTER)
_SEE_JOB: Final = Need(Action.SEE_JOB, "name")
_CHANGE_JOB: Final = Need(Action.CHANGE_JOB, "name")
_WRITE_TOPIC: Final = Need(Action.WRITE_TOPIC, "name")
_ALL_JOBS: Final = Need(Action.SEE_JOB, ALL)
_JOB: Final = "/api/v1/jobs/<name>"
_TOPIC: Final = "/api/v1/topics/<name>"
_GATEWAY: Final = "/<gateway:version>"
_SESSION: Final = f"{_GATEWAY}/sessions/<session>"
_OPERATION: Final = f"{_SESSION}/operations/<handle>"
_CHANGE_EACH: Final = Need(Action.CHANGE_JOB, each="job of the request")
_SEEN_JOBS: Final = Need(Action.BE_KNOWN, own="jobs that may be seen")
_OWN: Final = Need(Action.ASK, own="the client's own")

NEEDS: Final[Mapping[tuple[str, str], Need]] = {
    ("GET", "/healthz"): _OPEN,
    ("GET", "/readyz"): _OPEN,
    ("GET", "/metrics"): _ALL_JOBS,
    ("GET", "/api/v1/metrics"): _ALL_JOBS,
    ("GET", "/api/v1/openapi.json"): _KNOWN,
    ("GET", "/api/v1/instances"): _ALL_JOBS,
    ("GET", "/api/v1/spark"): _ALL_JOBS,
    ("GET", "/api/v1/jobs"): Need(Action.BE_KNOWN, own="jobs that may be seen"),
    ("GET", "/api/v1/audit"): _ADMIN,
    ("GET", "/api/v1/live"): Need(Action.BE_KNOWN, own="jobs that may be seen"),
    ("GET", "/api/v1/costs"): Need(Action.BE_KNOWN, own="jobs that may be seen"),
    ("POST", "/api/v1/jobs"): Need(Action.CHANGE_JOB, each="job of the body"),
    ("PUT", _JOB): _CHANGE_JOB,
    ("DELETE", _JOB): _CHANGE_JOB,
    ("GET", _JOB): _SEE_JOB,
    ("GET", f"{_JOB}/history"): _SEE_JOB,
    ("GET", f"{_JOB}/explain"): _SEE_JOB,
    ("GET", f"{_JOB}/cost"): _SEE_JOB,
    ("POST", f"{_JOB}/start"): _CHANGE_JOB,
    ("POST", f"{_JOB}/stop"): _CHANGE_JOB,
    ("POST", f"{_JOB}/isolate"): _CHANGE_JOB,
    ("POST", f"{_JOB}/merge"): _CHANGE_JOB,
    ("POST", f"{_JOB}/move"): _CHANGE_JOB,
    ("POST", f"{_JOB}/reload-lookups"): _CHANGE_JOB,
    ("POST", f"{_JOB}/rollback"): _CHANGE_JOB,
    ("GET", f"{_JOB}/diff"): _SEE_JOB,
    ("POST", f"{_JOB}/promote"): _CHANGE_JOB,
    ("POST", f"{_JOB}/savepoints"): _CHANGE_JOB,
    ("GET", f"{_JOB}/state"): _SEE_JOB,
    ("GET", f"{_JOB}/state/<int:operation>"): _SEE_JOB,
    ("GET", f"{_JOB}/dead-letters"): _SEE_JOB,
    ("POST", f"{_JOB}/dead-letters/replay"): _CHANGE_JOB,
    ("GET", "/api/v1/dead-letters"): Need(Action.BE_KNOWN, own="letters of jobs that may be seen"),
    ("GET", "/api/v1/savepoints"): Need(Action.BE_KNOWN, own="those of jobs that may be seen"),
    ("GET", "/api/v1/savepoints/<name>"): Need(Action.SEE_JOB, each="savepoint's job"),
    ("DELETE", "/api/v1/savepoints/<name>"): Need(Action.CHANGE_JOB, each="savepoint's job"),
    ("POST", "/api/v1/statements"): Need(
        Action.BE_KNOWN, each="job that is stopped or altered: change job"
    ),
    ("GET", "/api/v1/queries"): Need(Action.ASK, own="the client's own"),
    ("POST", "/api/v1/queries"): Need(
        Action.ASK,
        each="table that is read: read topic, connector; with `?write`, as of the gateway's",
    ),
    ("GET", "/api/v1/queries/<query>"): Need(Action.ASK, own="the client's own"),
    ("DELETE", "/api/v1/queries/<query>"): Need(Action.ASK, own="the client's own"),
    ("POST", "/api/v1/sessions"): Need(Action.ASK),
    ("DELETE", "/api/v1/sessions/<session>"): Need(Action.ASK, own="the client's own"),
    ("GET", "/api/v1/catalog"): Need(Action.ASK),
    ("GET", "/api/v1/tables"): Need(Action.ASK),
    ("GET", "/api/v1/tables/<name>"): Need(Action.ASK),
    ("GET", "/api/v1/functions"): Need(Action.ASK),
    ("GET", "/api/v1/functions/<name>"): Need(Action.ASK),
    ("GET", "/api/v1/rules"): Need(Action.BE_KNOWN, own="rules that may be seen"),
    ("GET", "/api/v1/rules/<name>"): _SEE_JOB,
    ("GET", f"{_GATEWAY}/info"): _KNOWN,
    ("GET", f"{_GATEWAY}/api_versions"): _KNOWN,
    ("POST", f"{_GATEWAY}/sessions"): Need(Action.ASK),
    ("GET", _SESSION): _OWN,
    ("DELETE", _SESSION): _OWN,
    ("POST", f"{_SESSION}/heartbeat"): _OWN,
    ("POST", f"{_SESSION}/statements"): Need(
        Action.ASK,
        each="table that is read or written: topic, connector; job that is made: change job",
    ),
    ("POST", f"{_SESSION}/configure-session"): _OWN,
    ("GET", f"{_SESSION}/complete-statement"): _OWN,
    ("POST", f"{_SESSION}/materialized-tables/<name>/refresh"): _OWN,
    ("GET", f"{_OPERATION}/status"): _OWN,
    ("GET", f"{_OPERATION}/result/<int:token>"): _OWN,
    ("POST", f"{_OPERATION}/cancel"): _OWN,
    ("DELETE", f"{_OPERATION}/close"): _OWN,
    ("GET", "/api/v1/topics"): Need(Action.BE_KNOWN, own="topics that may be read or written"),
    ("POST", "/api/v1/topics"): Need(Action.WRITE_TOPIC, each="topic of the body"),
    ("GET", _TOPIC): Need(Action.SEE_TOPIC, "name"),
    ("PATCH", _TOPIC): _WRITE_TOPIC,
    ("DELETE", _TOPIC): _WRITE_TOPIC,
    ("POST", f"{_TOPIC}/compact"): _WRITE_TOPIC,
    ("POST", f"{_TOPIC}/move"): _ADMIN,
    ("POST", f"{_TOPIC}/records"): _WRITE_TOPIC,
    ("GET", f"{_TOPIC}/records"): Need(Action.READ_TOPIC, "name"),
    ("POST", "/api/v1/tables/<name>/rows"): _WRITE_TOPIC,
    ("POST", "/v1/logs"): Need(Action.BE_KNOWN, each="topic 'otlp': write topic"),
    ("GET", "/api/v1/groups"): Need(Action.BE_KNOWN, own="groups of topics that may be seen"),
    ("POST", "/api/v1/groups/<group>/reset"): Need(Action.READ_TOPIC, each="topic of the body"),
    ("DELETE", "/api/v1/groups/<group>"): Need(Action.READ_TOPIC, each="topic that it reads"),
    **{
        ("POST", f"{prefix}/{path}"): need
        for path, need in (
            ("submit", _CHANGE_EACH),
            ("queryAll", _SEEN_JOBS),
            ("queryById", Need(Action.SEE_JOB, each="job of the request")),
            ("terminate", _CHANGE_EACH),
            ("restart", _CHANGE_EACH),
            ("remove", _CHANGE_EACH),
        )
        for prefix in ("/rsqldb", "/command/task")
    },
    ("POST", "/command/task/submit/file"): _CHANGE_EACH,
    ("POST", "/command/task/list"): _SEEN_JOBS,
    ("POST", "/command/task/start"): _CHANGE_EACH,
    ("POST", "/command/task/stop"): _CHANGE_EACH,
    ("POST", "/api/v1/broker"): Need(
        Action.BE_KNOWN, each="topic of the message: see, read or write topic"
    ),
}


def check_route(
    principal: Principal | None, method: str, rule: str, parts: Mapping[str, object]
) -> None:
    """Raises Forbidden unless a principal (None: one that is trusted) may ask this. `rule`: as the
    application has the route, `parts`: of the path that was asked for."""
    need = NEEDS.get((_as_get(method), rule))
    principal = principal or TRUSTED
    if need is None:
        missing = "a permission for this route, which the server does not declare"
        raise forbidden(principal, Action.ADMINISTER, None, missing)
    if need.action is None:
        return
    name = need.of if need.of in (None, ALL) else str(parts[need.of])
    decision = decide(principal, need.action, name)
    if not decision.allowed:
        raise forbidden(principal, need.action, name, decision.missing)


def check_head(principal: Principal, method: str, path: str) -> None:
    """Raises Forbidden where the roles of a principal do not go as far as a request that has not
    come as a whole. What passes is looked at again: its path may be written in other ways."""
    need = _BY_PARTS.get((_as_get(method), _without_names(path)))
    if need is None or need.action is None:
        return
    decision = decide(principal, need.action)
    if not decision.allowed:
        name = None if need.of in (None, ALL) else unquote(path.split("/")[_NAME])
        raise forbidden(principal, need.action, name, decision.missing)


def _as_get(method: str) -> str:
    return "GET" if method == "HEAD" else method


def _without_names(path: str) -> tuple[str, ...]:
    """The parts of a path without the name of an object, which stands behind /api/v1/KIND/."""
    parts = path.split("/")
    if len(parts) > _NAME:
        parts[_NAME] = ""
    return tuple(parts)


_NAME: Final = 4
_BY_PARTS: Final = {(m, _without_names(rule)): need for (m, rule), need in NEEDS.items()}
_PARAMETER: Final = re.compile(r"<(?:\w+:)?(\w+)>")
_BEGIN: Final = "<!-- written by: python -m sqlengine.api.permissions docs/security.md -->\n"
_END: Final = "<!-- end -->"


def table() -> str:
    """Returns the table of routes for the documentation."""
    lines = ["| request | may | roles | and |", "|---|---|---|---|"]
    for (method, rule), need in NEEDS.items():
        path = _PARAMETER.sub(r"{\1}", rule)
        action = "anybody" if need.action is None else need.action.value
        if need.of == ALL:
            action += "s, all of them (`jobs` has `*`)"
        details = [f"for each {need.each}"] * bool(need.each)
        details += [f"answers with {need.own}"] * bool(need.own)
        lines.append(f"| `{method} {path}` | {action} | {_roles(need)} | {'; '.join(details)} |")
    return "\n".join(lines) + "\n"


def _roles(need: Need) -> str:
    """The roles that are enough, besides admin."""
    if need.action is None:
        return "none is needed"
    others = [r for r in Role if r is not Role.ADMIN and allows(_holder(r), need.action)]
    return ", ".join(f"`{r}`" for r in others) or "`admin` alone"


def _holder(role: Role) -> Principal:
    return Principal("", (Grant(frozenset({role})),))


def with_table(page: str) -> str:
    """Returns a page with the table in its place."""
    before, mark, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return before + mark + table() + end + after if mark and end else page


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(with_table(file.read_text(encoding="utf-8")), encoding="utf-8")
