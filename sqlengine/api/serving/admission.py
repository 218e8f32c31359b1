"""The head of a request and the decision on it.

The server makes the decision when the head is complete, before anything of the body is read. Where
an application is called without the server, as by Flask's test client, it makes the same decision
itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from parser.errors import SqlError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# Keys of the WSGI environment: the `Peer`, whether the server has admitted the request, the lane
# that answers it, and what tells whether the client has hung up, or sends nothing more.
PEER: Final = "sqlengine.peer"
ADMITTED: Final = "sqlengine.admitted"
LANE: Final = "sqlengine.lane"
HUNG_UP: Final = "sqlengine.hung-up"


@dataclass(frozen=True)
class Peer:
    """The other end of a connection.

    `address`: its IP address, None on the local socket. `uid`: the user of this machine that
    opened the local socket, as the kernel says. `certificate`: the name in the client's
    certificate, which was verified; None without one."""

    address: str | None = None
    uid: int | None = None
    certificate: str | None = None


@dataclass(frozen=True)
class Head:
    """The first lines of a request: the method, the path as routes see it, the query behind '?',
    headers by their names in lowercase, the scheme that the connection has, and its peer."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str] = field(default_factory=dict)
    peer: Peer = Peer()
    scheme: str = "http"


@dataclass(frozen=True)
class Refusal:
    """The answer to a request that may not be made: a status, an error, and headers besides."""

    status: int
    error: SqlError
    headers: tuple[tuple[str, str], ...] = ()


# Returns the refusal of a request, None if it may be made. Called by the thread that serves all
# connections: it must not wait for anything.
Admit: TypeAlias = Callable[[Head], Refusal | None]


def head_of(environ: WSGIEnvironment) -> Head:
    """Returns the head of a request from its WSGI environment."""
    headers = {
        name[5:].replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    peer = environ.get(PEER)
    return Head(
        environ["REQUEST_METHOD"],
        as_routed(environ.get("PATH_INFO", "")),
        environ.get("QUERY_STRING", ""),
        headers,
        peer if isinstance(peer, Peer) else Peer(environ.get("REMOTE_ADDR")),
        environ.get("wsgi.url_scheme", "http"),
    )


def as_routed(path: str) -> str:
    """Returns a path, whose bytes are its characters as in WSGI, as the routes see it.

    >>> as_routed("//api/v1/jobs/Ã¤")
    '/api/v1/jobs/ä'
    """
    return "/" + path.lstrip("/").encode("latin-1").decode("utf-8", "replace")
