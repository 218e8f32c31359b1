"""/api/v1/topics: the broker over HTTP, for the command line, the demo and other processes of the
machine."""

from __future__ import annotations

import json
import threading

import msgspec
from flask import Blueprint, Response, jsonify, request

from sqlengine.access.groups import check_group
from sqlengine.access.policy import Action
from sqlengine.api.auditing import note
from sqlengine.api.broker import ClientRates
from sqlengine.api.conventions.pages import page_of
from sqlengine.api.conventions.preconditions import check_topic, topic_tag
from sqlengine.api.principal import need, present_principal
from sqlengine.api.queries import flag, seconds, whole_number
from sqlengine.api.topic_permissions import may_see, sees_group
from sqlengine.broker import topic_access, topic_details
from sqlengine.broker.base import Broker, TopicInfo
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.rehearsal import rehearsal
from sqlengine.broker.topic_access import BadRequest
from sqlengine.control.sealed_commands import command_texts, seal_commands
from sqlengine.engine import Engine
from sqlengine.engine.views.topic_users import users_of_topic


def topics_blueprint(engine: Engine, rates: ClientRates | None = None) -> Blueprint:
    """Returns the routes of topics; `rates` limits how fast clients append."""
    blueprint = Blueprint("topics", __name__, url_prefix="/api/v1/topics")
    broker, texts = engine.broker, command_texts(engine.config)
    changing = threading.Lock()  # between the look at a topic's tag and its change

    @blueprint.get("")
    def list_topics() -> Response:
        by = present_principal()
        seen = [t for t in broker.topics() if may_see(by, t.name)]
        topics, following = page_of(sorted(seen, key=_name), _name)
        listed = [topic_access.topic_json(t) for t in topics]
        return jsonify({"topics": listed, "next": following})

    @blueprint.post("")
    def create() -> Response:
        """Creates a topic: JSON {"name", "shards", "compacted", "retention_ms",
        "retention_bytes", "if_not_exists"}."""
        asked = _json()
        note(named(asked, "name"))
        need(Action.WRITE_TOPIC, name := named(asked, "name"))
        with changing:
            _check(broker, name)
            return _tagged(broker, topic_access.create_topic(_changed(broker), asked))

    @blueprint.get("/<name>")
    def show(name: str) -> Response:
        """Shows a topic with its shards, and the groups that read it."""
        return _tagged(broker, topic_details.describe_topic(broker, name))

    @blueprint.patch("/<name>")
    def alter(name: str) -> Response:
        """Changes options: JSON {"retention_ms", "retention_bytes", "delete_retention_ms",
        "max_bytes", "compression"}."""
        asked = _json()
        with changing:
            _check(broker, name)
            return _tagged(broker, topic_access.alter_topic(_changed(broker), name, asked))

    @blueprint.post("/<name>/compact")
    def compact(name: str) -> Response:
        return jsonify(topic_access.compact_topic(broker, name))

    @blueprint.post("/<name>/move")
    def move(name: str) -> Response:
        """Moves a shard: JSON {"shard", "folder", "with_data"}, into a folder that the server was
        given with --volume."""
        return jsonify(topic_details.move_shard(broker, name, _json(), engine.config.volumes))

    @blueprint.delete("/<name>")
    def delete(name: str) -> Response:
        with changing:
            _check(broker, name)
            users = users_of_topic(engine, name)
            return jsonify(topic_access.delete_topic(_changed(broker), name, users))

    @blueprint.post("/<name>/records")
    def write(name: str) -> Response:
        """Appends one record a line (?shard=N, ?key=text for all of them). Returns the offsets."""
        if rates is not None:
            rates.take(request.content_length or 0)
        lines = request.get_data(cache=False)
        if name == topic_access.COMMANDS:
            lines = seal_commands(texts, lines)
            note(detail=lines.decode("utf-8", "replace"))
        done = topic_access.append_lines(
            broker,
            name,
            lines,
            shard=whole_number("shard", 0),
            key=request.args.get("key"),
            now_ms=engine.now_ms(),
        )
        return jsonify(done)

    @blueprint.get("/<name>/records")
    def read(name: str) -> Response:
        """Reads a shard from ?offset= (a number, 'earliest', 'latest' or a time): of the next
        ?limit= records those with ?key=. Waits at most ?wait= seconds for the first."""
        records = topic_access.read_records(
            broker,
            name,
            shard=whole_number("shard", 0),
            offset=request.args.get("offset", "earliest"),
            limit=whole_number("limit", 100),
            wait_s=seconds("wait"),
            key=request.args.get("key"),
        )
        # Clients poll this: to write JSON is most of what an answer with records costs.
        return Response(msgspec.json.encode(records), mimetype="application/json")

    return blueprint


def groups_blueprint(engine: Engine) -> Blueprint:
    """Returns the routes of groups of consumers: owners of shards, committed offsets and lag."""
    blueprint = Blueprint("groups", __name__, url_prefix="/api/v1/groups")
    broker = engine.broker

    @blueprint.get("")
    def list_groups() -> Response:
        by = present_principal()
        seen = sorted(group.name for group in broker.groups() if sees_group(by, group))
        names, following = page_of(seen, str)
        found = topic_details.list_groups(broker, lambda group: group.name in names)
        return jsonify(found | {"next": following})

    @blueprint.post("/<group>/reset")
    def reset(group: str) -> Response:
        """Sets the committed offsets: JSON {"topic", "to", "shard"}; `to` is an offset as for
        reading."""
        asked = _json()
        need(Action.READ_TOPIC, named(asked, "topic"))
        check_group(present_principal(), group, broker)
        return jsonify(topic_details.reset_group(_changed(broker), group, asked))

    @blueprint.delete("/<group>")
    def delete(group: str) -> Response:
        check_group(present_principal(), group, broker)
        return jsonify(topic_details.delete_group(_changed(broker), group))

    return blueprint


def _changed(broker: EmbeddedBroker) -> Broker:
    """Returns what makes the changes of the present request: a dry run changes nothing."""
    return rehearsal(broker) if flag("dry-run") else broker


def _check(broker: Broker, name: str) -> None:
    if "If-Match" in request.headers or "If-None-Match" in request.headers:
        check_topic(broker.topics(), name)


def _tagged(broker: Broker, body: topic_access.Json) -> Response:
    """Returns a topic with the tag of what it is now; none where a dry run would make it."""
    response = jsonify(body)
    topic = next((t for t in broker.topics() if t.name == body["name"]), None)
    if topic is not None:
        response.headers["ETag"] = topic_tag(topic)
    return response


def _name(topic: TopicInfo) -> str:
    return topic.name


def named(asked: object, key: str) -> str:
    """Returns the name in a request's body, '' where it has none: then it is refused as it is."""
    name = asked.get(key) if isinstance(asked, dict) else None
    return name if isinstance(name, str) else ""


def _json() -> object:
    try:
        return json.loads(request.get_data(cache=False))
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body is not JSON", detail=str(error)) from None
