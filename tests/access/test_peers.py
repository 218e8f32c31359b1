"""Principals that are known by their connection: users of this machine on the local socket, and names in
certificates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sqlengine.client import Client, Refused
from tests.access.conftest import TOKENS, access_text
from tests.access.test_audit_chain import told
from tests.hostile.certificates import Authority
from tests.hostile.test_tls import trusting
from tests.service.harness import User, running

KNOWN = """
[principals.root]
roles = ["admin"]

[principals.ingest]
roles = ["write"]
topics = ["events"]
users = [54322]
certificates = ["ingest"]
"""
# A request of another user of this machine; prints the first line and the body.
ASK = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(f"{sys.argv[3]} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\nContent-Length: 0\\r\\n\\r\\n".encode())
print(s.makefile().read())
"""


def written(folder: Path) -> Path:
    file = folder / "access.toml"
    file.write_text(access_text(KNOWN))
    return file


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_users_of_this_machine(tmp_path: Path) -> None:
    """The kernel says who it is; the server's own user is an administrator."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "socket"

        def asked(user: int, line: str) -> str:
            command = [sys.executable, "-c", ASK, str(path), str(user), line]
            return subprocess.run(
                command, cwd="/", capture_output=True, text=True, check=True
            ).stdout

        with running(tmp_path / "data", access=written(tmp_path), socket=path):
            own = Client(f"unix:{path}")
            own.post("/api/v1/topics", {"name": "events"})
            own.post("/api/v1/topics", {"name": "others"})
            assert " 200 " in asked(54322, "POST /api/v1/topics/events/records").splitlines()[0]
            assert "principal 'ingest' may not" in asked(54322, "GET /api/v1/topics/events/records")
            assert " 403 " in asked(54322, "DELETE /api/v1/topics/others").splitlines()[0]
            assert " 401 " in asked(54323, "GET /api/v1/topics").splitlines()[0]
            assert "user 54323 of this machine is no principal" in asked(
                54323, "GET /api/v1/topics"
            )
    peers = {(t["by"], t["peer"]) for t in told(tmp_path / "data" / "audit")}
    assert {("", f"user {os.geteuid()}"), ("ingest", "user 54322"), ("", "user 54323")} < peers


def test_names_in_certificates(tmp_path: Path) -> None:
    """A certificate of the authority is needed by all, and is somebody only if the file says so;
    a token counts before it."""
    authority = Authority(tmp_path / "ca")
    own = authority.sign("server")
    files = {
        "tls_certificate": own.certificate, "tls_key": own.key,
        "tls_client_ca": authority.own.certificate,
    }  # fmt: skip
    with running(tmp_path / "data", access=written(tmp_path), **files) as (service, _):
        url = f"https://localhost:{service.port}"
        tls = trusting(authority, authority.sign("ingest"))
        Client(url, TOKENS["root"], tls=tls).post("/api/v1/topics", {"name": "events"})
        User(Client(url, tls=tls)).write("events", b"x")
        stranger = trusting(authority, authority.sign("Ingest"))
        for client, status in (
            (Client(url, tls=tls), 403),
            (Client(url, "wrong" * 10, tls=tls), 401),
            (Client(url, tls=stranger), 401),
        ):
            with pytest.raises(Refused) as error:
                client.get("/api/v1/topics/events/records")
            assert error.value.status == status
