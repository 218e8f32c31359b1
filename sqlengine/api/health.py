"""/healthz (alive), /readyz (recovered and running), /metrics (Prometheus) and /api/v1/metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from flask import Blueprint, Response, jsonify

from sqlengine.access.audit.log import NO_AUDIT, Audit
from sqlengine.api.conventions.pages import page_of
from sqlengine.engine import Engine
from sqlengine.graphs.totals import Rising

# A graph in one step for so many seconds is not ready.
STANDS_S: Final = 10.0
# Bytes that must be free on the disk of the data folder.
_LEAST_FREE: Final = 64 << 10


def health_blueprint(engine: Engine, audit: Audit = NO_AUDIT) -> Blueprint:
    """The routes over one engine; `audit`: the log that changes wait for."""
    blueprint, rising = Blueprint("health", __name__), Rising()

    @blueprint.get("/healthz")
    def healthz() -> tuple[Response, int]:
        """200 while the graphs are sound; 503 after an internal error. `problem` also names a step
        that takes longer than a second."""
        broken = engine.graphs.broken
        problem = engine.graphs.problem or next(map(str, engine.slow_steps()), None)
        return jsonify(
            {"status": "broken" if broken else "ok", "problem": problem}
        ), 503 if broken else 200

    @blueprint.get("/readyz")
    def readyz() -> tuple[Response, int]:
        """200 once jobs run and changes are taken; 503 while a graph stands still, or is in one
        step for longer than STANDS_S seconds (times its patience), or the disk of the data folder
        is full, or the audit log cannot be written, with the reason."""
        slow, full = engine.slow_steps(), _of_disk(engine.config.data) or _of_audit(audit)
        stands = engine.graphs.problem or full or next((s for s in slow if s.lasts(STANDS_S)), None)
        ready = engine.ready and stands is None
        problem = engine.graphs.problem or full or next(map(str, slow), None)
        problem = problem or _of_access(engine)
        return jsonify(
            {"status": "ready" if ready else "not ready", "problem": problem}
        ), 200 if ready else 503

    @blueprint.get("/metrics")
    def metrics() -> Response:
        from sqlengine.metrics import render

        return Response(render(engine, rising), mimetype="text/plain; version=0.0.4")

    @blueprint.get("/api/v1/metrics")
    def metrics_as_json() -> Response:
        """Returns the metrics as JSON: a page of families by name, each with its samples."""
        from sqlengine.metrics import listed

        families = sorted(listed(engine, rising), key=_name)
        found, following = page_of(families, _name)
        return jsonify({"metrics": found, "next": following})

    return blueprint


def _name(family: Mapping[str, object]) -> str:
    return str(family["name"])


def _of_disk(data: Path) -> str | None:
    """Returns what is wrong with the disk of the data folder: a server without work has not found
    out yet."""
    try:
        found = os.statvfs(data)
    except OSError as error:
        return f"the data folder cannot be read: {error.strerror}"
    # What is reserved, root may use.
    blocks = found.f_bavail if os.geteuid() else found.f_bfree
    if blocks * found.f_frsize < _LEAST_FREE:
        return "the disk of the data folder is full: nothing can be written until there is space"
    return None


def _of_audit(audit: Audit) -> str | None:
    """Returns why no change is taken for want of the audit log, without what it says: anybody may
    ask."""
    if audit.ready():
        return None
    return "the audit log cannot be written: nothing can be changed until there is space"


def _of_access(engine: Engine) -> str | None:
    """Returns what is wrong with the access file, without what it says: anybody may ask. The server
    takes changes by what it said before."""
    if engine.access.problem is None:
        return None
    return "the access file has a fault: what it said before counts, the log has more"
