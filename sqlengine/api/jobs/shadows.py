"""/api/v1/jobs/NAME/diff and /promote: shadows of rules, beside their live versions."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify
from msgspec import to_builtins

from sqlengine.api.conventions.preconditions import expected
from sqlengine.api.jobs.job_json import outcome_json
from sqlengine.api.principal import present_principal, request_origin
from sqlengine.api.queries import flag
from sqlengine.engine import Engine


def shadows_blueprint(engine: Engine) -> Blueprint:
    """Returns the routes of shadows."""
    blueprint = Blueprint("shadows", __name__, url_prefix="/api/v1/jobs")

    @blueprint.get("/<name>/diff")
    def diff(name: str) -> Response:
        """Tells what the shadow of a rule would have added to its tables, and left out."""
        return jsonify(to_builtins(engine.difference(name)))

    @blueprint.post("/<name>/promote")
    def promote(name: str) -> Response:
        """Lets the shadow of a rule take the place of its live version, with its state."""
        done = engine.promote(
            name,
            request_origin(),
            present_principal(),
            dry_run=flag("dry-run"),
            expected=expected(),
        )
        return jsonify(outcome_json(done))

    return blueprint
