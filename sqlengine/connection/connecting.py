"""The way in: `connect`."""

from __future__ import annotations

from pathlib import Path

from parser.errors import ServiceError
from sqlengine.client import Client
from sqlengine.config import token_from
from sqlengine.connection.arguments import text
from sqlengine.connection.base import Connection
from sqlengine.system.client_tls import ClientTls


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    data: str | Path | None = None,
    ca_file: str | None = None,
    client_cert: str | None = None,
    client_key: str | None = None,
) -> Connection:
    """Connects to the server at `url` (or HOST:PORT, or unix:PATH); without one, opens an engine in
    this process.

    `token`: what the server asks for (default: SQLENGINE_TOKEN). `ca_file`: authorities that are
    trusted besides those of the system (SQLENGINE_CA_FILE); `client_cert`, `client_key`: what a
    server is shown that asks for a certificate (SQLENGINE_CLIENT_CERT, SQLENGINE_CLIENT_KEY). No
    request is made before the first call. `data`: the data folder of an engine in this process,
    which no other process may use meanwhile (DataFolderLocked); default is a temporary folder,
    deleted by `close`. Such an engine runs jobs until `close`, and has no HTTP, watched folder or
    command topic.
    """
    if url is not None:
        text(url, "the address of a server")
    if token is not None:
        text(token, "a token")
    if url is None:
        from sqlengine.connection.local import LocalConnection

        return LocalConnection(None if data is None else Path(data))
    if data is not None:
        raise ServiceError(
            "'data' is the folder of an engine in this process, a URL is that of a server",
            hint="give one of them",
        )
    from sqlengine.connection.server import ServerConnection

    tls = ClientTls(ca_file, client_cert, client_key)
    return ServerConnection(Client(url, token or token_from(None), origin="rest", tls=tls))
