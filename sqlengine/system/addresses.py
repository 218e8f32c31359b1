"""Addresses of servers as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from parser.errors import ServiceError

DEFAULT_PORT: Final = 8083
# What the address of a local socket begins with.
LOCAL: Final = "unix:"


def server_url(text: str) -> str:
    """Returns the URL of a server from a URL or from HOST, HOST:PORT, [IPV6]:PORT or unix:PATH.

    Without a scheme it is http, on port 8083 unless the text has one. Raises ServiceError for what
    is no address.
    """
    if text.strip().startswith(LOCAL):
        path = text.strip().removeprefix(LOCAL)
        if not path:
            raise not_an_address(text, "it names no socket")
        return f"{LOCAL}{Path(path).absolute()}"
    given = text.strip().rstrip("/")
    plain = "://" not in given
    try:
        parts = urlsplit(f"http://{given}" if plain else given)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise not_an_address(text, str(error)) from None
    if parts.scheme not in ("http", "https"):
        raise not_an_address(text, f"'{parts.scheme}' is not http or https")
    if not host or any(c.isspace() for c in given) or parts.query or parts.fragment:
        raise not_an_address(text, "it names no host" if not host else "it is more than an address")
    if parts.netloc.endswith(":"):
        raise not_an_address(text, "there is no port behind ':'")
    if host.isdigit():
        raise not_an_address(text, f"'{host}' is not the name of a host")
    if plain and parts.netloc.count(":") > 1 and "[" not in parts.netloc:
        raise not_an_address(text, "an IPv6 address stands in brackets")
    if not plain:
        return given
    return f"http://{given}" if port is not None else _with_port(parts.netloc, parts.path)


def _with_port(host: str, path: str) -> str:
    return f"http://{host}:{DEFAULT_PORT}{path}"


def host_and_port(host: str, port: int) -> str:
    """Returns the address as it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def not_an_address(text: str, detail: str) -> ServiceError:
    """Returns the error for an address that is none, with the reason."""
    return ServiceError(
        f"'{text}' is not the address of a server",
        detail=detail,
        hint=f"write it like 127.0.0.1:{DEFAULT_PORT}, [::1]:{DEFAULT_PORT} or https://example.org",
    )
