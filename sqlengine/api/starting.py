"""The routes of a server that is recovering its graphs, and the switch to those of one that is
ready."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as AnyResponse

from parser.errors import ServiceError, SqlError
from sqlengine.access.identity import OPEN, Access
from sqlengine.access.policy import Action
from sqlengine.api.access import authorise, refusal
from sqlengine.api.jobs.job_json import job_json
from sqlengine.api.jobs.job_progress import NO_PROGRESS, progress_json
from sqlengine.api.principal import may
from sqlengine.api.problems import problem, refusal_of
from sqlengine.api.routes import new_app
from sqlengine.api.serving.admission import Admit
from sqlengine.engine import Engine
from sqlengine.executors.job_counts import NOTHING
from sqlengine.executors.steps.limits import Steps
from sqlengine.jobs.targets import target_of_graph

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

# Seconds for which a request that removes a job waits for the server to be ready.
_PATIENCE_S: Final = 60.0
_RECOVERS: Final = "it recovers its graphs"


class Gate:
    """The application that an HTTP server serves: what a starting server answers, until `open`.

    `engine`: the one that is being recovered, as soon as it knows its jobs. `admit` decides on
    requests that the server has not admitted, `access` says who makes them."""

    def __init__(self, steps: Steps, admit: Admit, access: Access = OPEN) -> None:
        self.engine: Engine | None = None
        self._steps = steps
        self._app: Flask | None = None
        self._opened = threading.Event()
        self._starting = self._starting_app(admit, access)

    def attach(self, engine: Engine) -> None:
        """Answers with the jobs of an engine that is being recovered."""
        self.engine = engine

    def open(self, app: Flask) -> None:
        """Serves `app` from now on."""
        self._app = app
        self._opened.set()

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        return (self._app or self._starting)(environ, start)

    # ---- while the server starts -----------------------------------------------------------------

    def _starting_app(self, admit: Admit, access: Access) -> Flask:
        app = new_app("sqlengine-starting")
        app.before_request(lambda: refusal(admit))
        app.before_request(lambda: authorise(access))
        app.add_url_rule("/healthz", "healthz", self._health)
        app.add_url_rule("/readyz", "readyz", self._readiness)
        app.add_url_rule("/api/v1/jobs", "jobs", self._jobs)
        app.add_url_rule("/api/v1/jobs/<name>", "remove", self._leave, methods=["DELETE"])
        app.add_url_rule("/api/v1/jobs/<name>/stop", "stop", self._leave, methods=["POST"])
        app.register_error_handler(SqlError, problem)
        app.register_error_handler(HTTPException, lambda error: self._not_yet())
        return app

    def _problem(self) -> str:
        """Returns what the server is doing, for people."""
        return next(map(str, self._steps.slow()), f"the server starts: {_RECOVERS}")

    def _health(self) -> Response:
        return jsonify({"status": "ok", "problem": self._problem()})

    def _readiness(self) -> tuple[Response, int]:
        return jsonify({"status": "not ready", "problem": self._problem()}), 503

    def _jobs(self) -> Response:
        """Lists the jobs as they were when the server ended."""
        if self.engine is None:
            return self._not_yet()
        hints: dict[str, str] = {}
        for step in self._steps.slow():
            hints |= dict.fromkeys(step.jobs, str(step))
        log, unknown = self.engine.log, progress_json(NO_PROGRESS, details=False)
        default = self.engine.config.target
        jobs = [
            job_json(
                job,
                log.version(job.name, job.version),
                NOTHING,
                hints.get(job.name),
                target=target_of_graph(job.graph, default),
            )
            | unknown
            for job in self.engine.jobs()
            if may(Action.SEE_JOB, job.name)
        ]
        return jsonify({"jobs": jobs, "refused_files": [], "overridden_files": [], "next": None})

    def _leave(self, name: str) -> AnyResponse:
        """Removes or stops a job: the graph that is in a long step of it is recovered without it,
        and the request is answered once the server is ready."""
        if self.engine is None:
            return self._not_yet()
        self.engine.job(name)  # JobError if there is none
        with self._steps.leaving((name,)):
            ready = self._opened.wait(_PATIENCE_S)
            if self._app is None or not ready:
                return self._not_yet()
            return AnyResponse.from_app(self._app, request.environ)

    def _not_yet(self) -> Response:
        """The answer to what only a server that is ready can do."""
        detail = next(map(str, self._steps.slow()), _RECOVERS)
        error = ServiceError(
            "the server starts", detail=detail, hint="try again; GET /readyz says when"
        )
        kind, body = refusal_of(error, 503, request.path)
        response = Response(body, 503, mimetype=kind)
        response.headers["Retry-After"] = "1"
        return response
