"""Certificates of the server: its own, which is read again when its files change, and the
authorities of those that clients show."""

from __future__ import annotations

import logging
import ssl
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parser.errors import ServiceError
from sqlengine.system.stamps import stamp_of

log = logging.getLogger("sqlengine")
# Files are looked at so often.
_EVERY_S: Final = 2.0


@dataclass(frozen=True)
class TlsFiles:
    """Files in PEM: the certificate with those between it and an authority, its key, and the
    authorities of clients' certificates (None: clients show none)."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Reads the files. Raises ServiceError for one that is none, for a key that is of another
        certificate, and for one that everybody may read."""
        self._check_rights()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        try:
            # An encrypted key would be asked for on the terminal.
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            raise _unreadable(
                f"the certificate '{self.certificate}' with the key '{self.key}'", error
            ) from None
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except (OSError, ValueError) as error:
                raise _unreadable(f"the authorities '{self.client_ca}'", error) from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _check_rights(self) -> None:
        # A group may read it: that of 'ssl-cert', say.
        with suppress(OSError):  # that it is not there is told when it is read
            mode = self.key.stat().st_mode
            if mode & (stat.S_IRWXO | stat.S_IWGRP):
                raise ServiceError(
                    f"the key '{self.key}' may be read or written by others",
                    detail="whoever has it can pass for this server",
                    hint=f"chmod 600 {self.key}",
                )

    def state(self) -> tuple[object, ...]:
        """Returns what changes when a file is written or replaced."""
        return tuple(stamp_of(p) for p in (self.certificate, self.key, self.client_ca) if p)


class Certificates:
    """The present context of TLS. Used by one thread."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._state = files.state()
        self._next = time.monotonic() + _EVERY_S
        self.context = files.context()

    def refresh(self, now: float) -> None:
        """Reads files that have changed, for connections from now on. While they cannot be used,
        the certificate of before stays, and the log says so once for each change."""
        if now < self._next:
            return
        self._next = now + _EVERY_S
        state = self._files.state()
        if state == self._state:
            return
        self._state = state
        try:
            self.context = self._files.context()
        except ServiceError as error:
            log.warning("%s: %s; the one of before is used", error.message, error.detail)
        else:
            log.info("the certificate '%s' was read again", self._files.certificate)


def name_in(certificate: Mapping[str, object] | None) -> str | None:
    """Returns the common name of a certificate as `getpeercert` gives it, else its first other
    name.

    >>> name_in({"subject": ((("commonName", "ingest"),),)})
    'ingest'
    """
    if not certificate:
        return None
    subject, others = certificate.get("subject", ()), certificate.get("subjectAltName", ())
    assert isinstance(subject, tuple)
    assert isinstance(others, tuple)
    common = [str(value) for part in subject for kind, value in part if kind == "commonName"]
    return next(iter([*common, *(str(value) for _, value in others)]), None)


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _unreadable(what: str, error: Exception) -> ServiceError:
    detail = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return ServiceError(
        f"{what} cannot be used",
        detail=str(detail),
        hint="files in PEM are expected: the certificate with its chain, and its key without a"
        " password",
    )
