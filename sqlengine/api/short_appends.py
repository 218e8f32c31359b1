"""Appends of records over HTTP on a short way: the request that comes most often, where there is
nothing to decide on it but what the topic says.

Whatever is out of the ordinary goes the long way, through the application: it answers errors, too,
since nothing was appended then."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from sqlengine.api.serving.admission import ADMITTED
from sqlengine.broker import topic_access
from sqlengine.broker.base import Broker

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# Not those of the system, whose names begin with '_'.
_PATH: Final = re.compile(r"/api/v1/topics/([A-Za-z0-9][A-Za-z0-9._-]*)/records")
# Headers that ask for more than an append.
_LONG_WAY: Final = ("HTTP_CONTENT_ENCODING", "HTTP_IDEMPOTENCY_KEY")
# Larger bodies are worth the long way.
_MOST_BYTES: Final = 64 << 10


class ShortAppends:
    """Answers appends to a broker in the place of an application, as it would. For a server whose
    principals are not told apart, which limits no rates, and which keeps no audit log."""

    def __init__(self, app: WSGIApplication, broker: Broker, now_ms: Callable[[], int]) -> None:
        self.app = app
        self._broker = broker
        self._now_ms = now_ms

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        topic = _topic_of(environ)
        if topic is None:
            return self.app(environ, start_response)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = io.BytesIO(body)
        try:
            done = topic_access.append_lines(self._broker, topic, body, now_ms=self._now_ms())
        except Exception:  # noqa: BLE001  the application meets the same, and says what it is
            return self.app(environ, start_response)
        text = json.dumps(done, separators=(",", ":"), sort_keys=True) + "\n"
        length = ("Content-Length", str(len(text)))
        start_response("200 OK", [("Content-Type", "application/json"), length])
        return [text.encode()]


def _topic_of(environ: WSGIEnvironment) -> str | None:
    """Returns the topic of an append that may go the short way."""
    if environ["REQUEST_METHOD"] != "POST" or environ.get(ADMITTED) is not True:
        return None
    if environ.get("QUERY_STRING") or any(map(environ.get, _LONG_WAY)):
        return None
    if not 0 < int(environ.get("CONTENT_LENGTH") or 0) <= _MOST_BYTES:
        return None
    found = _PATH.fullmatch(environ.get("PATH_INFO", ""))
    return None if found is None else found[1]
