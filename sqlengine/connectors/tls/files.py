"""The files of TLS that options of tables name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parser.errors import ExecutionError, OptionError
from planner.catalog import Table
from sqlengine.formats.base import Option
from sqlengine.system.file_access import FileAccess

CA, CERTIFICATE, KEY = "tls.ca", "tls.cert", "tls.key"

TLS_OPTIONS: Final[Mapping[str, Option]] = {
    CA: Option(doc="a file in PEM: the authorities that are trusted, in the place of the system's"),
    CERTIFICATE: Option(doc="a file in PEM: the certificate that the other side is shown"),
    KEY: Option(secret=False, doc="a file in PEM: its key, without a password"),
}


_WITH_TLS: Final[Mapping[str, str]] = {
    "http://": "https://",
    "tcp://": "tls:// (in MQTT ssl://)",
    "udp://": "tls://",
}
_NOT_PEM: Final = "it has no such thing in PEM"
_WORDS: Final = {
    "NO_CERTIFICATE_OR_CRL_FOUND": "it has no certificate",
    "KEY_VALUES_MISMATCH": f"it is not the key of '{CERTIFICATE}'",
    "NO_START_LINE": _NOT_PEM,
}


@dataclass(frozen=True)
class PemFiles:
    """Files in PEM: `authorities` that are trusted, in the place of those of the system, and the
    `certificate` with its `key` that is shown. `table`: whose options name them."""

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    table: str = ""

    def client_context(self) -> ssl.SSLContext:
        """Reads them for a client. ExecutionError for one that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.authorities)
        except (OSError, ValueError) as error:
            raise self._unusable(CA, self.authorities, _reason(error)) from None
        if self.certificate is not None:
            self._show(context, self.certificate)
        return context

    def server_context(self) -> ssl.SSLContext:
        """Reads them for a server; where there are authorities, clients must show a certificate of
        theirs. Raises as `client_context`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A sender that reads nothing would leave tickets unread, and its kernel then takes back
        # what it has sent last, when it closes the connection.
        context.num_tickets = 0
        assert self.certificate is not None, "a server has one"
        self._show(context, self.certificate)
        if self.authorities is not None:
            try:
                context.load_verify_locations(cafile=self.authorities)
            except (OSError, ValueError) as error:
                raise self._unusable(CA, self.authorities, _reason(error)) from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _show(self, context: ssl.SSLContext, certificate: Path) -> None:
        """Lets a context show the certificate. OpenSSL does not say which of two files is at fault:
        where it refuses them, each is looked at by itself."""
        try:
            context.load_cert_chain(certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            fault = _fault(certificate)
            if fault is None and self.key is not None:
                raise self._unusable(KEY, self.key, _reason(error)) from None
            fault = fault or f"no key: '{KEY}' names it"
            raise self._unusable(CERTIFICATE, certificate, fault) from None

    def _unusable(self, option: str, path: Path | None, reason: str) -> ExecutionError:
        return ExecutionError(
            f"option '{option}' of table '{self.table}' names a file that cannot be used: '{path}'",
            detail=reason,
            hint="it is in PEM" + (", without a password" if option == KEY else ""),
            subject=option,
        )


def pem_files(
    table: Table, options: Mapping[str, object], files: FileAccess, plain: str | None = None
) -> PemFiles:
    """Returns the files that a table with `TLS_OPTIONS` names.

    `plain`: how the address of a table begins that speaks no TLS. PlanError for a file that SQL may
    not use, OptionError for a key alone, and for files that would not be used."""
    paths = {name: Path(str(options[name])) for name in TLS_OPTIONS if options[name] is not None}
    for option, path in paths.items():
        _check_used(table, option, plain)
        files.check_file(path, table=table.display, option=option)
    found = PemFiles(paths.get(CA), paths.get(CERTIFICATE), paths.get(KEY), table.display)
    if found.key is not None and found.certificate is None:
        raise OptionError(
            f"table '{table.display}' has '{KEY}', and no '{CERTIFICATE}'",
            hint="give both, or none",
            subject=KEY,
        )
    return found


def _check_used(table: Table, option: str, plain: str | None) -> None:
    """OptionError for a file of TLS of a table that speaks none: who names it believes that rows
    and passwords are encrypted."""
    if plain is not None:
        raise OptionError(
            f"option '{option}' of table '{table.display}' is for TLS, and the table speaks none",
            detail=f"its address begins with {plain}",
            hint=f"write {_WITH_TLS[plain]}, or leave '{option}' out",
            subject=option,
        )


def _fault(certificate: Path) -> str | None:
    """Returns why a file has no certificate; None if it has one."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(certificate)
    except (OSError, ValueError) as error:
        return _reason(error)
    return None


def _reason(error: Exception) -> str:
    """Returns what OpenSSL, or the system, says."""
    said = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return _WORDS.get(said, said if "_ssl.c" not in said else _NOT_PEM)


def _no_password() -> str:
    """Keeps OpenSSL from asking for one at the terminal."""
    raise ValueError("the key has a password")
