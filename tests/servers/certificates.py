"""Certificates for servers of tests: one authority, and what it has signed."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Signed:
    """A certificate and its private key, as files in PEM; `both` has the one behind the other."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates for loopback; its own is in `certificate`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("authority")
        made = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate = folder / "authority.pem"
        self.certificate.write_bytes(
            made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        )

    def sign(self, name: str) -> Signed:
        """Returns a new certificate for `name`, at 127.0.0.1 and localhost."""
        key = ec.generate_private_key(ec.SECP256R1())
        places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = self._builder(_named(name), key).add_extension(
            x509.SubjectAlternativeName(places), critical=False
        )
        chain = made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        signed = Signed(*(self._folder / f"{name}.{kind}.pem" for kind in ("crt", "key", "both")))
        signed.certificate.write_bytes(chain)
        signed.key.write_bytes(private)
        signed.both.write_bytes(private + chain)
        return signed

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=name,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(days=1),
            not_valid_after=now + timedelta(days=30),
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
