"""The Flask application: routes, errors, and who may ask."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from parser.errors import ServiceError, SqlError
from sqlengine.api.health import health_blueprint
from sqlengine.api.jobs import jobs_blueprint
from sqlengine.api.problems import problem
from sqlengine.api.topics import topics_blueprint
from sqlengine.engine import Engine

MAX_BODY = 64 << 20
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN = frozenset({"/healthz", "/readyz"})


def create_app(engine: Engine) -> Flask:
    """The server's routes over an engine."""
    app = Flask("sqlengine")
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.register_blueprint(jobs_blueprint(engine))
    app.register_blueprint(topics_blueprint(engine))
    app.register_blueprint(health_blueprint(engine))
    token = engine.config.token

    @app.before_request
    def guard() -> Response | None:
        return _refusal(token)

    @app.errorhandler(SqlError)
    def sql_error(error: SqlError) -> Response:
        return problem(error)

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        return problem(ServiceError((error.description or error.name).rstrip(".").lower()), error.code)

    @app.errorhandler(ValueError)
    def bad_value(error: ValueError) -> Response:
        return problem(ServiceError("a parameter has a bad value", detail=str(error)), 400)

    return app


def _refusal(token: str | None) -> Response | None:
    """With a token, only who has it. Without, only this machine, and no page of a browser on it: a request that names
    another host, or comes from another origin, was made by a web site."""
    if token is not None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if request.path in _OPEN or hmac.compare_digest(given.encode(), token.encode()):
            return None
        return problem(ServiceError("not authorised", hint="send 'Authorization: Bearer TOKEN'"), 401)
    host = urlsplit(f"//{request.host}").hostname
    origin = request.headers.get("Origin")
    if host not in _LOCAL or (origin is not None and urlsplit(origin).hostname not in _LOCAL):
        return problem(ServiceError("requests come from this machine only unless a token is set"), 403)
    return None
