"""/api/v1/instances: the processes that run jobs in parts."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify
from msgspec import to_builtins

from sqlengine.engine import Engine


def instances_blueprint(engine: Engine) -> Blueprint:
    """The routes over one engine."""
    blueprint = Blueprint("instances", __name__, url_prefix="/api/v1/instances")

    @blueprint.get("")
    def list_instances() -> Response:
        """Lists the instances with their parts; none in a server without instances."""
        return jsonify({"instances": to_builtins(engine.instances.views())})

    return blueprint
