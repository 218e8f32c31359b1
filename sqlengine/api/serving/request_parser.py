"""Requests as they come in: what is refused is refused when its head is complete, before its body.

What waitress parses is parsed once; here are the bounds, and the forms that two servers in a row
could read differently."""

from __future__ import annotations

import logging
import time
from http import HTTPStatus
from typing import Any, Final, Protocol

from waitress.parser import HTTPRequestParser, ParsingError
from waitress.utilities import Error

from parser.errors import ServiceError
from parser.limits import bytes_text, present
from sqlengine.api.problems import refusal_of
from sqlengine.api.serving.admission import Admit, Head, Peer, Refusal, as_routed
from sqlengine.api.serving.lanes import LaneName, lane_of

log = logging.getLogger("sqlengine")
# The longest first line of a chunk, and the longest lines behind the last one.
_MOST_CONTROL: Final = 1 << 10
_MOST_TRAILER: Final = 8 << 10


class Link(Protocol):
    """The connection that a request comes from."""

    @property
    def peer(self) -> Peer: ...
    @property
    def scheme(self) -> str: ...
    @property
    def admit(self) -> Admit | None: ...


class Denied:
    """A refusal of a request for a path, as waitress answers errors."""

    def __init__(self, refused: Refusal, path: str = "") -> None:
        self.refused = refused
        self._path = path

    def to_response(self, ident: str) -> tuple[str, list[tuple[str, str]], bytes]:
        """Returns status, headers and body."""
        status = self.refused.status
        kind, body = refusal_of(self.refused.error, status, self._path)
        headers = [("Content-Type", kind), *self.refused.headers]
        return f"{status} {HTTPStatus(status).phrase}", headers, body.encode()


class RequestParser(HTTPRequestParser):  # type: ignore[misc]
    """One request. `lane`: where it is answered; `admitted`: somebody has decided on it."""

    # Of waitress, which has no types.
    error: Any
    headers: dict[str, str]
    headers_finished: bool
    empty: bool
    chunked: bool
    content_length: int
    path: str = ""

    def __init__(self, adjustments: object, link: Link | None = None) -> None:
        super().__init__(adjustments)
        self._link = link
        self.lane: LaneName = "refused"
        self.admitted = False
        self.began = self.progressed = time.monotonic()
        self.wire = 0

    def received(self, data: bytes) -> int:
        """Takes what belongs to the request, and returns how much that is: all, once it is
        refused."""
        self.progressed = time.monotonic()
        headless = not self.headers_finished
        consumed: int = super().received(data)
        if self.error is None and not self.empty:
            if headless and self.headers_finished:
                self.deny(self._decision())
            elif not headless:
                self.wire += consumed
                self.deny(self._beyond())
        if self.error is None:
            return consumed
        if isinstance(self.error, Error):  # one of waitress
            said = ServiceError(self.error.reason.lower(), detail=self.error.body)
            self.deny(Refusal(self.error.code, said))
        return len(data)

    def deny(self, refused: Refusal | None) -> None:
        """Completes the request with a refusal, if there is one."""
        if refused is not None:
            self.error = Denied(refused, self.path)
            self.completed = True
            self.expect_continue = False
            self.lane = "refused"

    def parse_header(self, header_plus: bytes) -> None:
        """Parses the head. Raises ParsingError for a request that others could read differently."""
        try:
            super().parse_header(header_plus)
        except ValueError:  # a length of thousands of digits
            raise ParsingError("Content-Length is invalid") from None
        if self._link is not None:
            self.url_scheme = self._link.scheme
        coded = self.chunked or "TRANSFER_ENCODING" in self.headers
        if coded and ("CONTENT_LENGTH" in self.headers or self.version != "1.1"):
            raise ParsingError("Transfer-Encoding stands with Content-Length, or in HTTP/1.0")
        if self.proxy_netloc and self.proxy_netloc != self.headers.get("HOST"):
            raise ParsingError("the target names another host than Host")

    def _decision(self) -> Refusal | None:
        """Decides on the head."""
        assert self._link is not None
        headers = {name.replace("_", "-").lower(): value for name, value in self.headers.items()}
        link = self._link
        head = Head(self.command, as_routed(self.path), self.query, headers, link.peer, link.scheme)
        self.lane = lane_of(head)
        if (admit := link.admit) is not None:
            try:
                refused = admit(head)
            except Exception:
                log.exception("a request was not decided on")
                refused = Refusal(500, ServiceError("internal error"))
            if refused is not None:
                return refused
            self.admitted = True
        return too_large() if self.content_length > present().request_size else None

    def _beyond(self) -> Refusal | None:
        """Returns the refusal of chunks that are more, or more odd, than is allowed."""
        if not self.chunked:
            return None
        most, chunks = present().request_size, self.body_rcv
        if len(chunks) + chunks.chunk_remainder > most or self.wire > 2 * most + _MOST_TRAILER:
            return too_large()
        if len(chunks.control_line) > _MOST_CONTROL or len(chunks.trailer) > _MOST_TRAILER:
            return Refusal(400, ServiceError("the body's chunks are not readable"))
        return None


def too_large() -> Refusal:
    """Returns the refusal of a body that is larger than `request-size`."""
    most = present().request_size
    text = f"{most >> 20} MiB" if most % (1 << 20) == 0 else bytes_text(most)
    error = ServiceError(
        f"the request's body is larger than {text}",
        hint="send it in parts; the server's limit is 'request-size'",
    )
    return Refusal(413, error)


def too_slow(what: str) -> Refusal:
    """Returns the refusal of a request whose head or body does not come."""
    return Refusal(408, ServiceError(f"the request's {what} takes too long"))
