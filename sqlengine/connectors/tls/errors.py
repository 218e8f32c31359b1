"""Errors of TLS for people: what is wrong with a connection, and which option may be."""

from __future__ import annotations

import ssl
from typing import Final

from sqlengine.connectors.tls.files import CA, CERTIFICATE, KEY

_OTHER_NAME: Final = (62, 64)  # verify codes of OpenSSL: of a host, of an address
_EXPIRED: Final = 10
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH")
# Alerts with which a server ends a connection because of what it was shown.
_SHOW: Final = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")
_SHOWN: Final = ("UNKNOWN_CA", "BAD_CERTIFICATE", "ALERT_CERTIFICATE", "UNSUPPORTED_CERTIFICATE")


def tls_words(error: BaseException, plain: str = "another port") -> str | None:
    """Returns what an error of TLS means, with the option that may be wrong; None for any other.
    `plain`: what may be right where the other side speaks no TLS, such as 'tcp://'.

    >>> tls_words(ssl.SSLEOFError(8, "EOF occurred in violation of protocol"))
    "it has closed the connection: does it want a certificate ('tls.cert' and 'tls.key')?"
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error)
    if isinstance(error, ssl.SSLEOFError):
        wanted = f"does it want a certificate ('{CERTIFICATE}' and '{KEY}')?"
        return f"it has closed the connection: {wanted}"
    if not isinstance(error, ssl.SSLError):
        return None
    reason = error.reason or str(error)
    said = reason.lower().replace("_", " ")
    if any(mark in reason for mark in _NO_TLS):
        return f"it speaks no TLS ({said}): {plain} may be right"
    if any(mark in reason for mark in _SHOW):
        return f"it wants a certificate ({said}): see '{CERTIFICATE}' and '{KEY}'"
    if any(mark in reason for mark in _SHOWN):
        return f"it does not trust the certificate of '{CERTIFICATE}' ({said})"
    return f"no TLS: {said}"


def _untrusted(error: ssl.SSLCertVerificationError) -> str:
    said = f"its certificate is not trusted: {error.verify_message.rstrip('.')}"
    if error.verify_code in _OTHER_NAME:
        return f"{said}; write the name that it has"
    if error.verify_code == _EXPIRED:
        return said
    return f"{said}; '{CA}' names who may have signed it"
