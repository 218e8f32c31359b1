"""The answers of a broker to the questions of other processes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from parser.errors import ServiceError
from sqlengine.broker.errors import TooFast
from sqlengine.broker.remote.wire import Answer, AnyRequest, Failure, ReadAll, Request, Served, Wait

_REQUEST: msgspec.msgpack.Decoder[AnyRequest] = msgspec.msgpack.Decoder(AnyRequest)


def answer(
    broker: Served,
    question: bytes,
    allow: Callable[[Request], None] = lambda _: None,
    waiting: threading.BoundedSemaphore | None = None,
) -> bytes:
    """The answer to a question, errors of the broker included. `allow` may raise one against a
    request; who is to wait when no more may be `waiting` is answered at once."""
    try:
        request = _REQUEST.decode(question)
        allow(request)
        if isinstance(request, Wait | ReadAll) and request.timeout_s and waiting is not None:
            return msgspec.msgpack.encode(Answer(_wait(broker, request, waiting)))
        return msgspec.msgpack.encode(Answer(request.answer(broker)))
    except msgspec.DecodeError as error:
        failure = Failure(
            "BrokerError", "the request cannot be read", str(error), "use a client of this version"
        )
    except ServiceError as error:
        retry_ms = error.retry_ms if isinstance(error, TooFast) else 0
        failure = Failure(type(error).__name__, error.message, error.detail, error.hint, retry_ms)
    return msgspec.msgpack.encode(Answer(None, failure))


def _wait(broker: Served, request: Wait | ReadAll, waiting: threading.BoundedSemaphore) -> object:
    if not waiting.acquire(blocking=False):
        return msgspec.structs.replace(request, timeout_s=0.0).answer(broker)
    try:
        return request.answer(broker)
    finally:
        waiting.release()
