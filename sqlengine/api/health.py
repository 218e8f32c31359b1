"""/healthz (alive), /readyz (recovered and running), /metrics (Prometheus)."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from sqlengine.engine import Engine
from sqlengine.metrics import render


def health_blueprint(engine: Engine) -> Blueprint:
    blueprint = Blueprint("health", __name__)

    @blueprint.get("/healthz")
    def healthz() -> tuple[Response, int]:
        """200 while the graph's thread is sound; 503 after an internal error."""
        broken = engine.graphs.broken
        return jsonify(
            {"status": "broken" if broken else "ok", "problem": engine.graphs.problem}
        ), 503 if broken else 200

    @blueprint.get("/readyz")
    def readyz() -> tuple[Response, int]:
        """200 once jobs run and changes are taken; 503 while the graph stands still, with the
        reason."""
        problem = engine.graphs.problem
        ready = engine.ready and problem is None
        return jsonify(
            {"status": "ready" if ready else "not ready", "problem": problem}
        ), 200 if ready else 503

    @blueprint.get("/metrics")
    def metrics() -> Response:
        return Response(render(engine), mimetype="text/plain; version=0.0.4")

    return blueprint
