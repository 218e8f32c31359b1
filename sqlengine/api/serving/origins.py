"""Tells requests of web pages apart, for a server without a token.

A browser on this machine reaches the server, too, for any page that it shows. What pages cannot
forge tells them apart: Host names what the browser took for the server, Origin, Referer and
Sec-Fetch-Site say which page asked."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from parser.errors import ServiceError
from sqlengine.api.serving.admission import Head, Refusal

_PORTS: Final = {"http": 80, "https": 443}
# A client writes the same Host each time; what one can write is not small.
_KNOWN: Final = 64


def foreign(head: Head, *, anywhere: bool = False) -> Refusal | None:
    """Returns the refusal of a request that names another machine, or that a page of another origin
    made: another scheme, host or port than the request's own. `anywhere`: it may name any host."""
    own = _origin(f"{head.scheme}://{head.headers.get('host', '')}")
    if own is None or not (anywhere or is_loopback(own[1])):
        host = head.headers.get("host", "")[:60]
        return _refusal(f"the request's Host is '{host}'" if host else "the request has no Host")
    origin = head.headers.get("origin")
    if origin is not None:
        return None if _origin(origin) == own else _refusal(f"its Origin is '{origin[:60]}'")
    site = head.headers.get("sec-fetch-site", "none")
    if site not in ("none", "same-origin"):
        return _refusal(f"its Sec-Fetch-Site is '{site[:60]}'")
    referer = head.headers.get("referer")
    if referer is not None and _origin(referer) != own:
        return _refusal(f"its Referer is '{referer[:60]}'")
    return None


@lru_cache(_KNOWN)
def is_loopback(host: str) -> bool:
    """Returns whether a host is this machine, by its name or by an address in any form."""
    if host.removesuffix(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


@lru_cache(_KNOWN)
def _origin(url: str) -> tuple[str, str, int] | None:
    """Returns scheme, host and port of a URL; None for what is none, such as 'null'."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        return None
    return parts.scheme, _canonical(parts.hostname), port or _PORTS[parts.scheme]


def _canonical(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _refusal(detail: str) -> Refusal:
    error = ServiceError(
        "requests come from this machine only unless a token is set",
        detail=detail,
        hint="web pages of other origins may not use the server; for other machines start it with"
        " --token-file",
    )
    return Refusal(403, error)
