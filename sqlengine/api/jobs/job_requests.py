"""Requests for jobs: their texts, and how they are to be taken."""

from __future__ import annotations

import json
from collections.abc import Mapping

from flask import request

from sqlengine.access.policy import Action
from sqlengine.api.conventions.preconditions import expected
from sqlengine.api.principal import need, present_principal, request_origin
from sqlengine.api.queries import flag
from sqlengine.broker.topic_access import BadRequest
from sqlengine.engine.requests import Request
from sqlengine.jobs.planning import JobText
from sqlengine.jobs.targets import target_of


def change_request(texts: Mapping[str, JobText]) -> Request:
    """Returns the change that a request asks for; ?savepoint= is what its one job starts from,
    ?target= where its jobs run."""
    path = request.args.get("savepoint")
    if path is not None and len(texts) != 1:
        raise BadRequest(
            "?savepoint= is for one job",
            hint="send one, or name it in the text: SET 'execution.savepoint.path'",
        )
    savepoints = {} if path is None else dict.fromkeys(texts, path)
    wanted = expected()
    if wanted is not None and len(texts) != 1:
        raise BadRequest("If-Match and If-None-Match are for one job", hint="send one")
    target = request.args.get("target")
    return Request(
        request_origin(),
        texts,
        dry_run=flag("dry-run"),
        savepoints=savepoints,
        targets={} if target is None else dict.fromkeys(texts, target_of(target)),
        by=present_principal(),
        expected={} if wanted is None else dict.fromkeys(texts, wanted),
    )


def body_text() -> str:
    try:
        return request.get_data(cache=False).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest("the request's body is not UTF-8", detail=str(error)) from None


def texts_in(uploads: bool) -> dict[str, JobText]:
    body, file = body_text(), request.args.get("file")
    if request.mimetype == "application/json":
        modules, files = _strings(body, "modules", "text_tools.py"), _strings(body, "files", "r1")
        if modules and not uploads:
            raise BadRequest(
                "this server takes no modules with a job",
                hint="start it with --uploads, or use its folder",
            )
        if modules:  # Python in the server's own name
            need(Action.ADMINISTER)
        return {n: JobText(n, sql, files.get(n, file), uploads=modules) for n, sql in _pairs(body)}
    name = request.args.get("name")
    if not name:
        raise BadRequest(
            "the job has no name", hint="give it as ?name=NAME, or PUT to /api/v1/jobs/NAME"
        )
    return {name: JobText(name, body, file)}


def _strings(body: str, member: str, example: str) -> dict[str, str]:
    """Returns an object of strings in a JSON body: the sources of users' modules by file name,
    {"modules": {"text_tools.py": "…"}}, or the files of jobs by name, {"files": {"r1": "…"}}."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return {}  # `_pairs` says what is wrong
    given = data.get(member, {}) if isinstance(data, dict) else {}
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        what = "sources" if member == "modules" else "paths"
        raise BadRequest(
            f"'{member}' holds no {what}", hint=f'send {{"{member}": {{"{example}": "…"}}}}'
        )
    return given


def _pairs(body: str) -> list[tuple[str, str]]:
    """Returns the names and texts of jobs in a JSON body."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body is not JSON", detail=str(error)) from None
    jobs: object = None
    if isinstance(data, dict):
        jobs = data["jobs"] if "jobs" in data else _pair(data.get("name"), data.get("sql"))
    if not isinstance(jobs, dict) or not all(
        isinstance(t, str) for pair in jobs.items() for t in pair
    ):
        raise BadRequest(
            "the body names no job with its SQL",
            hint='send {"name": "r1", "sql": "…"} or {"jobs": {"r1": "…"}}',
        )
    return list(jobs.items())


def _pair(name: object, sql: object) -> object:
    return {name: sql} if isinstance(name, str) else None
