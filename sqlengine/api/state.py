"""State of jobs over HTTP: savepoints, rows of operators, and statements that stop jobs."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request
from msgspec import to_builtins

from parser.errors import SqlError
from sqlengine.access.policy import Action
from sqlengine.api.auditing import note
from sqlengine.api.conventions.pages import page_behind
from sqlengine.api.jobs.job_json import outcome_json
from sqlengine.api.jobs.job_requests import body_text
from sqlengine.api.principal import may, need, present_principal, request_origin
from sqlengine.api.problems import describe
from sqlengine.api.queries import flag, whole_number
from sqlengine.connectors.plain_secrets import masked
from sqlengine.engine import Engine
from sqlengine.engine.statements import execute
from sqlengine.engine.views.state_views import OperationView
from sqlengine.snapshots.savepoint_files import Savepoint

_DEFAULT_ROWS, _MAX_ROWS = 100, 10_000


def state_blueprint(engine: Engine) -> Blueprint:
    """The routes over one engine."""
    blueprint = Blueprint("state", __name__, url_prefix="/api/v1")

    @blueprint.post("/jobs/<name>/savepoints")
    def save(name: str) -> Response:
        """Writes a savepoint below ?folder=; the job runs on."""
        save = engine.save_prepared if flag("dry-run") else engine.save_job
        return jsonify(outcome_json(save(name, request.args.get("folder"))))

    @blueprint.get("/savepoints")
    def all_savepoints() -> Response:
        """Lists the savepoints in ?folder=, or in the default one."""
        seen = [s for s in engine.savepoints.all(request.args.get("folder")) if _is_seen(s)]
        found, following = page_behind(seen, _path)
        savepoints = [
            _short(s) if isinstance(s, Savepoint) else {"error": describe(s)} for s in found
        ]
        return jsonify({"savepoints": savepoints, "next": following})

    @blueprint.get("/savepoints/<name>")
    def show(name: str) -> Response:
        """Shows a savepoint of the default folder by its name, or any by its path, ?at=."""
        savepoint = engine.savepoints.show(request.args.get("at") or name)
        need(Action.SEE_JOB, savepoint.job)
        return jsonify(
            to_builtins(savepoint) | _short(savepoint) | {"operations": _operations(savepoint)}
        )

    @blueprint.delete("/savepoints/<name>")
    def delete(name: str) -> Response:
        path = request.args.get("at") or name
        savepoint = engine.savepoints.show(path)
        need(Action.CHANGE_JOB, savepoint.job)
        return jsonify(_short(savepoint if flag("dry-run") else engine.savepoints.delete(path)))

    @blueprint.get("/jobs/<name>/state")
    def state(name: str) -> Response:
        """Shows rows, keys and bytes of each operation of the job."""
        return jsonify(
            {"job": name, "operations": [_operation(o) for o in engine.state.operations(name)]}
        )

    @blueprint.get("/jobs/<name>/state/<int:operation>")
    def rows(name: str, operation: int) -> Response:
        """Shows at most ?limit= rows of each table of an operation, by its number."""
        limit = max(0, min(whole_number("limit", _DEFAULT_ROWS), _MAX_ROWS))
        tables = [
            {"name": t.name, "columns": t.columns, "rows": t.rows, "total": t.total}
            for t in engine.state.rows(name, operation, limit)
        ]
        return jsonify({"job": name, "operation": operation, "tables": tables})

    @blueprint.post("/statements")
    def statements() -> Response:
        """Executes STOP JOB 'name' [WITH SAVEPOINT [WITH DRAIN]], SHOW JOBS, ALTER TABLE and
        ALTER VIEW, and SET before them."""
        text = body_text()
        note(detail=masked(text))
        answers = execute(engine, text, request_origin(), present_principal())
        return jsonify({"results": [{"columns": a.columns, "rows": a.rows} for a in answers]})

    return blueprint


def _is_seen(savepoint: Savepoint | SqlError) -> bool:
    """True for a savepoint that who asks may see; what cannot be read is for administrators."""
    if isinstance(savepoint, Savepoint):
        return may(Action.SEE_JOB, savepoint.job)
    return may(Action.ADMINISTER)


def _path(savepoint: Savepoint | SqlError) -> str:
    """Returns the path of a savepoint; of one that cannot be read, what says so."""
    return savepoint.path if isinstance(savepoint, Savepoint) else savepoint.message


def _operation(view: OperationView) -> dict[str, object]:
    tables = [
        {"name": t.name, "rows": t.rows, "bytes": t.bytes, "layout": t.layout}
        for t in view.state.tables
    ]
    return {
        "operation": view.number,
        "name": view.state.name,
        "state": view.state.job_state,
        "jobs": sorted(view.state.jobs),
        "rows": view.state.rows,
        "keys": view.keys,
        "bytes": view.state.bytes,
        "tables": tables,
    }


def _short(savepoint: Savepoint) -> dict[str, object]:
    keys = ("path", "job", "version", "created_ms", "epoch", "format", "rows", "bytes")
    return {key: getattr(savepoint, key) for key in keys}


def _operations(savepoint: Savepoint) -> list[dict[str, object]]:
    """Returns the operations of a savepoint, without the properties that decide on takeover."""
    return [
        {"name": o.operation.name, "state": o.job_state, "tables": to_builtins(o.tables)}
        for o in savepoint.operations
    ]
