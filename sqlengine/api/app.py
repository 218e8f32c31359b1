"""The Flask application: routes, errors, and who may ask."""

from __future__ import annotations

from functools import partial

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from parser.errors import ServiceError, SqlError
from parser.limits import present
from sqlengine.access.audit.log import NO_AUDIT, Audit
from sqlengine.api.access import admission, authorise, refusal
from sqlengine.api.ad_hoc import ad_hoc_blueprint
from sqlengine.api.audit import audit_blueprint
from sqlengine.api.auditing import add_audit, note_request, told
from sqlengine.api.broker import ClientRates, broker_blueprint
from sqlengine.api.content_encoding import unpack
from sqlengine.api.conventions.dry_runs import check_dry_run
from sqlengine.api.conventions.idempotency import Answers, add_idempotency
from sqlengine.api.dead_letters import dead_letters_blueprint
from sqlengine.api.definitions import definitions_blueprint
from sqlengine.api.gateway.routes import gateway_blueprint
from sqlengine.api.health import health_blueprint
from sqlengine.api.instances import instances_blueprint
from sqlengine.api.jobs.costs import costs_blueprint
from sqlengine.api.jobs.routes import jobs_blueprint
from sqlengine.api.jobs.shadows import shadows_blueprint
from sqlengine.api.jobs.watched_folder import NO_FOLDER, WatchedFolder
from sqlengine.api.openapi.document import openapi_blueprint
from sqlengine.api.problems import problem
from sqlengine.api.pushes import pushes_blueprint
from sqlengine.api.routes import new_app
from sqlengine.api.rsqldb import rsqldb_blueprint
from sqlengine.api.serving.admission import Admit
from sqlengine.api.serving.request_parser import too_large
from sqlengine.api.short_appends import ShortAppends
from sqlengine.api.short_reads import ShortReads
from sqlengine.api.spark import spark_blueprint
from sqlengine.api.state import state_blueprint
from sqlengine.api.topics import groups_blueprint, topics_blueprint
from sqlengine.api.waiting import add_shares
from sqlengine.control.sealed_commands import command_texts, seal_appends
from sqlengine.engine import Engine
from sqlengine.engine.views.topic_users import users_of_topic
from sqlengine.queries.service import QueryService


def create_app(
    engine: Engine,
    folder: WatchedFolder = NO_FOLDER,
    queries: QueryService | None = None,
    admit: Admit | None = None,
    audit: Audit = NO_AUDIT,
) -> Flask:
    """The server's routes over an engine and its watched folder; `queries` runs ad-hoc statements,
    `admit` decides on requests that the server has not admitted (by default as its configuration
    says), `audit` is told of what is asked."""
    app = new_app("sqlengine")
    app.config["MAX_CONTENT_LENGTH"] = present().request_size
    app.url_map.merge_slashes = False  # a name that is missing is an error and no redirection
    queries = queries or QueryService(engine)
    app.register_blueprint(jobs_blueprint(engine, folder, lambda: queries.closed))
    app.register_blueprint(shadows_blueprint(engine))
    rates = ClientRates(engine.config.client_rate, engine.now_ms)
    app.register_blueprint(topics_blueprint(engine, rates))
    app.register_blueprint(groups_blueprint(engine))
    app.register_blueprint(pushes_blueprint(engine, rates))
    app.register_blueprint(
        broker_blueprint(
            engine.broker,
            lambda topic: users_of_topic(engine, topic),
            rates,
            audit,
            partial(seal_appends, command_texts(engine.config)),
        )
    )
    app.register_blueprint(dead_letters_blueprint(engine))
    app.register_blueprint(definitions_blueprint(engine))
    app.register_blueprint(state_blueprint(engine))
    app.register_blueprint(ad_hoc_blueprint(queries))
    app.register_blueprint(gateway_blueprint(queries))
    app.register_blueprint(rsqldb_blueprint(engine))
    app.register_blueprint(openapi_blueprint())
    app.register_blueprint(instances_blueprint(engine))
    app.register_blueprint(spark_blueprint(engine))
    app.register_blueprint(costs_blueprint(engine))
    app.register_blueprint(audit_blueprint(engine))
    app.register_blueprint(health_blueprint(engine, audit))
    decide = admit or admission(engine.config, engine.access)

    @app.before_request
    def guard() -> Response | None:
        refused = refusal(decide)
        if refused is not None:
            told()
            return refused
        authorise(engine.access)
        note_request()
        check_dry_run()
        return unpack(present().request_size)

    if engine.access.told_apart:
        add_shares(app)
    add_audit(app, audit)
    add_idempotency(app, Answers(engine.broker, engine.now_ms))
    # In this place as Flask's documentation puts what is around an application.
    reads = ShortReads(app.wsgi_app, engine.broker, engine.access, audit)
    app.wsgi_app = reads  # type: ignore[method-assign]
    if audit is NO_AUDIT and not engine.access.told_apart and engine.config.client_rate is None:
        appends = ShortAppends(reads, engine.broker, engine.now_ms)
        app.wsgi_app = appends  # type: ignore[method-assign]

    @app.errorhandler(SqlError)
    def sql_error(error: SqlError) -> Response:
        return problem(error)

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        return problem(_explained(error), error.code)

    @app.errorhandler(ValueError)
    def bad_value(error: ValueError) -> Response:
        return problem(ServiceError("a parameter has a bad value", detail=str(error)), 400)

    return app


def _explained(error: HTTPException) -> SqlError:
    """Returns an HTTP error of the framework as a ServiceError with a message and a hint."""
    asked = f"{request.method} {request.path}"[:200]
    match error.code:
        case 404:
            return ServiceError(
                f"there is no {asked}",
                hint="/api/v1/openapi.json lists the paths",
            )
        case 405:
            allowed = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
            return ServiceError(f"there is no {asked}", hint=f"allowed there: {allowed}")
        case 413:
            return too_large().error
        case 500:
            return ServiceError(
                f"internal error in {asked}", detail="the server's log has the trace"
            )
    return ServiceError((error.description or error.name).rstrip(".").lower())
