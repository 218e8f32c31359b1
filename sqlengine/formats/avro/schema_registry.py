"""A client of a schema registry (Confluent's REST API): schemas by id, and ids of schemas."""

from __future__ import annotations

import base64
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import (
    BaseHandler,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    Request,
    build_opener,
)

import msgspec

from parser.errors import OptionError
from sqlengine.formats.avro.kept_answers import Answer, KeptAnswers
from sqlengine.formats.base import OutOfReach
from sqlengine.system.hidden import hidden
from sqlengine.system.http_connections import responses_until

log = logging.getLogger("sqlengine.formats")

_TYPE: Final = "application/vnd.schemaregistry.v1+json"
# Seconds for one request as a whole, and for all that are made for one question.
_TIMEOUT_S: Final = 10.0
_PATIENCE_S: Final = 20.0
_ATTEMPTS: Final = 3
_MOST_BYTES: Final = 16 << 20
# Seconds for which a schema that is not there, or a registry that knows nothing new, is not asked
# again.
_FORGET_S: Final = 30.0
# Ids of schemas that are not there, which are remembered: records may name any.
_MOST_MISSING: Final = 10_000
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


@dataclass(frozen=True)
class Access:
    """The addresses of a registry, and what it wants to see: a user with a password ('user:pass')
    or a token; files of certificates (PEM) in ours and of those that sign its own."""

    urls: tuple[str, ...]
    user_info: str | None = None
    token: str | None = None
    keystore: tuple[str, str | None] | None = None
    truststore: str | None = None

    def headers(self) -> dict[str, str]:
        """Returns the header that says who asks."""
        if self.token is not None:
            return {"Authorization": f"Bearer {self.token}"}
        if self.user_info is not None:
            coded = base64.b64encode(self.user_info.encode()).decode()
            return {"Authorization": f"Basic {coded}"}
        return {}

    def context(self) -> ssl.SSLContext:
        """Returns what checks the registry's certificate. OptionError for a file that is none."""
        try:
            context = ssl.create_default_context(cafile=self.truststore)
            if self.keystore is not None:
                context.load_cert_chain(self.keystore[0], password=self.keystore[1])
        except (OSError, ssl.SSLError) as error:
            raise OptionError(
                "certificates of a schema registry cannot be read",
                detail=str(error),
                hint="'ssl.keystore.location' and 'ssl.truststore.location' are files in PEM",
            ) from None
        return context


class _NoRedirects(HTTPRedirectHandler):
    """Follows none: what we send would go elsewhere."""

    def redirect_request(self, *args: object) -> None:
        return None


def _handlers(until: float, context: ssl.SSLContext | None) -> list[BaseHandler]:
    """Returns what opens addresses and reads answers until an instant of the monotonic clock (s).
    `context`: None where nothing is encrypted."""
    in_time = responses_until(lambda: until)

    class Plain(HTTPConnection):
        response_class = in_time

    class Encrypted(HTTPSConnection):
        response_class = in_time

    class PlainHandler(HTTPHandler):
        def http_open(self, request: Request) -> HTTPResponse:
            return self.do_open(Plain, request)

    class EncryptedHandler(HTTPSHandler):
        def https_open(self, request: Request) -> HTTPResponse:
            return self.do_open(Encrypted, request, context=context)

    return [_NoRedirects(), PlainHandler() if context is None else EncryptedHandler()]


class _Silent(OutOfReach):
    """The registry does not answer."""


class _Refused(msgspec.Struct):
    error_code: int = 0
    message: str = ""


@dataclass
class _Turn:
    """The turn of who asks a question, and how many wait for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: int = 0


@dataclass
class SchemaRegistry:
    """Schemas by id, each of which is asked for once, and ids by subject and schema. Any thread;
    who asks for what is known already waits for no other.

    `kept`: what it has told before; that counts where it does not answer alone, since one that was
    made anew may give an id to another schema."""

    access: Access
    kept: KeptAnswers = field(default_factory=KeptAnswers)
    clock: Callable[[], float] = time.monotonic
    _schemas: dict[int, str] = field(default_factory=dict)
    _missing: dict[int, float] = field(default_factory=dict)
    _ids: dict[tuple[str, str], int] = field(default_factory=dict)
    _silent_until: float = -1.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _turns: dict[str, _Turn] = field(default_factory=dict)

    def schema(self, number: int) -> str | None:
        """Returns the JSON of a schema; None where the registry has none of this id. OutOfReach
        where it does not answer, or refuses to."""
        if number in self._schemas:
            return self._schemas[number]
        what = f"schema {number}"
        with self._turn(what):
            if number in self._schemas:
                return self._schemas[number]
            if self.clock() < self._missing.get(number, -1.0):
                return None
            answer = self._told(what, lambda: self._ask("GET", f"schemas/ids/{number}", None))
            if answer is None or answer.schemaType != "AVRO":
                self._miss(number)
                return None
            self._schemas[number] = answer.schema
            return answer.schema

    def _miss(self, number: int) -> None:
        now = self.clock()
        with self._lock:
            # Those that were looked for first are the first to be forgotten.
            for known, until in list(self._missing.items()):
                if now < until and len(self._missing) < _MOST_MISSING:
                    break
                del self._missing[known]
            self._missing.pop(number, None)
            self._missing[number] = now + _FORGET_S

    def id_of(self, subject: str, schema: str, *, register: bool) -> int:
        """Returns the id of a schema of a subject, which gets it unless not to `register`. Raises
        as `schema` does; OutOfReach, too, where the schema is not there: no row is at fault."""
        if (subject, schema) in self._ids:
            return self._ids[subject, schema]
        what = f"the id of a schema of '{subject}': {schema}"
        with self._turn(what):
            if (subject, schema) not in self._ids:
                path = f"subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
                answer = self._told(what, lambda: self._ask("POST", path, {"schema": schema}))
                if answer is None or answer.id < 0:
                    raise OutOfReach(
                        f"subject '{subject}' has not the schema of the table",
                        hint="register it, or let 'properties.auto.register.schemas' be 'true'",
                    )
                self._ids[subject, schema] = answer.id
            return self._ids[subject, schema]

    @contextmanager
    def _turn(self, what: str) -> Iterator[None]:
        """Lets one thread at a time ask a question: others then find the answer."""
        with self._lock:
            turn = self._turns.setdefault(what, _Turn())
            turn.waiting += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.waiting -= 1
                if not turn.waiting:
                    self._turns.pop(what, None)

    def _told(self, what: str, ask: Callable[[], Answer | None]) -> Answer | None:
        """Returns the answer to what is asked; the one from before where the registry is silent."""
        known = self.kept.get(what)
        if known is not None and self.clock() < self._silent_until:
            return known
        try:
            answer = ask()
        except _Silent as error:
            if known is None:
                raise
            self._silent_until = self.clock() + _FORGET_S
            log.warning("%s (%s): what it has told before is taken", error.message, error.detail)
            return known
        if answer is not None:
            self._keep(what, answer)
        return answer

    def _keep(self, what: str, answer: Answer) -> None:
        try:
            self.kept.put(what, answer)
        except OSError as error:
            log.warning("what a schema registry has told cannot be kept: %s", error)

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None) -> Answer | None:
        """Returns the answer; None for one that there is nothing of this name."""
        reason, urls = "", self.access.urls
        until = time.monotonic() + _PATIENCE_S
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(0.1 * 2**attempt)
            for number, url in enumerate(urls):
                # None of several takes the time of those behind it.
                seconds = min(_TIMEOUT_S, (until - time.monotonic()) / (len(urls) - number))
                if seconds <= 0:
                    break
                try:
                    return self._asked(method, f"{url.rstrip('/')}/{path}", body, seconds)
                except (URLError, HTTPException, OSError, msgspec.DecodeError) as error:
                    reason = _words(error)
        raise _Silent(f"schema registry '{', '.join(urls)}' does not answer", detail=reason)

    def _asked(
        self, method: str, url: str, body: Mapping[str, str] | None, seconds: float
    ) -> Answer | None:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE}
        request = Request(url, data, headers | self.access.headers(), method=method)
        context = self.access.context() if url.startswith("https:") else None
        handlers = _handlers(time.monotonic() + seconds, context)
        try:
            with build_opener(*handlers).open(request, timeout=seconds) as response:
                return msgspec.json.decode(response.read(_MOST_BYTES), type=Answer)
        except HTTPError as error:
            if error.code >= 500:
                raise
            if error.code == _NOT_FOUND:
                return None
            raise _refused(error) from None


def _refused(error: HTTPError) -> OutOfReach:
    try:
        said = msgspec.json.decode(error.read(_MOST_BYTES), type=_Refused).message
    except (msgspec.DecodeError, OSError):
        said = str(error.reason)
    what = (
        "it has another schema, with which this one is not compatible"
        if (error.code == _CONFLICT)
        else f"status {error.code}"
    )
    return OutOfReach(f"the schema registry refuses: {what}", detail=hidden(said)[:500])


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def urls_of(text: str) -> tuple[str, ...]:
    """Parses addresses, separated by commas. ValueError for one that is none."""
    urls = tuple(part.strip() for part in text.split(",") if part.strip())
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("expected the address of a schema registry such as 'http://host:8081'")
        if parts.username is not None:
            raise ValueError("write who asks as 'basic-auth.user-info'")
    if not urls:
        raise ValueError("expected the address of a schema registry such as 'http://host:8081'")
    return urls
