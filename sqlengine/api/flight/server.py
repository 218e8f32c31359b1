"""Arrow Flight SQL on a port of its own: ADBC, JDBC, and all that speaks it.

    GetFlightInfo(CommandStatementQuery)   begins a query, whose rows DoGet streams
    DoPut(CommandStatementUpdate)          runs CREATE, DROP, INSERT
    DoPut(CommandStatementIngest)          writes rows into a table
    DoAction(CreatePreparedStatement)      …

The messages are those of FlightSql.proto, by hand: it needs no package besides pyarrow."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from parser.errors import ServiceError, UnsupportedError
from planner.catalog import Catalog
from sqlengine.access.audit.log import NO_AUDIT, Audit
from sqlengine.api.flight import messages, options
from sqlengine.api.flight.callers import MIDDLEWARE, Callers, NoHandshake, Sessions
from sqlengine.api.flight.catalog import answer, schema_of
from sqlengine.api.flight.connections import Connections
from sqlengine.api.flight.failures import answering, without_trace
from sqlengine.api.flight.ingest import batches, ingest
from sqlengine.api.flight.prepared import PreparedStatements, shape, template_of
from sqlengine.api.flight.statements import Statements, principal_of, shape_of
from sqlengine.api.flight.wire import BadMessage, Message, field
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.queries.service import QueryService
from sqlengine.system.addresses import host_and_port

log = logging.getLogger("sqlengine")
STOP_S: Final = 3.0
_CANCELLED: Final = 1
_QUERY, _PREPARED_QUERY = "CommandStatementQuery", "CommandPreparedStatementQuery"
_ACTIONS: Final = {
    "CreatePreparedStatement": "prepares a statement",
    "ClosePreparedStatement": "forgets one",
    "CancelQuery": "ends a query",
    "CancelFlightInfo": "ends a query",
    options.SET: "changes settings of the session",
    options.GET: "tells them",
    options.CLOSE: "closes the session",
}


class FlightServer(flight.FlightServerBase):
    """Answers Flight SQL. Listens once it is made, each call in a thread of gRPC.

    ServiceError where it cannot listen, or a file of TLS cannot be read."""

    def __init__(
        self, engine: Engine, queries: QueryService, config: Config, audit: Audit = NO_AUDIT
    ) -> None:
        self._engine = engine
        self._queries = queries
        self._sessions = Sessions(queries)
        self._statements = Statements(queries, self._sessions, audit)
        self._prepared = PreparedStatements()
        place = host_and_port(config.host, config.flight_port or 0)
        scheme = "grpc" if config.tls_certificate is None else "grpc+tls"
        try:
            super().__init__(
                f"{scheme}://{place}",
                auth_handler=NoHandshake(),
                middleware={MIDDLEWARE: Callers(engine.access, audit)},
                **_tls(config),
            )
        except (pa.ArrowException, OSError) as error:
            hint = "choose another --flight-port, or 0 for a free one"
            detail = str(error).partition(". Detail")[0][:300]
            raise ServiceError(
                f"cannot listen on {place} for Flight", detail=detail, hint=hint
            ) from None
        self._connections = Connections(self.port, self._sessions.peers)
        self._connections.start()

    def stop(self) -> None:
        """Takes no more calls. Statements were ended before; a client that reads no more rows is
        not waited for."""
        self._connections.stop()
        ending = threading.Thread(target=self.shutdown, name="flight-stop", daemon=True)
        ending.start()
        ending.join(STOP_S)

    # ---- queries ---------------------------------------------------------------------------------

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        """Lists nothing: tables are found by the commands of the catalog."""
        return iter(())

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """Begins a query, or names the ticket of what the catalog has."""
        with answering("GetFlightInfo"):
            name, message = _command(descriptor)
            schema = schema_of(name, message)
            ticket = descriptor.command
            if schema is None:
                query = self._statements.begin(context, self._asked(context, name, message))
                schema, ticket = shape_of(query), messages.ticket(query.identity)
            return flight.FlightInfo(
                schema, descriptor, [flight.FlightEndpoint(ticket, [])], -1, -1
            )

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """Tells the columns of a command."""
        with without_trace(), answering("GetSchema"):
            name, message = _command(descriptor)
            schema = schema_of(name, message)
            if schema is None:
                schema = self._statements.columns(context, self._asked(context, name, message))
            return flight.SchemaResult(schema)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Streams rows."""
        with answering("DoGet"):
            name, message = messages.read_any(ticket.ticket)
            if name == "TicketStatementQuery":
                schema, rows = self._statements.stream(context, message.text(1) or "")
                return flight.GeneratorStream(schema, _guarded(rows))
            if schema_of(name, message) is None:
                raise UnsupportedError(f"there are no rows for {name[:60]}")
            return flight.RecordBatchStream(answer(name, message, self._catalog(context)))

    def _asked(self, context: Any, name: str, message: Message) -> str:
        """Returns the text of a query."""
        if name == _QUERY:
            _check_alone(message, 2)
            return message.text(1) or ""
        if name == _PREPARED_QUERY:
            return self._prepared.find(message.data(1), principal_of(context).name).query()
        raise UnsupportedError(f"command {name[:60]} is not supported")

    def _catalog(self, context: Any) -> Catalog:
        by = principal_of(context)
        session = self._queries.session(self._sessions.of(context), by)
        return session.place_in(self._engine.catalog)

    # ---- changes ---------------------------------------------------------------------------------

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Refuses: no command of Flight SQL needs it."""
        with answering("DoExchange"):
            raise UnsupportedError("DoExchange is not supported", hint="rows come in by DoPut")

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Runs a statement, binds parameters, or takes rows."""
        with answering("DoPut"), self._statements.streaming(context):
            if descriptor.path:
                parts = tuple(p.decode("utf-8", "replace") for p in descriptor.path)
                wanted = messages.Ingest(parts)
                ingest(self._statements, context, wanted, reader, self._catalog(context))
                return
            name, message = _command(descriptor)
            if name == _PREPARED_QUERY:
                by = principal_of(context).name
                self._prepared.find(message.data(1), by).bind(batches(reader))
                writer.write(pa.py_buffer(field(1, message.data(1) or b"")))
                return
            written = self._written(context, name, message, reader)
            writer.write(pa.py_buffer(messages.update_result(written)))

    def _written(self, context: Any, name: str, message: Message, reader: Any) -> int:
        statements = self._statements
        match name:
            case "CommandStatementUpdate":
                _check_alone(message, 2)
                return statements.run(context, message.text(1) or "")
            case "CommandPreparedStatementUpdate":
                prepared = self._prepared.find(message.data(1), principal_of(context).name)
                updates = prepared.updates(batches(reader))
                return sum(statements.update(context, update) for update in updates)
            case "CommandStatementIngest":
                _check_alone(message, 6)
                wanted = messages.Ingest.of(message)
                return ingest(statements, context, wanted, reader, self._catalog(context))
        raise UnsupportedError(f"command {name[:60]} is not supported")

    # ---- actions ---------------------------------------------------------------------------------

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """Lists what DoAction can do."""
        return list(_ACTIONS.items())

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        """Prepared statements, sessions, and the end of queries."""
        with answering("DoAction"):
            done = self._actions.get(action.type)
            if done is None:
                raise UnsupportedError(f"action {action.type[:60]} is not supported")
            result = done(self, context, action.body.to_pybytes())
        return iter([] if result is None else [flight.Result(pa.py_buffer(result))])

    def _prepare(self, context: Any, body: bytes) -> bytes:
        _, message = messages.read_any(body)
        _check_alone(message, 2)
        sql, by = message.text(1) or "", principal_of(context).name
        rows, parameters = shape(template_of(sql), partial(self._statements.columns, context))
        handle = self._prepared.add(sql, by)
        return messages.prepared_result(handle, _ipc(rows), _ipc(parameters))

    def _close_prepared(self, context: Any, body: bytes) -> None:
        _, message = messages.read_any(body)
        self._prepared.remove(message.data(1), principal_of(context).name)

    def _cancel(self, context: Any, body: bytes) -> bytes:
        """Ends the query of a FlightInfo; the request is an Any only in Flight SQL's own action."""
        try:
            _, message = messages.read_any(body)
        except BadMessage:
            message = Message(body)
        info = flight.FlightInfo.deserialize(message.data(1) or b"")
        for endpoint in info.endpoints:
            _, ticket = messages.read_any(endpoint.ticket.ticket)
            self._statements.cancel(context, ticket.text(1) or "")
        return field(1, _CANCELLED)

    def _set_options(self, context: Any, body: bytes) -> bytes:
        return options.set_options(body, lambda sql: self._statements.run(context, sql))

    def _get_options(self, context: Any, body: bytes) -> bytes:
        session = self._queries.session(self._sessions.of(context), principal_of(context))
        catalog = self._catalog(context)
        return options.options(session.settings, catalog.catalog, catalog.database)

    def _close_session(self, context: Any, body: bytes) -> bytes:
        self._sessions.close(context)
        return options.closed()

    _actions: Final[Mapping[str, Callable[[FlightServer, Any, bytes], bytes | None]]] = {
        "CreatePreparedStatement": _prepare,
        "ClosePreparedStatement": _close_prepared,
        "CancelQuery": _cancel,
        "CancelFlightInfo": _cancel,
        options.SET: _set_options,
        options.GET: _get_options,
        options.CLOSE: _close_session,
    }


def _command(descriptor: Any) -> tuple[str, Message]:
    if descriptor.command is None:
        raise BadMessage("a command of Flight SQL is expected")
    return messages.read_any(descriptor.command)


def _check_alone(message: Message, number: int) -> None:
    """Raises UnsupportedError for a statement in a transaction."""
    if message.data(number):
        raise UnsupportedError("there are no transactions", hint="each statement counts at once")


def _guarded(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with answering("DoGet"):
        yield from rows


def _ipc(schema: pa.Schema) -> bytes:
    data: bytes = schema.serialize().to_pybytes() if len(schema) else b""
    return data


def _tls(config: Config) -> dict[str, object]:
    """Returns the files of TLS as gRPC takes them. They are read once."""
    if config.tls_certificate is None or config.tls_key is None:
        return {}
    pair = (_read(config.tls_certificate), _read(config.tls_key))
    if config.tls_client_ca is None:
        return {"tls_certificates": [pair]}
    authorities = _read(config.tls_client_ca)
    return {"tls_certificates": [pair], "verify_client": True, "root_certificates": authorities}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ServiceError(f"'{path}' cannot be read", detail=error.strerror) from None
