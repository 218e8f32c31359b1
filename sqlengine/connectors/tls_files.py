"""The files of TLS that options of tables name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parser.errors import ExecutionError, PlanError
from planner.catalog import Table
from sqlengine.formats.base import Option
from sqlengine.system.file_access import FileAccess

CA, CERTIFICATE, KEY = "tls.ca", "tls.cert", "tls.key"

TLS_OPTIONS: Final[Mapping[str, Option]] = {
    CA: Option(doc="a file in PEM: the authorities that are trusted, in the place of the system's"),
    CERTIFICATE: Option(doc="a file in PEM: the certificate that the other side is shown"),
    KEY: Option(secret=False, doc="a file in PEM: its key, without a password"),
}


@dataclass(frozen=True)
class PemFiles:
    """Files in PEM: `authorities` that are trusted, in the place of those of the system, and the
    `certificate` with its `key` that is shown."""

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def client_context(self) -> ssl.SSLContext:
        """Reads them for a client. ExecutionError for one that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.authorities)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            raise _unusable(error) from None
        return context

    def server_context(self) -> ssl.SSLContext:
        """Reads them for a server; where there are authorities, clients must show a certificate of
        theirs. Raises as `client_context`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A sender that reads nothing would leave tickets unread, and its kernel then takes back
        # what it has sent last, when it closes the connection.
        context.num_tickets = 0
        try:
            context.load_cert_chain(str(self.certificate), self.key, password=_no_password)
            if self.authorities is not None:
                context.load_verify_locations(cafile=self.authorities)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:
            raise _unusable(error) from None
        return context


def pem_files(table: Table, options: Mapping[str, object], files: FileAccess) -> PemFiles:
    """Returns the files that a table with `TLS_OPTIONS` names.

    PlanError for one that SQL may not use, and for a key alone."""
    paths = [None if options[name] is None else Path(str(options[name])) for name in TLS_OPTIONS]
    for option, path in zip(TLS_OPTIONS, paths, strict=True):
        if path is not None:
            files.check_file(path, table=table.display, option=option)
    found = PemFiles(*paths)
    if found.key is not None and found.certificate is None:
        raise PlanError(f"table '{table.display}' has '{KEY}', and no '{CERTIFICATE}'")
    return found


def _unusable(error: Exception) -> ExecutionError:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return ExecutionError(
        f"the files of '{CA}', '{CERTIFICATE}' and '{KEY}' cannot be used",
        detail=reason,
        hint="they are in PEM, the key without a password",
    )


def _no_password() -> str:
    """Keeps OpenSSL from asking for one at the terminal."""
    raise ValueError("the key has a password")
