"""The files of TLS that options of tables name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from parser.errors import ExecutionError, PlanError
from sqlengine.formats.base import Option
from sqlengine.system.file_access import FileAccess

CA, CERTIFICATE, KEY = "tls.ca", "tls.cert", "tls.key"

TLS_OPTIONS: Final[Mapping[str, Option]] = {
    CA: Option(doc="a file in PEM: the authorities that are trusted, in the place of the system's"),
    CERTIFICATE: Option(doc="a file in PEM: the certificate that the other side is shown"),
    KEY: Option(secret=False, doc="a file in PEM: its key, without a password"),
}


def client_context(options: Mapping[str, object], files: FileAccess) -> ssl.SSLContext:
    """Returns what a client of TLS trusts and shows.

    PlanError for a file that SQL may not use, ExecutionError for one that cannot be used."""
    paths = {name: _path(options, name, files) for name in TLS_OPTIONS}
    certificate, key = paths[CERTIFICATE], paths[KEY]
    if certificate is None and key is not None:
        raise PlanError(f"'{KEY}' is the key of '{CERTIFICATE}', which is missing")
    try:
        context = ssl.create_default_context(cafile=paths[CA])
        if certificate is not None:
            context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise _unusable(error) from None
    return context


def server_context(options: Mapping[str, object], files: FileAccess) -> ssl.SSLContext:
    """Returns what a server of TLS shows; with 'tls.ca' clients must show a certificate of these
    authorities. Raises as `client_context`."""
    paths = {name: _path(options, name, files) for name in TLS_OPTIONS}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(str(paths[CERTIFICATE]), paths[KEY], password=_no_password)
        if paths[CA] is not None:
            context.load_verify_locations(cafile=paths[CA])
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:
        raise _unusable(error) from None
    return context


def _unusable(error: Exception) -> ExecutionError:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return ExecutionError(
        f"the files of '{CA}', '{CERTIFICATE}' and '{KEY}' cannot be used",
        detail=reason,
        hint="they are in PEM, the key without a password",
    )


def _path(options: Mapping[str, object], name: str, files: FileAccess) -> Path | None:
    text = options.get(name)
    if text is None:
        return None
    path = Path(str(text))
    files.check(path)
    return path


def _no_password() -> str:
    """Keeps OpenSSL from asking for one at the terminal."""
    raise ValueError("the key has a password")
