"""/api/v1/topics: the broker over HTTP, for the command line, the demo and other processes of the machine."""

from __future__ import annotations

import base64
import json

from flask import Blueprint, Response, jsonify, request

from parser.errors import ServiceError
from sqlengine.broker.base import Broker, Records, TopicInfo, is_system
from sqlengine.control.commands import COMMANDS
from sqlengine.engine import Engine

MAX_RECORDS = 10_000
MAX_WAIT_S = 1.0


def topics_blueprint(engine: Engine) -> Blueprint:
    """The routes over one engine's broker."""
    blueprint = Blueprint("topics", __name__, url_prefix="/api/v1/topics")
    broker = engine.broker

    @blueprint.get("")
    def list_topics() -> Response:
        return jsonify({"topics": [topic_json(t) for t in broker.topics()]})

    @blueprint.post("")
    def create() -> Response:
        """JSON {"name", "shards", "compacted", "retention_ms", "retention_bytes", "if_not_exists"}."""
        body = request.get_json(force=True)
        _refuse_system(str(body.get("name", "")))
        info = broker.create_topic(
            str(body.get("name", "")),
            int(body.get("shards", 1)),
            compacted=bool(body.get("compacted", False)),
            retention_ms=body.get("retention_ms"),
            retention_bytes=body.get("retention_bytes"),
            if_not_exists=bool(body.get("if_not_exists", False)),
        )
        return jsonify(topic_json(info))

    @blueprint.get("/<name>")
    def show(name: str) -> Response:
        return jsonify(topic_json(broker.topic(name)))

    @blueprint.delete("/<name>")
    def delete(name: str) -> Response:
        _refuse_system(name)
        broker.delete_topic(name)
        return jsonify({"deleted": name})

    @blueprint.post("/<name>/records")
    def write(name: str) -> Response:
        """One record a line (?shard=N, ?key=text for all of them). Answers the offsets."""
        if name != COMMANDS:
            _refuse_system(name)
        lines = [line for line in request.get_data(cache=False).split(b"\n") if line]
        key = request.args.get("key")
        keys = [key.encode()] * len(lines) if key is not None else None
        if name == COMMANDS and keys is None:
            keys = [_command_id(line) for line in lines]
        shard = int(request.args.get("shard", 0))
        done = broker.append(name, shard, lines, keys=keys, timestamp_ms=engine.now_ms())
        return jsonify({"first_offset": done.first_offset, "next_offset": done.next_offset})

    @blueprint.get("/<name>/records")
    def read(name: str) -> Response:
        """Records of one shard from ?offset= (a number, 'earliest' or 'latest'), at most ?limit=; an empty answer comes
        after ?wait= seconds at most."""
        shard = int(request.args.get("shard", 0))
        offset = _offset(broker, name, shard, request.args.get("offset", "earliest"))
        limit = min(int(request.args.get("limit", 100)), MAX_RECORDS)
        wait = min(float(request.args.get("wait", 0)), MAX_WAIT_S)
        records = broker.read(name, shard, offset, max_records=limit)
        if records is None and wait > 0:
            broker.wait_for_data(wait)
            records = broker.read(name, shard, offset, max_records=limit)
        found = [] if records is None else records_json(records)
        return jsonify({"records": found, "next_offset": offset if records is None else records.next_offset})

    return blueprint


def _refuse_system(name: str) -> None:
    if is_system(name):
        raise ServiceError(f"topic '{name}' belongs to the system", hint="choose a name that does not begin with '_'")


def _command_id(line: bytes) -> bytes:
    try:
        return str(json.loads(line)["id"]).encode()
    except (ValueError, KeyError, TypeError):
        raise ServiceError('a command needs an "id"', detail=line[:200].decode("utf-8", "replace")) from None


def _offset(broker: Broker, name: str, shard: int, text: str) -> int:
    if text == "latest":
        return broker.end_offset(name, shard)
    return broker.begin_offset(name, shard) if text == "earliest" else int(text)


def topic_json(info: TopicInfo) -> dict[str, object]:
    return {
        "name": info.name,
        "shards": info.shards,
        "begin": list(info.begin),
        "end": list(info.end),
        "records": sum(info.end) - sum(info.begin),
        "bytes": info.bytes,
        "compacted": info.compacted,
        "retention_ms": info.retention_ms,
        "retention_bytes": info.retention_bytes,
    }


def records_json(records: Records) -> list[dict[str, object]]:
    """Values and keys as text, or as base64 under another name where they are no UTF-8."""
    keys = records.keys.to_pylist() if records.keys is not None else [None] * records.num_rows
    rows = zip(records.offsets.tolist(), records.timestamps.tolist(), keys, records.values.to_pylist(), strict=True)
    found = []
    for offset, timestamp, key, value in rows:
        found.append({"offset": offset, "timestamp": timestamp, **_text("key", key), **_text("value", value)})
    return found


def _text(name: str, value: bytes | None) -> dict[str, object]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
