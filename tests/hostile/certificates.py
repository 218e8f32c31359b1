"""Certificates for tests, made by the command openssl."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

MISSING = None if shutil.which("openssl") else "the command openssl is not there"


def run(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """An authority whose files are in `folder`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.own = Pair(folder / f"{name}.pem", folder / f"{name}.key")
        run(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "30", "-subj", f"/CN={name}", "-keyout", self.own.key,
            "-out", self.own.certificate,
        )  # fmt: skip

    def sign(self, name: str, alternatives: str = "DNS:localhost,IP:127.0.0.1") -> Pair:
        """A certificate with that common name and these other names."""
        made = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\n")
        run(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={name}", "-keyout", made.key, "-out", request,
        )  # fmt: skip
        run(
            "x509", "-req", "-in", request, "-CA", self.own.certificate, "-CAkey", self.own.key,
            "-CAcreateserial", "-days", "30", "-extfile", extensions, "-out", made.certificate,
        )  # fmt: skip
        return made

    def expired(self, name: str) -> Pair:
        """A certificate whose time is over."""
        made = self.sign(name)
        request = self.folder / f"{name}.csr"
        database = self.folder / "expired"
        database.mkdir()
        (database / "index").touch()
        (database / "serial").write_text("01\n")
        (database / "config").write_text(
            "[ca]\ndefault_ca=d\n[d]\n"
            f"dir={database}\nnew_certs_dir={database}\ndatabase={database}/index\n"
            f"serial={database}/serial\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n"
        )
        run(
            "ca", "-batch", "-config", database / "config", "-cert", self.own.certificate,
            "-keyfile", self.own.key, "-in", request, "-out", made.certificate, "-notext",
            "-startdate", "20200101000000Z", "-enddate", "20210101000000Z",
            "-extfile", self.folder / f"{name}.ext",
        )  # fmt: skip
        return made
