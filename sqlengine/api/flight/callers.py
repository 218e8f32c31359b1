"""Callers: the principal of a call and its session, by its headers and its connection."""

from __future__ import annotations

import base64
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from pyarrow import flight

from parser.errors import JobError, SqlError
from sqlengine.access.audit.log import Audit, Event
from sqlengine.access.identity import Access, Caller
from sqlengine.access.policy import Action, Forbidden, Unauthorised, require
from sqlengine.access.principals import Principal
from sqlengine.api.flight.failures import answering
from sqlengine.queries.service import QueryService

MIDDLEWARE: Final = "caller"
_COOKIE: Final = "arrow_flight_session_id"
_BASIC, _BEARER = "basic ", "bearer "
# Connections whose sessions are known; the one that was not used for longest is forgotten.
_MOST: Final = 1_000
# A call that lasts is asked for its token again after so many seconds.
_AGAIN_S: Final = 1.0


class NoHandshake(flight.ServerAuthHandler):
    """Lets the handshake through: who calls is told by the headers of each call."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None: ...

    def is_valid(self, token: bytes) -> bytes:
        return b""


class CallHeaders(flight.ServerMiddleware):
    """The caller of one call. `answer`: headers that are sent back; `identify` finds out who it is,
    again and again where the call lasts."""

    def __init__(
        self, identify: Callable[[], Principal], session: str | None, answer: dict[str, str]
    ) -> None:
        self.principal = identify()
        self._identify = identify
        self._identified = time.monotonic()
        self.session = session
        self.answer = answer

    def present(self) -> Principal:
        """Returns the principal, who may have lost his token since the call began: Unauthorised, or
        Forbidden, then."""
        now = time.monotonic()
        if now - self._identified > _AGAIN_S:
            self._identified, self.principal = now, self._identify()
        return self.principal

    def sending_headers(self) -> dict[str, str]:
        return self.answer


class Callers(flight.ServerMiddlewareFactory):
    """Finds out who calls, before anything is done for him: by a bearer token, or by a name and a
    password, which is the token. The audit log is told of who is refused, from where is not known
    here."""

    def __init__(self, access: Access, audit: Audit) -> None:
        self._access = access
        self._audit = audit

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str]]) -> CallHeaders:
        """See `ServerMiddlewareFactory`. FlightUnauthenticatedError for nobody that is known,
        FlightUnauthorizedError for who may ask nothing."""
        with answering("a call"):
            return self._caller(_name_of(info), headers)

    def _caller(self, call: str, headers: Mapping[str, Sequence[str]]) -> CallHeaders:
        given = {name.lower(): values for name, values in headers.items()}
        (authorization,) = given.get("authorization", ("",))[:1] or ("",)
        try:
            token = _token(authorization)
            basic = authorization.lower().startswith(_BASIC)
            answer = {"authorization": f"Bearer {token or 'none'}"} if basic else {}
            identify = partial(self._identify, Caller(token and f"Bearer {token}"))
            return CallHeaders(identify, _session(given.get("cookie", ())), answer)
        except Unauthorised as error:
            self._audit.count(refusal("", "", call, error))
            raise flight.FlightUnauthenticatedError(error.with_hint) from None
        except SqlError as error:
            by = error.by if isinstance(error, Forbidden) else ""
            self._audit.count(refusal(by, "", call, error))
            raise flight.FlightUnauthorizedError(error.with_hint) from None

    def _identify(self, caller: Caller) -> Principal:
        principal = self._access.identify(caller)
        require(principal, Action.ASK)
        return principal


class Sessions:
    """The session of each caller: the one that its cookie names, or that of its connection. Any
    thread."""

    def __init__(self, queries: QueryService) -> None:
        self._queries = queries
        self._lock = threading.Lock()
        self._by_peer: OrderedDict[tuple[str, str], str] = OrderedDict()

    def of(self, context: Any) -> str:
        """Returns the caller's session; a new one where there is none that is open."""
        caller: CallHeaders = context.get_middleware(MIDDLEWARE)
        key = (context.peer(), caller.principal.name)
        with self._lock:
            for name in (caller.session, self._by_peer.get(key)):
                with suppress(JobError):
                    if name is not None:
                        self._queries.session(name, caller.principal)
                        return name
            name = self._queries.open_session(caller.principal)
            self._by_peer[key] = name
            while len(self._by_peer) > _MOST:
                self._by_peer.popitem(last=False)
        caller.answer["set-cookie"] = f"{_COOKIE}={name}"
        return name

    def peers(self) -> set[str]:
        """Returns the connections that have a session, as gRPC names them."""
        with self._lock:
            return {peer for peer, _ in self._by_peer}

    def close(self, context: Any) -> None:
        """Closes the caller's session, if it has one."""
        caller: CallHeaders = context.get_middleware(MIDDLEWARE)
        with self._lock:
            name = self._by_peer.pop((context.peer(), caller.principal.name), None)
        for session in {caller.session, name} - {None}:
            with suppress(JobError):
                self._queries.close_session(str(session), caller.principal)


def refusal(by: str, peer: str, what: str, error: SqlError) -> Event:
    """Returns what the audit log has of a call that somebody may not make."""
    named = error.named if isinstance(error, Forbidden) else ""
    return Event(by, peer, what, named, outcome="refused", detail=str(error)[:300])


def _name_of(info: Any) -> str:
    """Returns the name of a call for the audit log, as in `Flight DoGet`."""
    return f"Flight {info.method.name.title().replace('_', '')}"


def _token(authorization: str) -> str:
    """Returns the token in a header; the password is one."""
    kind = authorization.lower()
    if kind.startswith(_BEARER):
        return authorization[len(_BEARER) :].strip()
    if not kind.startswith(_BASIC):
        return authorization.strip()
    try:
        text = base64.b64decode(authorization[len(_BASIC) :], validate=True).decode()
    except ValueError:
        raise Unauthorised("the name and the password cannot be read") from None
    return text.partition(":")[2]


def _session(cookies: Sequence[str]) -> str | None:
    for text in cookies:
        with suppress(CookieError):
            found = SimpleCookie(text).get(_COOKIE)
            if found is not None:
                return found.value
    return None
