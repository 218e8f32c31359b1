"""Rows and log records that clients push: /api/v1/tables/{name}/rows, /v1/logs.

A request is answered once its rows are in the log of the table, from which jobs read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flask import Blueprint, Response, jsonify, request

from parser.errors import ServiceError, SqlError, UnknownObject
from parser.limits import present
from planner.catalog import Table
from sqlengine.access.policy import Action
from sqlengine.api.broker import ClientRates
from sqlengine.api.principal import need, present_principal
from sqlengine.api.problems import problem
from sqlengine.broker.errors import TooFast
from sqlengine.connectors.otlp import messages
from sqlengine.connectors.otlp.connector import logs_inbox, records_of
from sqlengine.connectors.pushed.bodies import BadBody, UnsupportedBody
from sqlengine.connectors.pushed.connector import HttpPushConnector, inbox_of
from sqlengine.connectors.pushed.inbox import RETRY_S, Inbox, NotTaken, Push
from sqlengine.connectors.pushed.metadata import Metadata, encode_metadata
from sqlengine.engine import Engine

# Seconds that a request waits for its rows to be safe.
_PATIENCE_S: Final = 10.0
_LONGEST_KEY: Final = 256
# The name that stands for log records among those of topics, in patterns of an access file.
LOGS: Final = "otlp"


def pushes_blueprint(engine: Engine, rates: ClientRates | None = None) -> Blueprint:
    """Returns the routes; `rates` limits how fast clients push."""
    blueprint = Blueprint("pushes", __name__)

    @blueprint.post("/api/v1/tables/<name>/rows")
    def push(name: str) -> Response:
        """Takes rows: JSON (lines or an array), CSV with a line of names, an Arrow stream."""
        if rates is not None:
            rates.take(request.content_length or 0)
        return _rows(engine, name)

    @blueprint.post("/v1/logs")
    def logs() -> Response:
        """Takes log records by OTLP/HTTP, in JSON or protobuf."""
        need(Action.WRITE_TOPIC, LOGS)
        kind = request.mimetype
        if kind not in (messages.JSON, messages.PROTOBUF):
            hint = f"send {messages.PROTOBUF} or {messages.JSON}"
            return problem(ServiceError(f"log records are not '{kind[:100]}'", hint=hint), 415)
        try:
            if rates is not None:
                rates.take(request.content_length or 0)
            return _log_records(engine, kind, request.get_data(cache=False))
        except messages.BadMessage as error:
            return _refused(kind, error, 400)
        except TooFast as error:
            return _later(_refused(kind, error, 429))
        except NotTaken as error:
            return _later(_refused(kind, error, 503))

    return blueprint


def _rows(engine: Engine, name: str) -> Response:
    inbox = inbox_of(engine.receivers, engine.catalog.resolve(tuple(name.split("."))))
    if inbox is None:
        return _no_reader(engine, name)
    try:
        records = inbox.bodies.records(request.get_data(cache=False), request.mimetype)
        repeated = _pushed(inbox, records).repeated
    except BadBody as error:
        return problem(error, 400)
    except UnsupportedBody as error:
        return problem(error, 415)
    except NotTaken as error:
        return _later(problem(error, 503))
    return jsonify({"rows": 0 if repeated else len(records), "repeated": repeated})


def _log_records(engine: Engine, kind: str, body: bytes) -> Response:
    read = messages.rows_of_json if kind == messages.JSON else messages.rows_of_protobuf
    rows = read(body)
    inbox = logs_inbox(engine.receivers)
    if inbox is None:
        raise NotTaken("no job reads log records now")
    limits = present()
    kept = records_of(rows, limits.record_size, limits.request_size)
    _pushed(inbox, kept.records)
    why = []
    if kept.too_large:
        why.append(f"records of more than {limits.record_size} bytes are not taken")
    if kept.too_many:
        most = f"more than {limits.request_size} bytes of records, each with its resource"
        why.append(f"{most}, are not taken at once: send fewer")
    rejected = kept.too_large + kept.too_many
    return Response(messages.answer(kind, rejected, "; ".join(why)), 200, mimetype=kind)


def _pushed(inbox: Inbox, records: Sequence[bytes]) -> Push:
    """Puts records into an inbox and waits until they are safe. NotTaken where they are not,
    BadBody for a key that is too long."""
    principal = present_principal()
    name = principal.name or None
    common = encode_metadata(Metadata(request.remote_addr, name))
    key = request.headers.get("Idempotency-Key")
    if key is not None and len(key) > _LONGEST_KEY:
        raise BadBody(f"an Idempotency-Key has {_LONGEST_KEY} characters at most")
    if not records:
        return Push((), ())
    # Others may use the same keys.
    key = None if key is None else f"{principal.name} {key}"
    first = common if key is None else encode_metadata(Metadata(request.remote_addr, name, key))
    push = inbox.offer(Push(records, [first, *[common] * (len(records) - 1)], key))
    push.wait(_PATIENCE_S)
    return push


def _no_reader(engine: Engine, name: str) -> Response:
    """Returns the refusal for a table that no job reads."""
    table = engine.catalog.get(tuple(name.split(".")))
    if not isinstance(table, Table) or table.connector != HttpPushConnector.name:
        hint = f"CREATE TABLE … WITH ('connector' = '{HttpPushConnector.name}', 'format' = 'json')"
        return problem(UnknownObject(f"no table '{name}' takes rows", hint=hint), 404)
    hint = "start a job that reads it, and send the rows again"
    return _later(problem(NotTaken(f"no job reads table '{name}' now", hint=hint), 503))


def _refused(kind: str, error: SqlError, status: int) -> Response:
    """Returns a refusal in the encoding of the request."""
    if kind == messages.JSON:  # a problem has a `message`, as OTLP wants it
        return problem(error, status)
    return Response(messages.failure(str(error)), status, mimetype=kind)


def _later(response: Response) -> Response:
    response.headers["Retry-After"] = str(RETRY_S)
    return response
