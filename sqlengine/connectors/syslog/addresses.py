"""Addresses of syslog: where messages are taken, and where they are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"udp": 514, "tcp": 514, "tls": 6514}
_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True)
class Address:
    """A host and a port. `transport`: 'udp', 'tcp' or 'tls'."""

    transport: str
    host: str
    port: int

    @property
    def scheme(self) -> str:
        """The begin of the address."""
        return f"{self.transport}://"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.transport}://{host}:{self.port}"


def server_address(text: str) -> Address:
    """Parses where messages are sent. ValueError where that is no address."""
    found = _address(text)
    if not found.host:
        raise ValueError("expected a host, as in udp://host:514")
    return found


def listen_addresses(text: str) -> tuple[Address, ...]:
    """Parses where messages are taken, separated by ;. Without a host it is this machine's own
    127.0.0.1. ValueError where one is no address."""
    found = []
    for part in text.split(";"):
        address = _address(part)
        host = address.host or _LOOPBACK
        found.append(Address(address.transport, host, address.port))
    if len(set(found)) < len(found):
        raise ValueError("an address stands there twice")
    return tuple(found)


def _address(text: str) -> Address:
    parts = urlsplit(text.strip())
    if parts.scheme not in _PORTS:
        raise ValueError("expected udp://, tcp:// or tls:// with a host and a port")
    if parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("expected a host and a port alone, as in udp://127.0.0.1:5514")
    return Address(parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme])
