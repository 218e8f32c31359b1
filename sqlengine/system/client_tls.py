"""TLS on the side of clients: whom they trust, what they show, and what its errors mean."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from parser.errors import ServiceError

_EXPIRED: Final = 10
_OTHER_NAME: Final = frozenset({62, 64})
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF", "HTTP_REQUEST")


@dataclass(frozen=True)
class ClientTls:
    """Files in PEM. `ca_file`: authorities that are trusted besides those of the system;
    `certificate` and `key`: what a server is shown that asks for a certificate. A None takes the
    variable SQLENGINE_CA_FILE, SQLENGINE_CLIENT_CERT or SQLENGINE_CLIENT_KEY."""

    ca_file: str | None = None
    certificate: str | None = None
    key: str | None = None

    def or_else(self, environment: Mapping[str, str] = os.environ) -> ClientTls:
        """Returns what is given, else what the environment has."""
        return ClientTls(
            self.ca_file or environment.get("SQLENGINE_CA_FILE"),
            self.certificate or environment.get("SQLENGINE_CLIENT_CERT"),
            self.key or environment.get("SQLENGINE_CLIENT_KEY"),
        )

    def context(self) -> ssl.SSLContext:
        """Reads the files. Raises ServiceError for one that cannot be used."""
        files = self.or_else()
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            if files.ca_file is not None:
                context.load_verify_locations(files.ca_file)
            if files.certificate is not None:
                context.load_cert_chain(files.certificate, files.key)
        except (OSError, ValueError) as error:
            named = files.ca_file if files.certificate is None else files.certificate
            raise ServiceError(
                f"the certificate file '{named}' cannot be used",
                detail=getattr(error, "reason", None) or getattr(error, "strerror", None),
                hint="--ca-file, --client-cert and --client-key name files in PEM",
            ) from None
        return context


NO_FILES: Final = ClientTls()


def explained(server: str, error: object) -> ServiceError | None:
    """Returns what an error of TLS means for whoever asked `server`; None for another error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(server, error)
    if not isinstance(error, ssl.SSLError):
        return None
    reason = error.reason or str(error)
    if any(r in reason.upper().replace(" ", "_") for r in _NO_TLS):
        return ServiceError(
            f"what answers at {server} does not speak TLS",
            detail=reason.lower().replace("_", " "),
            hint=f"is it http:// instead of https://? Write {server.replace('https://', 'http://')}",
        )
    if "ALERT" in reason.upper() or "HANDSHAKE" in reason.upper():
        return ServiceError(
            f"{server} does not accept the certificate of this client, or has none",
            detail=reason.lower().replace("_", " "),
            hint="--client-cert and --client-key (or SQLENGINE_CLIENT_CERT and …_KEY) name one that"
            " an authority of the server has signed",
        )
    return ServiceError(
        f"no TLS with {server}", detail=reason.lower().replace("_", " "), hint="is the port right?"
    )


def _untrusted(server: str, error: ssl.SSLCertVerificationError) -> ServiceError:
    if error.verify_code == _EXPIRED:
        message, hint = "has expired", "the server needs a new one; it reads it while it runs"
    elif error.verify_code in _OTHER_NAME:
        message, hint = "is for another name", "write the name that the certificate has"
    else:
        message = "is signed by nobody whom this client trusts"
        hint = "--ca-file FILE, or SQLENGINE_CA_FILE, names the authority that signed it"
    return ServiceError(
        f"the certificate of {server} {message}", detail=error.verify_message, hint=hint
    )
