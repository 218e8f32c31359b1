"""Idempotency-Key: a POST that is sent again has its first answer, also after a restart.

    POST, key K, first time          done, and the answer is kept for a day
    again, equal                     the kept answer, with Idempotent-Replayed: true
    again, while it is carried out   409
    another request with key K       422

Keys of one principal are not those of another. What was refused has changed nothing, and is not
kept. A server that dies between a change and the note of its answer makes the change again: jobs
are then as they are, records are there twice."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec
from flask import Flask, Response, request

from sqlengine.api.openapi.document import route_of
from sqlengine.api.openapi.paths import GROUPS
from sqlengine.api.principal import present_principal
from sqlengine.api.problems import KeyInUse, KeyReused
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.topic_access import BadRequest

log = logging.getLogger("sqlengine")
TOPIC: Final = "_request_answers"
DAY_MS: Final = 86_400_000
_MOST_BYTES: Final = 64 << 20
# Keys that are known at once: the oldest are forgotten.
_MOST_KEYS: Final = 20_000
_LONGEST_KEY: Final = 256
_ENVIRON: Final = "sqlengine.idempotency-key"
_ROUTES: Final = frozenset(e.path for es in GROUPS.values() for e in es if e.keyed)


class Kept(msgspec.Struct, frozen=True):
    """An answer that is kept. `asked`: a digest of the request."""

    asked: str
    status: int
    mimetype: str
    body: bytes
    tag: str = ""


class Answers:
    """The answers of a server to requests with keys, in a topic of its broker. May be called from
    any thread."""

    def __init__(self, broker: Broker, now_ms: Callable[[], int]) -> None:
        self._broker = broker
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._offsets: OrderedDict[str, int] | None = None
        self._running: set[str] = set()

    def begin(self, key: str, asked: str) -> Kept | None:
        """Returns the answer to a request that was carried out; None for one that begins now, until
        `end`. Raises KeyInUse, and KeyReused."""
        with self._lock:
            if key in self._running:
                hint = "ask again once it has been answered"
                raise KeyInUse("a request with this Idempotency-Key is carried out now", hint=hint)
            kept = self._kept(key)
            if kept is None:
                self._running.add(key)
            elif kept.asked != asked:
                hint = "another request needs another key"
                raise KeyReused("this Idempotency-Key was sent with another request", hint=hint)
            return kept

    def keep(self, key: str, answer: Kept) -> None:
        """Keeps the answer to a request that has begun. It was carried out, whatever comes of its
        answer here: sent again it is carried out again where that cannot be kept."""
        value = msgspec.json.encode(answer)
        with self._lock:
            try:
                done = self._broker.append(
                    TOPIC, 0, [value], keys=[key.encode()], timestamp_ms=self._now_ms()
                )
            except BrokerError as error:
                log.warning("the answer to a request with a key is not kept: %s", error)
            else:
                self._note(self._known(), key, done.first_offset)

    def end(self, key: str) -> None:
        """Says that a request which has begun is over."""
        with self._lock:
            self._running.discard(key)

    def _kept(self, key: str) -> Kept | None:
        offset = self._known().get(key)
        if offset is None:
            return None
        try:
            records = self._broker.read(TOPIC, 0, offset, max_records=1)
        except BrokerError:  # retention has removed it
            return None
        if records is None or not records.num_rows:
            return None
        if records.timestamps[0] < self._now_ms() - DAY_MS:
            return None
        return msgspec.json.decode(records.values[0].as_py(), type=Kept)

    def _known(self) -> OrderedDict[str, int]:
        """Returns the offset of each key's answer. What a server before has kept is read once."""
        if self._offsets is None:
            self._offsets = OrderedDict()
            self._broker.create_topic(
                TOPIC, retention_ms=DAY_MS, retention_bytes=_MOST_BYTES, if_not_exists=True
            )
            offset = self._broker.begin_offset(TOPIC, 0)
            while (records := self._broker.read(TOPIC, 0, offset)) is not None:
                keys = [] if records.keys is None else records.keys.to_pylist()
                for key, at in zip(keys, records.offsets.tolist(), strict=False):
                    self._note(self._offsets, key.decode(), at)
                offset = records.next_offset
        return self._offsets

    def _note(self, known: OrderedDict[str, int], key: str, offset: int) -> None:
        known[key] = offset
        known.move_to_end(key)
        while len(known) > _MOST_KEYS:
            known.popitem(last=False)


def add_idempotency(app: Flask, answers: Answers) -> None:
    """Lets an application answer requests with an Idempotency-Key that it has answered."""

    @app.before_request
    def begin() -> Response | None:
        if not _may_have_key():
            return None
        key, asked = _key(), _digest(request.get_data(cache=True))
        kept = answers.begin(key, asked)
        if kept is None:
            request.environ[_ENVIRON] = (key, asked)
            return None
        response = Response(kept.body, kept.status, mimetype=kept.mimetype)
        response.headers["Idempotent-Replayed"] = "true"
        if kept.tag:
            response.headers["ETag"] = kept.tag
        return response

    @app.after_request
    def keep(response: Response) -> Response:
        begun = request.environ.get(_ENVIRON)
        if begun is not None and response.status_code < 300:
            key, asked = begun
            tag = response.headers.get("ETag", "")
            kept = Kept(asked, response.status_code, response.mimetype or "", response.data, tag)
            answers.keep(key, kept)
        return response

    @app.teardown_request
    def end(_: BaseException | None) -> None:
        begun = request.environ.pop(_ENVIRON, None)
        if begun is not None:
            answers.end(begun[0])


def _may_have_key() -> bool:
    rule = request.url_rule
    return (
        request.method == "POST"
        and "Idempotency-Key" in request.headers
        and rule is not None
        and route_of(rule.rule) in _ROUTES
    )


def _key() -> str:
    """Returns the key of the present request, and of who asks: others may use the same one."""
    given = request.headers["Idempotency-Key"]
    if not 0 < len(given) <= _LONGEST_KEY:
        raise BadRequest(f"an Idempotency-Key has 1 to {_LONGEST_KEY} characters")
    return hashlib.sha256(f"{present_principal().name}\n{given}".encode()).hexdigest()


def _digest(body: bytes) -> str:
    """Returns what tells the present request from others."""
    asked = f"{request.full_path}\n{request.mimetype}\n".encode()
    return hashlib.sha256(asked + body).hexdigest()
