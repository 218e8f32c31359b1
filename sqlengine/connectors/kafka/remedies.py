"""Remedies for errors of the client: the option to look at, by what the client says."""

from __future__ import annotations

import re
from typing import Final

_PROTOCOL: Final = "'properties.security.protocol'"
_MECHANISM: Final = "properties.sasl.mechanism"

_OTHER_PORT: Final = "or name another port in 'properties.bootstrap.servers'"
# What the client says where a connection ends before a request was answered, and the remedy: the
# first that fits.
_SAID: Final = {
    r"unsupported sasl mechanism": f"write one that the brokers have as '{_MECHANISM}'",
    r"not valid in current sasl state": (
        f"this port asks for no user: see {_PROTOCOL} ('PLAINTEXT' or 'SSL' without one),"
        f" {_OTHER_PORT}"
    ),
    r"sasl authentication error|authentication failed": (
        "see 'properties.sasl.username' and 'properties.sasl.password', and whether the user is one"
        f" of '{_MECHANISM}'"
    ),
    r"connecting to a plaintext broker|wrong version number"
    r"|disconnected: ssl connection closed.*in state SSL_HANDSHAKE": (
        f"this port has no TLS: see {_PROTOCOL} ('PLAINTEXT', 'SASL_PLAINTEXT'), {_OTHER_PORT}"
    ),
    r"decompression .*failed|invalid response size": (
        "'properties.receive.message.max.bytes' (100000000 by default) allows larger batches, as"
        " they come and as they are unpacked"
    ),
    r"certificate verify failed": (
        "'properties.ssl.ca.location' names the authority that has signed the brokers' certificates"
    ),
    r"bad certificate|certificate required|alert number (?:42|116)\b": (
        "the brokers want a certificate: see 'properties.ssl.certificate.location' and"
        " 'properties.ssl.key.location'"
    ),
    r"incorrect security\.protocol|connecting to a ssl listener|\bAPIVERSION_QUERY\b"
    r"|by peer.* \(after \d{1,3}ms in state UP\)": (
        f"this port may want TLS or a user: see {_PROTOCOL} ('SSL', 'SASL_SSL'), {_OTHER_PORT}"
    ),
}
_REMEDIES: Final = [(re.compile(said, re.IGNORECASE), hint) for said, hint in _SAID.items()]
# What the client says of settings without the usual words, and the option.
_OF_MECHANISM: Final = re.compile(r"SASL mechanism", re.IGNORECASE)
_NAMED: Final = re.compile(r'configuration property:? "([^"]+)"')
_SETTING: Final = re.compile(r"\b((?:sasl|ssl|https|security)(?:\.[a-z]+)+)\b")
_NO_GSSAPI: Final = re.compile(r"mechanism GSSAPI")


def remedy(said: str | None) -> str | None:
    """Returns which options to look at for an error of a connection; None where it may be of the
    network."""
    return next((hint for found, hint in _REMEDIES if found.search(said or "")), None)


def refused_option(said: str) -> tuple[str, str]:
    """Returns the option that the client does not take, without 'properties.', and what to do.

    >>> refused_option('No such configuration property: "x"')[0]
    'x'
    >>> refused_option("sasl.username and sasl.password must be set")[0]
    'sasl.username'
    """
    if _NO_GSSAPI.search(said):
        return "sasl.mechanism", f"write '{_MECHANISM}' = 'PLAIN', or another that the brokers have"
    if _OF_MECHANISM.search(said):
        return "sasl.mechanism", "the client knows PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"
    found = _NAMED.search(said) or _SETTING.search(said)
    hint = "its settings are librdkafka's, and those of Java's client that have a counterpart"
    return (found[1] if found else "*"), hint
