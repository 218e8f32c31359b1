"""/api/v1/topics: the broker over HTTP, for the command line, the demo and other processes of the machine."""

from __future__ import annotations

import json

from flask import Blueprint, Response, jsonify, request

from planner.logical import Scan, Sink
from sqlengine import topic_access
from sqlengine.engine import Engine
from sqlengine.topic_access import BadRequest


def topics_blueprint(engine: Engine) -> Blueprint:
    """The routes over one engine's broker."""
    blueprint = Blueprint("topics", __name__, url_prefix="/api/v1/topics")
    broker = engine.broker

    @blueprint.get("")
    def list_topics() -> Response:
        return jsonify(topic_access.list_topics(broker))

    @blueprint.post("")
    def create() -> Response:
        """JSON {"name", "shards", "compacted", "retention_ms", "retention_bytes", "if_not_exists"}."""
        return jsonify(topic_access.create_topic(broker, _json()))

    @blueprint.get("/<name>")
    def show(name: str) -> Response:
        return jsonify(topic_access.topic_json(broker.topic(name)))

    @blueprint.delete("/<name>")
    def delete(name: str) -> Response:
        return jsonify(topic_access.delete_topic(broker, name, users_of_topic(engine, name)))

    @blueprint.post("/<name>/records")
    def write(name: str) -> Response:
        """One record a line (?shard=N, ?key=text for all of them). Answers the offsets."""
        done = topic_access.append_lines(
            broker,
            name,
            request.get_data(cache=False),
            shard=_number("shard", 0),
            key=request.args.get("key"),
            now_ms=engine.now_ms(),
        )
        return jsonify(done)

    @blueprint.get("/<name>/records")
    def read(name: str) -> Response:
        """Records of one shard from ?offset= (a number, 'earliest' or 'latest'), at most ?limit=; an empty answer comes
        after ?wait= seconds at most."""
        found = topic_access.read_records(
            broker,
            name,
            shard=_number("shard", 0),
            offset=request.args.get("offset", "earliest"),
            limit=_number("limit", 100),
            wait_s=_seconds("wait"),
        )
        return jsonify(found)

    return blueprint


def users_of_topic(engine: Engine, topic: str) -> set[str]:
    """The running jobs that read or write it: without it their graph could not go on."""
    users: set[str] = set()
    for node in [n for g in list(engine.fleet.graphs.values()) for n in g.runner.graph.nodes.values()]:
        table = node.plan.table if isinstance(node.plan, Scan | Sink) else None
        if table is not None and table.options.get("connector") == "topic" and table.options.get("topic") == topic:
            users |= node.jobs
    return users


def _json() -> object:
    try:
        return json.loads(request.get_data(cache=False))
    except ValueError as error:
        raise BadRequest("the body is not JSON", detail=str(error)) from None


def _number(name: str, default: int) -> int:
    text = request.args.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise BadRequest(f"'{name}' must be a whole number", detail=f"it is '{text[:60]}'") from None


def _seconds(name: str) -> float:
    text = request.args.get(name, "0")
    try:
        return float(text)
    except ValueError:
        raise BadRequest(f"'{name}' must be a number of seconds", detail=f"it is '{text[:60]}'") from None
