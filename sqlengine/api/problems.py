"""Errors as application/problem+json (RFC 9457), with the place in the SQL text."""

from __future__ import annotations

import json

from flask import Response

from parser.errors import (
    ExecutionError,
    JobError,
    ParseError,
    PlanError,
    ServiceError,
    SqlError,
    UnsupportedError,
)
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


def problem(error: SqlError, status: int | None = None) -> Response:
    """Returns the error as a response; `line` and `column` count from 1 in the text of the job."""
    response = Response(
        json.dumps(describe(error, status)),
        status or status_of(error),
        mimetype="application/problem+json",
    )
    if isinstance(error, TooFast):
        response.headers["Retry-After"] = str(-(-error.retry_ms // 1000))
    return response


def describe(error: SqlError, status: int | None = None) -> dict[str, object]:
    """Returns the error as JSON, for responses and for the answers on the command topic."""
    body: dict[str, object] = {
        "type": f"urn:sqlengine:{type(error).__name__}",
        "title": error.title,
        "status": status or status_of(error),
        "message": error.message,
        "detail": str(error),
    }
    if error.detail:
        body["cause"] = error.detail
    if error.hint:
        body["hint"] = error.hint
    if isinstance(error, TooFast):
        body["retry_ms"] = error.retry_ms
    if error.position:
        body |= {
            "line": error.position.line,
            "column": error.position.column,
            "length": error.position.length,
        }
        body |= {"file": error.position.file} if error.position.file else {}
    return body


def status_of(error: SqlError) -> int:
    """Returns the HTTP status: 400 for a bad statement, 404 for a missing object, 409 for a refused
    change, 503 for a fault of the server."""
    match error:
        case JobError():
            return 404 if "does not exist" in error.message else 409
        case UnsupportedError():
            return 422
        case ParseError() | PlanError():
            return 400
        case TopicNotFound():
            return 404
        case TopicExists() | TopicInUse() | Fenced():
            return 409
        case TooFast():
            return 429
        case BrokerFull():
            return 507
        case BadRequest():
            return 400
        case BrokerError() if not isinstance(error, CorruptSegment):
            return 400
        case ServiceError():
            return 503
        case ExecutionError():
            return 500
    return 400
