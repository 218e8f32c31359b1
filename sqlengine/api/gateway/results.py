"""Pages of results as Flink's clients read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from parser.errors import ServiceError
from parser.types import STRING, Column, Schema
from planner.settings import TIME_ZONE
from sqlengine.api.gateway.logical_types import type_json
from sqlengine.api.gateway.rows import rows_json
from sqlengine.batch import from_pydict
from sqlengine.queries.insert_jobs import job_id
from sqlengine.queries.query import Query, QueryState
from sqlengine.queries.results import Page

# The longest that a request waits for rows: Flink's clients ask again at once.
MAX_WAIT_S: Final = 1.0
_RESULT: Final = Schema((Column("result", STRING),))


class Status(StrEnum):
    """The states of an operation. One is finished as soon as its results can be fetched."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    ERROR = "ERROR"


def status_of(query: Query) -> Status:
    """Returns the state of the operation that a statement is."""
    if query.state is QueryState.ENDED:
        return Status.CANCELED
    if query.buffer.error is not None:
        return Status.ERROR
    ready = query.buffer.schema is not None or query.buffer.ended
    return Status.FINISHED if ready else Status.RUNNING


def result_page(query: Query, token: int, uri: str, row_format: str, zone: str) -> bytes:
    """Returns a page as JSON. `uri`: of results, without the token; `zone`: of texts.

    Raises the error with which the statement ended, ServiceError for one that was cancelled, and
    TokenMissed for a page that is not to be had."""
    tail = f"?rowFormat={row_format}"
    query.buffer.wait_ready(MAX_WAIT_S)
    if status_of(query) is Status.CANCELED:
        raise ServiceError(
            f"the results of operation {query.identity} cannot be fetched",
            detail="it is in status CANCELED",
        )
    if status_of(query) is Status.RUNNING:
        later = {"resultType": "NOT_READY", "nextResultUri": f"{uri}0{tail}"}
        return json.dumps(later).encode()
    page = query.buffer.page(token, MAX_WAIT_S)
    over = page.next is None and not page.batches and token > 0
    head = {"resultType": "EOS" if over else "PAYLOAD", **_about(query)}
    if not over:
        following = token + 1 if page.next is None else page.next
        head["nextResultUri"] = f"{uri}{following}{tail}"
    return _with_results(head, query, page, row_format, zone)


def _about(query: Query) -> dict[str, object]:
    buffer = query.buffer
    kind = "SUCCESS" if buffer.schema is None else "SUCCESS_WITH_CONTENT"
    about: dict[str, object] = {"isQueryResult": buffer.is_query, "resultKind": kind}
    if buffer.is_query:
        about["jobID"] = query.identity.replace("-", "")
    elif buffer.job is not None:
        about["jobID"] = job_id(buffer.job)
    return about


def _with_results(
    head: dict[str, object], query: Query, page: Page, row_format: str, zone: str
) -> bytes:
    schema = query.buffer.schema or _RESULT
    batches = page.batches
    if query.buffer.schema is None and page.token == 0:
        batches = (from_pydict(_RESULT, {"result": [query.buffer.message or "OK"]}),)
    columns = [{"name": c.name, "logicalType": type_json(c.type), "comment": None} for c in schema]
    results = {"columns": columns, "rowFormat": row_format}
    rows = b",".join(rows_json(b, row_format, zone) for b in batches)
    begin, about = json.dumps(head)[:-1].encode(), json.dumps(results)[:-1].encode()
    return b'%s,"results":%s,"data":[%s]}}' % (begin, about, rows)


def zone_of(settings: Mapping[str, str]) -> str:
    """Returns the time zone in which a session shows instants."""
    zone = settings.get(TIME_ZONE, "default")
    return "UTC" if zone == "default" else zone
