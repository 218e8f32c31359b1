"""TLS between the door of a server and its instances on other machines.

Those are told the digest of the door's certificate with their secret, and take no other one. So no
authority is asked, and a certificate that runs out meanwhile is as good as before: what was
admitted is admitted, until the server ends. Both ends are of one version, so that TLS 1.3 is all
that they speak."""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from parser.errors import ServiceError

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"


@dataclass(frozen=True)
class DoorTls:
    """The door's side: its certificate, as it was when the server began, and the `digest` of it."""

    context: ssl.SSLContext = field(repr=False)
    digest: bytes

    @classmethod
    def of(cls, certificate: Path, key: Path) -> DoorTls:
        """Reads files in PEM. ServiceError where they cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Whoever waits for a message would find something to read, and then wait for the message.
        context.num_tickets = 0
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
            text = certificate.read_text(encoding="ascii")
            first = text[text.index(_BEGIN) : text.index(_END) + len(_END)]
            return cls(context, _digest(ssl.PEM_cert_to_DER_cert(first)))
        except (OSError, ValueError) as error:
            raise ServiceError(
                f"the certificate '{certificate}' with the key '{key}' cannot be used",
                detail=str(error),
            ) from None

    def around(self, connection: socket.socket) -> socket.socket:
        """Returns a connection over which nothing was said yet, as one of TLS; see `begin`."""
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)


def begin(connection: socket.socket) -> None:
    """Makes the handshake of a connection, if it is one of TLS. OSError where that fails."""
    if isinstance(connection, ssl.SSLSocket):
        connection.do_handshake()


def connected(connection: socket.socket, digest: bytes) -> socket.socket:
    """Returns a connection to a door as one of TLS. ConnectionRefusedError for a door that has not
    the certificate with that digest."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    secured = context.wrap_socket(connection)
    found = secured.getpeercert(binary_form=True)
    if found is None or not hmac.compare_digest(_digest(found), digest):
        secured.close()
        raise ConnectionRefusedError(None, "somebody else answers there")
    return secured


def _digest(certificate: bytes) -> bytes:
    return hashlib.sha256(certificate).digest()


def _no_password() -> str:
    raise ValueError("the key is encrypted")
