"""HTTP connections to a server by its address: http://, https:// or unix:PATH."""

from __future__ import annotations

import http.client
import urllib.parse
from pathlib import Path
from typing import Final

from sqlengine.system.addresses import LOCAL
from sqlengine.system.client_tls import ClientTls
from sqlengine.system.local_sockets import connect_local

# What a request over a local socket names as its host.
LOCAL_URL: Final = "http://localhost"


class LocalHttpConnection(http.client.HTTPConnection):
    """HTTP over the local socket at `path`."""

    def __init__(self, path: Path, timeout_s: float | None) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        self.sock = connect_local(self._path, self._timeout_s)


def open_connection(server: str, timeout_s: float, tls: ClientTls) -> http.client.HTTPConnection:
    """Returns a connection to `server`, which is made with its first request. Raises ServiceError
    for a file of `tls` that cannot be used."""
    if (path := local_path(server)) is not None:
        return LocalHttpConnection(path, timeout_s)
    parts = urllib.parse.urlsplit(server)
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            host, parts.port, timeout=timeout_s, context=tls.context()
        )
    return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)


def local_path(server: str) -> Path | None:
    """Returns the path of a local socket; None for another address."""
    return Path(server.removeprefix(LOCAL)) if server.startswith(LOCAL) else None
