"""Reads of records over HTTP on a short way: what clients ask for again and again, whether or not
there is something new.

Whatever is out of the ordinary goes the long way, through the application: it answers errors, too,
and says who may not read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from sqlengine.access.audit.log import Audit, Event, NoAudit
from sqlengine.access.identity import Access
from sqlengine.api.access import caller_of
from sqlengine.api.auditing import peer_name
from sqlengine.api.permissions import check_route
from sqlengine.api.serving.admission import ADMITTED, PEER, Peer
from sqlengine.broker.base import Broker
from sqlengine.broker.topic_access import read_records

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

RULE: Final = "/api/v1/topics/<name>/records"
# Not those of the system, whose names begin with '_'.
_PATH: Final = re.compile(r"/api/v1/topics/([A-Za-z0-9][A-Za-z0-9._-]*)/records")
# What may stand in a query: each at most once, and nothing that is encoded.
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    "offset": re.compile(r"[A-Za-z0-9.:-]{1,40}"),
    "limit": _NUMBER,
    "shard": _NUMBER,
    "wait": re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?"),
}


class ShortReads:
    """Answers reads of a broker's topics in the place of an application, as it would."""

    def __init__(self, app: WSGIApplication, broker: Broker, access: Access, audit: Audit) -> None:
        self.app = app
        self._broker = broker
        self._access = access
        self._audit = audit

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        asked = _asked(environ)
        if asked is None:
            return self.app(environ, start_response)
        topic, query = asked
        try:
            by = self._reader(environ, topic)
            records = read_records(
                self._broker,
                topic,
                shard=int(query.get("shard", 0)),
                offset=query.get("offset", "earliest"),
                limit=int(query.get("limit", 100)),
                wait_s=float(query.get("wait", 0)),
            )
        except Exception:  # noqa: BLE001  the application meets the same, and says what it is
            return self.app(environ, start_response)
        if not isinstance(self._audit, NoAudit):
            self._audit.count(Event(by, peer_name(environ[PEER]), f"GET {RULE}", topic))
        text = msgspec.json.encode(records)
        length = ("Content-Length", str(len(text)))
        start_response("200 OK", [("Content-Type", "application/json"), length])
        return [text]

    def _reader(self, environ: WSGIEnvironment, topic: str) -> str:
        """Returns who asks, '' where principals are not told apart. Raises Unauthorised, and
        Forbidden."""
        if not self._access.told_apart:
            return ""
        given = caller_of(environ.get("HTTP_AUTHORIZATION", ""), environ[PEER])
        principal = self._access.identify(given)
        check_route(principal, "GET", RULE, {"name": topic})
        return principal.name


def _asked(environ: WSGIEnvironment) -> tuple[str, Mapping[str, str]] | None:
    """Returns the topic and the query of a read that may go the short way."""
    if environ["REQUEST_METHOD"] != "GET" or environ.get(ADMITTED) is not True:
        return None
    found = _PATH.fullmatch(environ.get("PATH_INFO", ""))
    if found is None or not isinstance(environ.get(PEER), Peer):
        return None
    if environ.get("HTTP_CONTENT_ENCODING"):
        return None
    query: dict[str, str] = {}
    for part in filter(None, environ.get("QUERY_STRING", "").split("&")):
        name, _, text = part.partition("=")
        form = _FORMS.get(name)
        if form is None or name in query or form.fullmatch(text) is None:
            return None
        query[name] = text
    return found[1], query
