"""/api/v1/queries, /api/v1/sessions and /api/v1/catalog: ad-hoc statements.

    POST /api/v1/queries            SQL as text; the answer has the first page of the result
    GET  /api/v1/queries/ID?page=N  the next page, or the last one again
    DELETE /api/v1/queries/ID       ends it

A page is waited for at most a second, by a thread of the server's lane for requests that wait. Who
accepts `application/vnd.apache.arrow.stream` gets it as an Arrow stream, with the exact types: its
rows, and under `page` in the schema's metadata what else JSON has. Who accepts `text/event-stream`
gets all pages as events, as they come."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
from flask import Blueprint, Response, jsonify, request

from parser.errors import ServiceError
from parser.types import Schema
from sqlengine.api.auditing import note
from sqlengine.api.broker import client_name
from sqlengine.api.conventions.pages import page_behind
from sqlengine.api.events import events_of_query, stream, wants_events
from sqlengine.api.gateway.bodies import check_json
from sqlengine.api.principal import present_principal
from sqlengine.api.queries import flag, seconds, whole_number
from sqlengine.batch import Batch
from sqlengine.broker.topic_access import BadRequest
from sqlengine.client import ARROW_STREAM
from sqlengine.connection.columns import batch_of
from sqlengine.connectors.plain_secrets import shown
from sqlengine.queries.arrow_pages import ARROW_ROWS, arrow_schema, to_record_batch
from sqlengine.queries.execution import Execution
from sqlengine.queries.ingest import IngestExecution
from sqlengine.queries.page import about_page, about_query
from sqlengine.queries.query import Query
from sqlengine.queries.results import PAGE_ROWS, Page, ResultBuffer
from sqlengine.queries.service import QueryService
from sqlengine.queries.writing import WritingExecution

# The longest that a request waits for rows, and for the columns of a new query.
MAX_WAIT_S = 1.0
START_S = 30.0


def ad_hoc_blueprint(service: QueryService) -> Blueprint:
    """Returns the routes of ad-hoc statements."""
    blueprint = Blueprint("ad_hoc", __name__, url_prefix="/api/v1")
    _add_queries(blueprint, service)
    _add_sessions(blueprint, service)
    return blueprint


def _add_queries(blueprint: Blueprint, service: QueryService) -> None:
    @blueprint.get("/queries")
    def list_queries() -> Response:
        """Lists the queries that run."""
        found, following = page_behind(service.running(present_principal()), lambda q: q.identity)
        return jsonify({"queries": [about_query(q) for q in found], "next": following})

    @blueprint.post("/queries")
    def submit() -> Response:
        """Runs a statement: SQL as text, or JSON {"sql"}. ?session= is the session whose tables and
        settings it sees, ?follow=true goes on with rows that come later, ?timeout= ends it after so
        many seconds. With ?write=true it may write: an INSERT runs or becomes a job, CREATE and
        DROP count for all. With ?job= an INSERT becomes the job of that name. A
        stream of Arrow is rows for the statement that the metadata of its schema has as `sql`."""
        sql, execution = _asked()
        note(detail=shown(sql))
        query = service.submit(
            sql,
            session=request.args.get("session"),
            client=client_name(),
            follow=flag("follow"),
            timeout_s=seconds("timeout") or None,
            by=present_principal(),
            execution=execution,
        )
        query.buffer.wait_ready(START_S)
        return _page(query, 0)

    @blueprint.get("/queries/<query>")
    def fetch(query: str) -> Response:
        """Returns a page of the result: ?page=, after at most ?wait= seconds for its first row."""
        found = service.query(query, present_principal())
        return _page(found, whole_number("page", 0))

    @blueprint.delete("/queries/<query>")
    def stop(query: str) -> Response:
        """Ends a query and forgets its result."""
        service.stop(query, present_principal())
        return jsonify({"query": query, "state": "ended"})


def _add_sessions(blueprint: Blueprint, service: QueryService) -> None:
    @blueprint.post("/sessions")
    def open_session() -> Response:
        """Opens a session, which keeps temporary tables, views, functions and settings."""
        return jsonify({"session": service.open_session(present_principal())})

    @blueprint.delete("/sessions/<session>")
    def close_session(session: str) -> Response:
        """Closes a session: its temporary objects are gone."""
        service.close_session(session, present_principal())
        return jsonify({"session": session, "state": "closed"})

    @blueprint.get("/catalog")
    def names() -> Response:
        """Lists tables and views with their columns, functions and jobs, as ?session= sees them."""
        names = service.names(request.args.get("session"), present_principal())
        tables = [{"name": n, "columns": list(c)} for n, c in names.tables.items()]
        return jsonify(
            {"tables": tables, "functions": list(names.functions), "jobs": list(names.jobs)}
        )


def _asked() -> tuple[str, Callable[..., Execution]]:
    """Returns the statement of the present request, and what runs it."""
    data = request.get_data(cache=False)
    if request.mimetype == ARROW_STREAM:
        sql, rows = _with_rows(data)
        return sql, partial(IngestExecution, rows=rows)
    sql = _sql_in_json(data) if request.mimetype == "application/json" else _text(data)
    if not flag("write"):
        return sql, Execution
    return sql, partial(WritingExecution, job=request.args.get("job"))


def _with_rows(data: bytes) -> tuple[str, Batch]:
    """Returns the statement and the rows of a stream of Arrow, which has the one as `sql` in the
    metadata of its schema."""
    if not flag("write"):
        raise BadRequest("rows are for a statement that writes", hint="add ?write=true")
    try:
        with pa.ipc.open_stream(data) as stream:
            sql, rows = (stream.schema.metadata or {}).get(b"sql"), stream.read_all()
        rows.validate(full=True)  # a column that is not what it says could end this process
    except (pa.ArrowException, OSError) as error:
        detail = str(error).partition("\n")[0][:200]
        raise BadRequest("the body is no stream of Arrow", detail=detail) from None
    if sql is None:
        raise BadRequest("the schema of the rows has no statement", hint="metadata {'sql': …}")
    try:
        return _text(sql), batch_of(rows)
    except ServiceError as error:
        raise BadRequest(error.message, detail=error.detail) from None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadRequest("the statement is not UTF-8", detail=str(error)) from None


def _sql_in_json(data: bytes) -> str:
    check_json(data)
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body is not JSON", detail=str(error)) from None
    sql = body.get("sql") if isinstance(body, dict) else None
    if not isinstance(sql, str):
        raise BadRequest("the body needs the statement", hint='send {"sql": "SELECT …"}')
    return sql


def _page(query: Query, number: int) -> Response:
    """Returns a page, after at most MAX_WAIT_S seconds for its first row; for who accepts events
    all pages, as they come."""
    if wants_events():
        return stream(events_of_query(query, MAX_WAIT_S))
    arrow = ARROW_STREAM in request.headers.get("Accept", "")
    wait_s = min(MAX_WAIT_S, seconds("wait", MAX_WAIT_S))
    page = query.buffer.page(number, wait_s, ARROW_ROWS if arrow else PAGE_ROWS)
    about = about_page(query, page)
    if arrow:
        return Response(_arrow(query.buffer, page, about), mimetype=ARROW_STREAM)
    return jsonify(about | {"rows": [[kind, values] for kind, values in page.rows]})


def _arrow(buffer: ResultBuffer, page: Page, about: Mapping[str, object]) -> bytes:
    columns = Schema(()) if buffer.schema is None else buffer.schema
    schema = arrow_schema(columns, changes=buffer.changes)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, schema.with_metadata({"page": json.dumps(about)})) as stream:
        for batch in page.batches:
            stream.write_batch(to_record_batch(batch, schema, changes=buffer.changes))
    data: bytes = out.getvalue().to_pybytes()
    return data
