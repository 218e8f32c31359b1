"""Errors as application/problem+json (RFC 9457), with the place in the SQL text."""

from __future__ import annotations

import json
import re
from typing import Final

from flask import Response

from parser.errors import (
    ExecutionError,
    JobError,
    ParseError,
    PlanError,
    ServiceError,
    SqlError,
    UnsupportedError,
    as_json,
)
from sqlengine.access.policy import Forbidden, Unauthorised
from sqlengine.broker.errors import (
    BrokerError,
    BrokerFull,
    CorruptSegment,
    Fenced,
    TooFast,
    TopicExists,
    TopicNotFound,
)
from sqlengine.broker.topic_access import BadRequest, TopicInUse
from sqlengine.engine.expected_versions import VersionMismatch
from sqlengine.queries.query import QueryEnded, TooManyQueries
from sqlengine.queries.results import TokenMissed
from sqlengine.system.hidden import hidden

PROBLEM: Final = "application/problem+json"
# Clients of Flink take anything with other members for the answer that they asked for.
_GATEWAY: Final = re.compile(r"/v[123]/(?:info|api_versions|sessions)(?:/|\Z)")


class NotFound(ServiceError):
    """The object that a path names is not there."""

    title = "not found"


class KeyInUse(ServiceError):
    """The request with this key is being carried out."""

    title = "conflict"


class KeyReused(ServiceError):
    """The key stands for another request."""

    title = "key reused"


def refusal_of(error: SqlError, status: int, path: str) -> tuple[str, str]:
    """Returns the content type and the body of an error for who asked for a path, before any route
    of it is known: a problem, or for Flink's gateway a list of errors."""
    if _GATEWAY.match(path):
        return "application/json", json.dumps({"errors": [hidden(str(error))]})
    return PROBLEM, json.dumps(describe(error, status))


def problem(error: SqlError, status: int | None = None) -> Response:
    """Returns the error as a response; `line` and `column` count from 1 in the text of the job."""
    response = _response(describe(error, status))
    if isinstance(error, TooFast):
        response.headers["Retry-After"] = str(-(-error.retry_ms // 1000))
    return response


def refusal_of_job(error: SqlError) -> Response:
    """Returns the error for which a job was not taken, as a response."""
    return _response(describe_refusal(error))


def _response(body: dict[str, object]) -> Response:
    status = body["status"]
    assert isinstance(status, int)
    return Response(json.dumps(body), status, mimetype=PROBLEM)


def describe(error: SqlError, status: int | None = None) -> dict[str, object]:
    """Returns the error as JSON, for responses and for the answers on the command topic."""
    told = {k: hidden(v) if isinstance(v, str) else v for k, v in as_json(error).items()}
    body = told | {"status": status or status_of(error)}
    return body | ({"retry_ms": error.retry_ms} if isinstance(error, TooFast) else {})


def describe_refusal(error: SqlError) -> dict[str, object]:
    """Returns the error for which a job was not taken, as JSON. The job has not failed: it never
    ran."""
    if not isinstance(error, ExecutionError):
        return describe(error)
    return describe(error, 409) | {"title": JobError.title}


def status_of(error: SqlError) -> int:
    """Returns the HTTP status: 400 for a bad statement, 404 for a missing object, 409 for a refused
    change, 503 for a fault of the server."""
    if isinstance(error, VersionMismatch):
        return 412
    if isinstance(error, JobError):
        return 404 if "does not exist" in error.message else 409
    return next((status for kinds, status in _STATUS if isinstance(error, kinds)), 400)


# The first line that has the error's class counts.
_STATUS: Final = (
    (UnsupportedError, 422),
    (Unauthorised, 401),
    (Forbidden, 403),
    ((ParseError, PlanError), 400),
    ((TopicNotFound, NotFound), 404),
    ((TopicExists, TopicInUse, Fenced, KeyInUse), 409),
    (KeyReused, 422),
    ((TooFast, TooManyQueries), 429),
    (QueryEnded, 408),
    (BrokerFull, 507),
    ((BadRequest, TokenMissed), 400),
    (CorruptSegment, 503),
    (BrokerError, 400),
    (ServiceError, 503),
    (ExecutionError, 500),
)
