"""Flink's SQL Gateway (REST, versions 1 to 3): its SQL client, its JDBC driver and all that speaks
as they do.

    POST   /v2/sessions                                    opens a session
    POST   /v2/sessions/S/statements                       begins an operation
    GET    /v2/sessions/S/operations/O/result/TOKEN        a page of its results
    DELETE /v2/sessions/S/operations/O/close               forgets it

An operation is a query of `QueryService` that ends with its session."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from flask import Blueprint, Response, jsonify, request
from werkzeug.routing import BaseConverter

from parser.errors import JobError, SqlError, UnsupportedError
from planner.setting_keys import check_setting
from planner.settings import UNKNOWN_OPTIONS
from sqlengine.api.auditing import note
from sqlengine.api.broker import client_name
from sqlengine.api.gateway.bodies import Body
from sqlengine.api.gateway.completion import candidates
from sqlengine.api.gateway.errors import failure
from sqlengine.api.gateway.execution import ConfiguringExecution, GatewayExecution
from sqlengine.api.gateway.results import MAX_WAIT_S, result_page, status_of, zone_of
from sqlengine.api.gateway.rows import JSON, PLAIN_TEXT
from sqlengine.api.principal import present_principal, present_rights
from sqlengine.broker.topic_access import BadRequest
from sqlengine.connectors.plain_secrets import shown
from sqlengine.jobs.targets import TARGET, TARGETS
from sqlengine.queries.client_session import ClientSession
from sqlengine.queries.query import Query
from sqlengine.queries.service import QueryService
from sqlengine.system.data_folder import VERSION

# Clients take the highest one of these that they know. Drivers before Flink 1.20 do not get over a
# version that they do not know, and the third has nothing for us.
ANNOUNCED: Final = ("V1", "V2")
# Scripts for Flink have settings that mean nothing here.
_LENIENT: Final = {UNKNOWN_OPTIONS: "ignore"}


class GatewayVersion(BaseConverter):
    """The version in a path."""

    regex = "v[123]"


def gateway_blueprint(service: QueryService) -> Blueprint:
    """Returns the routes of the gateway."""
    blueprint = Blueprint("gateway", __name__)
    blueprint.record_once(lambda setup: setup.app.url_map.converters.update(gateway=GatewayVersion))
    blueprint.register_error_handler(SqlError, failure)
    _add_information(blueprint)
    _add_sessions(blueprint, service)
    _add_statements(blueprint, service)
    _add_operations(blueprint, service)
    return blueprint


def _add_information(blueprint: Blueprint) -> None:
    @blueprint.get("/<gateway:version>/info")
    def info(version: str) -> Response:
        """Says what this is."""
        return jsonify({"productName": "sqlengine", "version": VERSION})

    @blueprint.get("/<gateway:version>/api_versions")
    def api_versions(version: str) -> Response:
        """Lists the versions that clients may use."""
        return jsonify({"versions": list(ANNOUNCED)})


def _add_sessions(blueprint: Blueprint, service: QueryService) -> None:
    @blueprint.post("/<gateway:version>/sessions")
    def open_session(version: str) -> Response:
        """Opens a session with properties, which are its settings."""
        settings = _settings(Body().texts("properties"))
        return jsonify({"sessionHandle": service.open_session(present_principal(), settings)})

    @blueprint.get("/<gateway:version>/sessions/<session>")
    def show_session(version: str, session: str) -> Response:
        """Shows the settings of a session."""
        return jsonify({"properties": dict(_used(service, session).settings)})

    @blueprint.delete("/<gateway:version>/sessions/<session>")
    def close_session(version: str, session: str) -> Response:
        """Closes a session, with its objects and its queries."""
        service.close_session(session, present_principal())
        return jsonify({"status": "CLOSED"})

    @blueprint.post("/<gateway:version>/sessions/<session>/heartbeat")
    def heartbeat(version: str, session: str) -> Response:
        """Notes that somebody uses a session."""
        _used(service, session)
        return jsonify({})

    @blueprint.post("/<gateway:version>/sessions/<session>/materialized-tables/<name>/refresh")
    def refresh(version: str, session: str, name: str) -> Response:
        """Refuses to refresh a materialized table: there are none."""
        _used(service, session)
        error = UnsupportedError(
            f"materialized table '{name}' cannot be refreshed",
            detail="materialized tables are not supported here",
            hint="write INSERT INTO a_table SELECT …, whose job keeps the table up to date",
        )
        return failure(error)


def _add_statements(blueprint: Blueprint, service: QueryService) -> None:
    def begin(
        session: str,
        sql: str,
        timeout_ms: int = 0,
        settings: Mapping[str, str] = MappingProxyType({}),
        execution: type[GatewayExecution] = GatewayExecution,
    ) -> Query:
        note(detail=shown(sql))
        return service.operate(
            sql,
            session,
            partial(execution, settings=settings),
            client=client_name(),
            timeout_s=timeout_ms / 1000 or None,
            by=present_principal(),
            rights=present_rights(),
        )

    @blueprint.post("/<gateway:version>/sessions/<session>/statements")
    def execute(version: str, session: str) -> Response:
        """Begins to execute a statement."""
        body = Body()
        settings = _settings(body.texts("executionConfig"))
        timeout_ms = body.number("executionTimeout")
        query = begin(session, body.statement(), timeout_ms, settings)
        return jsonify({"operationHandle": query.identity})

    @blueprint.post("/<gateway:version>/sessions/<session>/configure-session")
    def configure(version: str, session: str) -> Response:
        """Executes a statement that changes the session, and waits for its end."""
        sql = Body().statement()
        try:
            query = begin(session, sql, execution=ConfiguringExecution)
            while not query.buffer.ended:
                query.buffer.wait_ready(MAX_WAIT_S)
            query.buffer.page(0, 0)
        except SqlError as error:
            return failure(error, sql)
        service.stop(query.identity, present_principal())
        return jsonify({})

    @blueprint.get("/<gateway:version>/sessions/<session>/complete-statement")
    def complete(version: str, session: str) -> Response:
        """Lists the words that may stand at a position of a statement."""
        body, names = Body(), service.names(session, present_principal())
        position = body.number("position")
        return jsonify({"candidates": candidates(body.statement(), position, names)})


def _add_operations(blueprint: Blueprint, service: QueryService) -> None:
    place: Final = "/<gateway:version>/sessions/<session>/operations/<handle>"

    def found(session: str, handle: str) -> Query:
        _used(service, session)
        query = service.query(handle, present_principal())
        if query.session != session:
            raise JobError(f"operation '{handle}' does not exist in this session")
        return query

    @blueprint.get(f"{place}/status")
    def status(version: str, session: str, handle: str) -> Response:
        """Says how far an operation is."""
        return jsonify({"status": status_of(found(session, handle))})

    @blueprint.get(f"{place}/result/<int:token>")
    def fetch(version: str, session: str, handle: str, token: int) -> Response:
        """Returns a page of the results, or the last one again."""
        query = found(session, handle)
        row_format = request.args.get("rowFormat", JSON)
        if row_format not in (JSON, PLAIN_TEXT):
            raise BadRequest(f"'{row_format[:60]}' is no rowFormat", hint=f"{JSON} or {PLAIN_TEXT}")
        zone = zone_of(_used(service, session).settings)
        uri = f"/{version}/sessions/{session}/operations/{handle}/result/"
        try:
            page = result_page(query, token, uri, row_format, zone)
        except SqlError as error:
            return failure(error, query.sql)
        return Response(page, mimetype="application/json")

    @blueprint.post(f"{place}/cancel")
    def cancel(version: str, session: str, handle: str) -> Response:
        """Ends an operation."""
        query = found(session, handle)
        query.stop()
        return jsonify({"status": status_of(query)})

    @blueprint.delete(f"{place}/close")
    def close(version: str, session: str, handle: str) -> Response:
        """Ends an operation, and forgets its results."""
        service.stop(found(session, handle).identity, present_principal())
        return jsonify({"status": "CLOSED"})


def _used(service: QueryService, session: str) -> ClientSession:
    """Returns a session, whose statements go on as long as who uses it now may ask."""
    return service.session(session, present_principal(), present_rights())


def _settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns properties as settings, without those that only Flink's own processes have: its
    clients send all that is in their configuration."""
    settings = {**_LENIENT, **properties}
    if settings.get(TARGET) not in TARGETS:
        settings.pop(TARGET, None)
    return {key: value for key, value in settings.items() if _is_taken(key, value)}


def _is_taken(key: str, value: str) -> bool:
    try:
        check_setting(key, value, _LENIENT)
    except SqlError:
        return False
    return True
