"""RSQLDB's REST, for clients that were made for it: /rsqldb/… and /command/task/….

    POST /rsqldb/submit?jobId=a&startJob=true      the body is SQL
    POST /rsqldb/{terminate,restart,remove,queryById}?jobId=a, /rsqldb/queryAll
    POST /command/task/{submit,list,start,stop}    a form: namespace, taskName, sql

The newer form answers {"code", "status", "message", "data", "success"} with HTTP status 200, also
for what failed; its paths stood below /command/task for a while, and do here. The older form
answers text. A text that is not to start yet is kept as a draft."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from flask import Blueprint, Response, jsonify, request

from parser.errors import SqlError, UnsupportedError
from parser.parsing import parse
from parser.statements import Insert, StatementSet
from sqlengine.access.policy import Action, Forbidden, Unauthorised
from sqlengine.api.auditing import note
from sqlengine.api.jobs.job_requests import body_text
from sqlengine.api.principal import may, need, present_principal, request_origin
from sqlengine.api.problems import status_of
from sqlengine.broker.topic_access import BadRequest
from sqlengine.connectors.plain_secrets import masked
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Job, JobState
from sqlengine.jobs.planning import JobText
from sqlengine.registry import text_of

_DRAFT: Final = "-- @rule\n-- status: draft\n"
_NAMESPACE: Final = "default"
_GOING: Final = (JobState.RUNNING, JobState.DEFINED, JobState.RESTARTING, JobState.WAITING)
_RULE: Final = "-" * 92


class Jobs:
    """The jobs of an engine, with what both forms do with them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def submit(self, name: str, sql: str, *, start: bool) -> str:
        """Adds or replaces a job, as a draft where it is not to start; returns its name."""
        _check(Action.CHANGE_JOB, name)
        text = JobText(name, sql)
        if not start and _writes(sql):
            if sql.lstrip().startswith("-- @rule"):
                raise BadRequest("the head of the text says whether it runs", hint="start it")
            self._change(Request(request_origin(), {name: text}, dry_run=True))
            text = JobText(name, _DRAFT + sql)
        self._change(Request(request_origin(), {name: text}))
        return name

    def start(self, name: str) -> str:
        _check(Action.CHANGE_JOB, name)
        job = self._engine.job(name)
        kept = text_of(self._engine.log.version(name, job.version))
        if job.state is JobState.DRAFT and kept.sql.startswith(_DRAFT):
            text = replace(kept, sql=kept.sql.removeprefix(_DRAFT))
            self._change(Request(request_origin(), {name: text}))
        else:
            self._engine.start_job(name, by=present_principal())
        return name

    def stop(self, name: str) -> str:
        _check(Action.CHANGE_JOB, name)
        self._engine.stop_job(name)
        return name

    def remove(self, name: str) -> str:
        _check(Action.CHANGE_JOB, name)
        self._change(Request(request_origin(), removes=frozenset({name})))
        return name

    def one(self, name: str) -> dict[str, object]:
        _check(Action.SEE_JOB, name)
        return self._json(self._engine.job(name))

    def all(self) -> list[dict[str, object]]:
        return [self._json(job) for job in self.seen()]

    def seen(self) -> list[Job]:
        return [job for job in self._engine.jobs() if may(Action.SEE_JOB, job.name)]

    def _json(self, job: Job) -> dict[str, object]:
        sql = masked(self._engine.log.version(job.name, job.version).sql)
        return {"jobId": job.name, "sql": sql.removeprefix(_DRAFT), "status": _state(job)}

    def _change(self, asked: Request) -> None:
        outcomes = self._engine.change(replace(asked, by=present_principal()))
        for outcome in outcomes.values():
            if outcome.error is not None:
                raise outcome.error


def rsqldb_blueprint(engine: Engine) -> Blueprint:
    """Returns the routes of both forms."""
    blueprint, jobs = Blueprint("rsqldb", __name__), Jobs(engine)
    for prefix in ("/rsqldb", "/command/task"):
        _add_newer(blueprint, jobs, prefix)
    _add_older(blueprint, jobs)
    return blueprint


def _add_newer(blueprint: Blueprint, jobs: Jobs, prefix: str) -> None:
    def add(path: str, work: Callable[[], object]) -> None:
        name = f"{prefix}/{path}".strip("/").replace("/", "-")
        rule = f"{prefix}/{path}"
        blueprint.add_url_rule(rule, name, lambda: _answered(work), methods=["POST"])

    if prefix == "/rsqldb":  # the other one has an older form, too
        add("submit", lambda: _submit(jobs))
    add("queryAll", jobs.all)
    add("queryById", lambda: jobs.one(_job_id()))
    add("terminate", lambda: jobs.stop(_job_id()))
    add("restart", lambda: jobs.start(_job_id()))
    add("remove", lambda: jobs.remove(_job_id()))


def _add_older(blueprint: Blueprint, jobs: Jobs) -> None:
    @blueprint.post("/command/task/submit")
    def submit() -> Response:
        """Takes the form of a task; with ?jobId= as /rsqldb/submit does, which starts the job."""
        if "jobId" in request.args:
            return _answered(lambda: _submit(jobs))
        namespace, task = _task()
        jobs.submit(_name(namespace, task), _needed("sql", request.values.get("sql")), start=False)
        return _text(f"Task {namespace}|{task} submit sql success!")

    @blueprint.post("/command/task/submit/file")
    def submit_file() -> Response:
        """Refuses a path: files of a server are not a client's."""
        raise UnsupportedError(
            "a server reads no file that a request names",
            hint="send the text as 'sql' to /command/task/submit",
        )

    @blueprint.post("/command/task/start")
    def start() -> Response:
        namespace, task = _task()
        jobs.start(_name(namespace, task))
        return _text(f"Task {namespace}|{task} start success")

    @blueprint.post("/command/task/stop")
    def stop() -> Response:
        namespace, task = _task()
        jobs.stop(_name(namespace, task))
        return _text(f"Task {namespace}|{task} stop success")

    @blueprint.post("/command/task/list")
    def list_tasks() -> Response:
        namespace = request.values.get("namespace", _NAMESPACE)
        prefix, gap = _name(namespace, ""), " " * 6
        lines = [f"namespace{gap}task_name{gap}state", _RULE]
        for job in jobs.seen():
            if job.name.startswith(prefix):
                state = "started" if job.state in _GOING else "stopped"
                lines.append(f"{namespace}{gap}{job.name.removeprefix(prefix)}{gap}{state}")
        return _text("\n".join(lines) + "\n")


def _answered(work: Callable[[], object]) -> Response:
    """Returns the answer of the newer form: errors are in it. Who may not ask is refused as
    everywhere."""
    try:
        return jsonify(_body(200, "SUCCESS", "Success", work(), success=True))
    except (Forbidden, Unauthorised):
        raise
    except SqlError as error:
        if status_of(error) >= 500:
            body = _body(500, "RSQLDB_SERVER_EXCEPTION", "Internal Server Error", str(error))
        else:
            body = _body(400, "CLIENT_EXCEPTION", "Bad request", str(error))
        return jsonify(body)


def _body(
    code: int, status: str, message: str, data: object, *, success: bool = False
) -> dict[str, object]:
    return {
        "code": code,
        "status": status,
        "message": message,
        "data": data,
        "success": success,
    }


def _submit(jobs: Jobs) -> list[str]:
    """Adds the job of ?jobId=; without a name it has that of its text's hash. One text is one job,
    of however many statements."""
    sql = body_text()
    name = request.args.get("jobId") or f"sql-{hashlib.sha256(sql.encode()).hexdigest()[:16]}"
    start = request.args.get("startJob", "true").lower() in ("true", "1", "yes")
    return [jobs.submit(name, sql, start=start)]


def _job_id() -> str:
    name = request.args.get("jobId", "")
    if not name.strip():
        raise BadRequest("the request has no ?jobId=")
    return name


def _task() -> tuple[str, str]:
    return request.values.get("namespace", _NAMESPACE), _needed(
        "taskName", request.values.get("taskName")
    )


def _needed(name: str, value: str | None) -> str:
    if value is None or not value.strip():
        raise BadRequest(f"the form has no '{name}'")
    return value


def _name(namespace: str, task: str) -> str:
    """Returns the name of the job of a task: outside of the default namespace with that before
    it."""
    return task if namespace == _NAMESPACE else f"{namespace}.{task}"


def _state(job: Job) -> str:
    return "RUNNING" if job.state in _GOING else "STOPPED"


def _writes(sql: str) -> bool:
    """Returns whether a text has something to run."""
    return any(isinstance(s, Insert | StatementSet) for s in parse(sql))


def _check(action: Action, name: str) -> None:
    note(name)
    need(action, name)


def _text(text: str) -> Response:
    return Response(text, mimetype="text/plain")
