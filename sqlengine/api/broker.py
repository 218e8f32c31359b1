"""/api/v1/broker: the broker as other processes use it, through
`sqlengine.broker.remote.client`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from flask import Blueprint, Response, request

from parser.errors import ServiceError
from sqlengine.access.audit.log import NO_AUDIT, Audit
from sqlengine.api.auditing import changes_broker, no_space, tell_message
from sqlengine.api.principal import present_principal
from sqlengine.api.server import THREADS
from sqlengine.api.serving.admission import LANE
from sqlengine.api.topic_permissions import check_message, seen_of
from sqlengine.broker.remote.client import PATH
from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.broker.remote.wire import (
    AlterTopic,
    Commit,
    Compact,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    Heartbeat,
    Join,
    Leave,
    Request,
    Served,
    Trim,
    appends_of,
)
from sqlengine.broker.storage.quota import Rates
from sqlengine.broker.topic_access import (
    COMMANDS,
    refuse_system,
    refuse_system_group,
    refuse_used,
)

# Of the threads for ordinary requests, so many may wait for data: for clients whose requests do not
# say in their head that they wait.
MAX_WAITING = THREADS // 2


def client_name() -> str:
    """Returns the client of a request: its principal, else the header X-Client, else the
    address."""
    if present_principal().name:
        return present_principal().name
    return request.headers.get("X-Client") or request.remote_addr or "unknown"


class ClientRates:
    """Limits how fast clients append to topics: each by the server's rate, if there is one, and by
    its principal's quota."""

    def __init__(self, rate: int | None, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._all = None if rate is None else Rates(rate, clock)
        # By rate, so that a quota that is changed counts at once.
        self._quotas: dict[int, Rates] = {}

    def take(self, size: int) -> None:
        """Counts an append of so many bytes. Raises TooFast where the client must wait."""
        client, quota = client_name(), present_principal().quota.append_rate
        if quota is not None:
            if quota not in self._quotas:
                self._quotas[quota] = Rates(quota, self._clock)
            self._quotas[quota].take(client, size)
        if self._all is not None:
            self._all.take(client, size)


def broker_blueprint(
    broker: Served,
    users: Callable[[str], Collection[str]] = lambda _: (),
    rates: ClientRates | None = None,
    audit: Audit = NO_AUDIT,
    kept: Callable[[Request], Request] = lambda asked: asked,
) -> Blueprint:
    """The route over a broker; `users` names the jobs that need a topic, `rates` says how fast
    clients may append, `audit` is told of messages, `kept` returns what is executed of a
    request."""
    blueprint = Blueprint("broker", __name__)
    waiting = threading.BoundedSemaphore(MAX_WAITING)

    def allow(asked: Request) -> None:
        """Refuses what a client may not do, and changes that the audit log has no space for."""
        if changes_broker(asked) and not audit.ready():
            raise no_space()
        try:
            check(asked)
        except ServiceError as error:
            tell_message(audit, asked, error)
            raise

    def check(asked: Request) -> None:
        """Refuses changes of what is the system's, and the removal of topics in use."""
        check_message(present_principal(), asked, broker)
        appends = appends_of(asked)
        for topic in {a.topic for a in appends} - {COMMANDS}:
            refuse_system(topic)
        if isinstance(asked, AlterTopic | Compact | CreateTopic | DeleteTopic | Trim):
            refuse_system(asked.topic)
        if isinstance(asked, Commit | DeleteGroup | Heartbeat | Join | Leave):
            refuse_system_group(asked.group)
        if isinstance(asked, DeleteTopic):
            refuse_used(asked.topic, users(asked.topic))
        if appends and rates is not None:
            rates.take(sum(len(a.payload.body) for a in appends))

    def seen(asked: Request, answer: object) -> object:
        tell_message(audit, asked, None)
        return seen_of(present_principal(), asked, answer)

    @blueprint.post(PATH)
    def ask() -> Response:
        """A question and its answer, both MessagePack: see sqlengine/broker/remote/wire.py."""
        return Response(
            handle_request(
                broker,
                request.get_data(cache=False),
                allow,
                None if request.environ.get(LANE) == "waiting" else waiting,
                seen,
                kept,
            ),
            mimetype="application/msgpack",
        )

    return blueprint
