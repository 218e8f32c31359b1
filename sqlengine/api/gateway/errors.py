"""Errors as Flink's clients understand them: a list of texts, of which the last is a trace that
names a class of Flink."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from flask import Response

from parser.errors import (
    ExecutionError,
    JobError,
    ParseError,
    PlanError,
    SqlError,
    UnsupportedError,
)
from sqlengine.access.policy import Forbidden, Unauthorised
from sqlengine.broker.topic_access import BadRequest
from sqlengine.jobs.error_texts import rendered
from sqlengine.system.hidden import hidden

_TABLE_API: Final = "org.apache.flink.table.api"
_GATEWAY: Final = "org.apache.flink.table.gateway.service.utils.SqlExecutionException"
_CLASSES: Final = (
    (ParseError, f"{_TABLE_API}.SqlParserException"),
    (UnsupportedError, "java.lang.UnsupportedOperationException"),
    (PlanError, f"{_TABLE_API}.ValidationException"),
    (ExecutionError, f"{_TABLE_API}.TableException"),
)
_END: Final = "unexpected end of statement"
_STATUS: Final = ((Unauthorised, 401), (Forbidden, 403), (BadRequest, 400))


def failure(error: SqlError, sql: str = "", status: int | None = None) -> Response:
    """Returns an error as a response. `sql`: the statement that it is about."""
    name = next((name for kind, name in _CLASSES if isinstance(error, kind)), _GATEWAY)
    told = hidden(rendered(error, sql) if sql else str(error))
    if isinstance(error, ParseError) and _END in error.message:
        told += '\nEncountered "<EOF>"'  # by which the SQL client asks for more lines
    trace = f"<Exception on server side:\n{name}: {told}\nEnd of exception on server side>"
    first = "Internal server error." if status is None else str(error)
    return errors([first, trace], status or status_of(error))


def errors(texts: Sequence[str], status: int) -> Response:
    """Returns texts as the body of an error."""
    return Response(json.dumps({"errors": list(texts)}), status, mimetype="application/json")


def status_of(error: SqlError) -> int:
    """Returns the HTTP status: 404 for a session or statement that there is not, 500 for all that
    a statement does wrong, as in Flink."""
    if isinstance(error, JobError) and "does not exist" in error.message:
        return 404
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
