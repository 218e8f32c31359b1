"""The server that a client of MQTT speaks to, and the account that it uses."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from parser.errors import ExecutionError
from sqlengine.connectors.mqtt.packets import V5, Version, Will

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
class Files:
    """Files in PEM. `authorities`: who is trusted, in the place of those of the system;
    `certificate` and `key`: what a server is shown."""

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    check_host: bool = True

    def context(self) -> ssl.SSLContext:
        """Reads the files. ExecutionError for one that cannot be used."""
        authorities = None if self.authorities is None else str(self.authorities)
        try:
            context = ssl.create_default_context(cafile=authorities)
            context.check_hostname = self.check_host
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            named = self.authorities if self.certificate is None else self.certificate
            raise ExecutionError(
                f"the certificate file '{named}' cannot be used",
                detail=getattr(error, "reason", None) or getattr(error, "strerror", None),
                hint="'tls.ca', 'tls.cert' and 'tls.key' name files in PEM",
            ) from None
        return context


@dataclass(frozen=True)
class Account:
    """The account of a client, and its wishes for its session at the server.

    `client`: its id, '' for one that the server chooses; `expiry_s`: how long the server keeps the
    session of a client that is gone; `in_flight`: how many messages may come before one of them is
    acknowledged. Times in s."""

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
    files: Files = Files()
    timeout_s: float = 10.0
