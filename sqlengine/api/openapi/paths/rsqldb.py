"""The routes that RSQLDB has, with its forms."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    ANY,
    FLAG,
    PLAIN,
    TEXT,
    Endpoint,
    Query,
    record,
    ref,
)

_FORM: Final = "application/x-www-form-urlencoded"
_JOB: Final = Query("jobId", "the name of the job", TEXT)
_START: Final = Query("startJob", "false: keep it as a draft, until it is restarted", FLAG)
_NAMESPACE: Final = Query("namespace", "of the task, else 'default'", TEXT)
_TASK: Final = Query("taskName", "the name of the task", TEXT)
_SQL: Final = Query("sql", "its text", TEXT)
_FIELDS: Final = {"namespace": TEXT, "taskName": TEXT}


def _newer(path: str, doc: str, *query: Query) -> Endpoint:
    return Endpoint("POST", path, doc, ref("RsqldbAnswer"), query)


def _newer_paths(prefix: str) -> tuple[Endpoint, ...]:
    return (
        _newer(f"{prefix}/queryAll", "all jobs, with their texts"),
        _newer(f"{prefix}/queryById", "a job with its text", _JOB),
        _newer(f"{prefix}/terminate", "stop a job", _JOB),
        _newer(f"{prefix}/restart", "start a job", _JOB),
        _newer(f"{prefix}/remove", "remove a job", _JOB),
    )


def _older(path: str, doc: str, *query: Query) -> Endpoint:
    fields = {q.name: TEXT for q in query}
    return Endpoint(
        "POST",
        path,
        doc,
        PLAIN,
        query,
        {_FORM: record({}, fields)},
        refusals=(400, 404, 409, 422),
    )


RSQLDB: Final = (
    Endpoint(
        "POST",
        "/rsqldb/submit",
        "add or replace a job: the body is its SQL",
        ref("RsqldbAnswer"),
        (_JOB, _START),
        {PLAIN: TEXT},
    ),
    *_newer_paths("/rsqldb"),
    Endpoint(
        "POST",
        "/command/task/submit",
        "a form: keep the text of a task until it is started; with `jobId` as `/rsqldb/submit`",
        ref("RsqldbAnswer"),
        (_NAMESPACE, _TASK, _SQL, _JOB, _START),
        {_FORM: record({}, {**_FIELDS, "sql": TEXT}), PLAIN: TEXT},
        refusals=(400, 409, 422),
        also=(PLAIN,),
    ),
    Endpoint(
        "POST", "/command/task/submit/file", "refused: a path of the server", ANY, refusals=(422,)
    ),
    _older("/command/task/list", "the tasks of a namespace", _NAMESPACE),
    _older("/command/task/start", "start a task", _NAMESPACE, _TASK),
    _older("/command/task/stop", "stop a task", _NAMESPACE, _TASK),
    *_newer_paths("/command/task"),
)
