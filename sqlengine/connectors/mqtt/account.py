"""The server that a client of MQTT speaks to, and the account that it uses."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from sqlengine.connectors.mqtt.packets import V5, Version, Will
from sqlengine.connectors.tls.files import PemFiles

_SCHEMES: Final = {"tcp": 1883, "mqtt": 1883, "ssl": 8883, "mqtts": 8883, "tls": 8883}


@dataclass(frozen=True)
class Address:
    """A server: host, port, and whether it is spoken to by TLS."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'ssl' if self.tls else 'tcp'}://{host}:{self.port}"


def address_of(text: str) -> Address:
    """Returns the server that the option 'server' names. ValueError where it names none."""
    parts = urlsplit(text.strip())
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError("expected tcp://host:1883, or ssl://host:8883")
    if parts.username is not None or parts.path.strip("/") or parts.query:
        raise ValueError("expected a host and a port alone; who connects is said by 'username'")
    default = _SCHEMES[parts.scheme]
    return Address(parts.hostname, parts.port or default, tls=default == 8883)


@dataclass(frozen=True)
class Account:
    """The account of a client, and its wishes for its session at the server.

    `client`: its id, '' for one that the server chooses; `expiry_s`: how long the server keeps the
    session of a client that is gone; `in_flight`: how many messages may come before one of them is
    acknowledged; `check_host`: a certificate must name the host. Times in s."""

    address: Address
    client: str
    version: Version = V5
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    clean: bool = False
    expiry_s: int = 0
    keep_alive_s: int = 60
    in_flight: int = 4096
    will: Will | None = None
    files: PemFiles = field(default_factory=PemFiles)
    check_host: bool = True
    timeout_s: float = 10.0

    def context(self) -> ssl.SSLContext:
        """Reads the files. ExecutionError for one that cannot be used."""
        context = self.files.client_context()
        context.check_hostname = self.check_host
        return context
