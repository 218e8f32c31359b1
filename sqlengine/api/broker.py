"""/api/v1/broker: the broker as other processes use it, through `sqlengine.broker.remote`."""

from __future__ import annotations

from collections.abc import Callable, Collection

from flask import Blueprint, Response, request

from sqlengine.broker.remote import PATH
from sqlengine.broker.wire import AlterTopic, Append, CreateTopic, DeleteTopic, Request, Served, answer
from sqlengine.topic_access import COMMANDS, refuse_system, refuse_used


def broker_blueprint(broker: Served, users: Callable[[str], Collection[str]] = lambda _: ()) -> Blueprint:
    """The route over a broker; `users` names the jobs that need a topic."""
    blueprint = Blueprint("broker", __name__)

    def allow(asked: Request) -> None:
        """What the system writes is not written by others, and a topic in use stays."""
        if isinstance(asked, Append | AlterTopic | CreateTopic | DeleteTopic) and asked.topic != COMMANDS:
            refuse_system(asked.topic)
        if isinstance(asked, DeleteTopic):
            refuse_used(asked.topic, users(asked.topic))

    @blueprint.post(PATH)
    def ask() -> Response:
        """A question and its answer, both MessagePack: see sqlengine/broker/wire.py."""
        return Response(answer(broker, request.get_data(cache=False), allow), mimetype="application/msgpack")

    return blueprint
