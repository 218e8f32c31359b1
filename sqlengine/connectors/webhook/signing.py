"""Signatures of requests by HMAC, as receivers of webhooks check them."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from parser.errors import OptionError

# Each scheme with the header that has its signature.
SCHEMES: Final = {
    "standard": "webhook-signature",
    "timestamped": "X-Signature",
    "body": "X-Hub-Signature-256",
}
ALGORITHMS: Final = ("sha256", "sha512")
_PREFIX: Final = "whsec_"


@dataclass(frozen=True)
class Signer:
    """Signs requests.

    `scheme`: 'standard' is Standard Webhooks (id, time and body), 'timestamped' Stripe's (time and
    body: t=…,v1=…), 'body' GitHub's (the body alone: sha256=…), which anybody may send again."""

    secret: bytes = field(repr=False)
    scheme: str = "standard"
    header: str = SCHEMES["standard"]
    algorithm: str = "sha256"

    def headers(self, body: bytes, key: str, now_s: int) -> dict[str, str]:
        """Returns the headers that sign a request; `key` knows it from others, and stays the same
        when it is sent again."""
        match self.scheme:
            case "standard":
                mac = base64.b64encode(self._mac(f"{key}.{now_s}.".encode() + body)).decode()
                return {
                    "webhook-id": key,
                    "webhook-timestamp": str(now_s),
                    self.header: f"v1,{mac}",
                }
            case "timestamped":
                mac = self._mac(f"{now_s}.".encode() + body).hex()
                return {self.header: f"t={now_s},v1={mac}"}
        return {self.header: f"{self.algorithm}={self._mac(body).hex()}"}

    def _mac(self, signed: bytes) -> bytes:
        return hmac.digest(self.secret, signed, self.algorithm)


def signer_of(options: Mapping[str, object]) -> Signer | None:
    """Returns what signs the requests of a table; None without 'signature.secret'. OptionError for
    a secret that its scheme cannot have."""
    secret, scheme = options["signature.secret"], str(options["signature.scheme"])
    if secret is None:
        return None
    header = options["signature.header"] or SCHEMES[scheme]
    return Signer(
        _key(str(secret), scheme), scheme, str(header), str(options["signature.algorithm"])
    )


def _key(secret: str, scheme: str) -> bytes:
    if scheme != "standard" or not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise OptionError(
            f"'signature.secret' begins with {_PREFIX} and is no base64", subject="signature.secret"
        ) from None
