"""Handles the requests of other processes to a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from parser.errors import ServiceError
from sqlengine.broker.remote.wire import (
    AnyRequest,
    Failure,
    ReadAll,
    Request,
    Response,
    Served,
    Wait,
)

_REQUEST: msgspec.msgpack.Decoder[AnyRequest] = msgspec.msgpack.Decoder(AnyRequest)


def handle_request(
    broker: Served,
    request_data: bytes,
    allow: Callable[[Request], None] = lambda _: None,
    waiting: threading.BoundedSemaphore | None = None,
    seen: Callable[[Request, object], object] = lambda _, answer: answer,
    kept: Callable[[Request], Request] = lambda request: request,
) -> bytes:
    """Executes a request and returns the response, errors of the broker included.

    `allow` may raise a ServiceError to reject it. A request that waits is executed without waiting
    if no more may be `waiting`. `seen` returns what the client may see of an answer, and `kept`
    what is executed of a request.
    """
    try:
        request = _REQUEST.decode(request_data)
        allow(request)
        if isinstance(request, Wait | ReadAll) and request.timeout_s and waiting is not None:
            answer = _wait(broker, request, waiting)
        else:
            answer = kept(request).execute(broker)
        return msgspec.msgpack.encode(Response(seen(request, answer)))
    except msgspec.DecodeError as error:
        failure = Failure(
            "BrokerError", "the request cannot be read", str(error), "use a client of this version"
        )
    except ServiceError as error:
        failure = Failure.of(error)
    return msgspec.msgpack.encode(Response(None, failure))


def _wait(broker: Served, request: Wait | ReadAll, waiting: threading.BoundedSemaphore) -> object:
    if not waiting.acquire(blocking=False):
        return msgspec.structs.replace(request, timeout_s=0.0).execute(broker)
    try:
        return request.execute(broker)
    finally:
        waiting.release()
