"""/api/v1/live and /api/v1/audit: which jobs ran at a moment of the past, and who changed what."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from flask import Blueprint, Response, jsonify, request

from sqlengine.access.audit.live import KnownJob, jobs_at
from sqlengine.access.audit.log import FOLDER, files_in, time_text
from sqlengine.access.audit.reading import Wanted, events_in
from sqlengine.access.policy import Action
from sqlengine.api.conventions.pages import page_of
from sqlengine.api.principal import may
from sqlengine.api.queries import whole_number
from sqlengine.broker.topic_access import BadRequest
from sqlengine.connectors.plain_secrets import masked
from sqlengine.engine import Engine
from sqlengine.jobs.trail import text_hash
from sqlengine.system.sizes import moment_ms

_MOST = 1000


def audit_blueprint(engine: Engine) -> Blueprint:
    """Returns the routes over the audit log of the server."""
    blueprint = Blueprint("audit", __name__, url_prefix="/api/v1")
    folder = engine.config.data / FOLDER

    @blueprint.get("/live")
    def live() -> Response:
        """Lists the jobs that ran at ?at= (ms, or ISO 8601), with the versions and texts that they
        had."""
        asked = request.args.get("at")
        now = engine.now_ms()
        at = now if asked is None else moment_ms(asked)
        if at > now:
            raise BadRequest(
                f"which jobs will run at {time_text(at)} is not known",
                detail=f"it is {time_text(now)} now, by the clock of the server",
                hint="leave 'at' out for the jobs that run now",
            )
        found = jobs_at(folder, at)
        known = found.live()
        seen = sorted(name for name in known if may(Action.SEE_JOB, name))
        names, following = page_of(seen, str)
        jobs = [_live_json(engine, name, known[name]) for name in names]
        body = {"at": time_text(at), "known": found.known, "server_ran": found.up}
        proof = {"proven": found.proven, "last_line": found.last}
        return jsonify({**body, **proof, "jobs": jobs, "next": following})

    @blueprint.get("/audit")
    def audit() -> Response:
        """Lists lines of the audit log behind number ?after=, at most ?limit= (1000): of ?job=,
        from ?since= to ?until=."""
        events = _events(folder, min(whole_number("limit", _MOST), _MOST))
        return jsonify({"events": events, "next": events[-1]["n"] if events else None})

    return blueprint


def _events(folder: Path, limit: int) -> Sequence[dict[str, object]]:
    texts = request.args.get("since"), request.args.get("until")
    since, until = (None if text is None else time_text(moment_ms(text)) for text in texts)
    wanted = Wanted(request.args.get("job"), since, until, whole_number("after", 0))
    return list(islice(events_in(files_in(folder), wanted), limit))


def _live_json(engine: Engine, name: str, job: KnownJob) -> dict[str, object]:
    version = engine.log.versions.get(name, {}).get(job.version)
    return {
        "name": name,
        "version": job.version,
        "since": job.since,
        "by": job.by,
        "peer": job.peer,
        "sql": None if version is None else masked(version.sql),
        "text_sha256": job.hash,
        "text_proven": version is not None and text_hash(version.sql) == job.hash,
    }
