"""The local socket of a server: whoever connects is the user that the kernel names."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from parser.errors import ServiceError
from sqlengine import connect
from sqlengine.broker.errors import Unreachable
from sqlengine.client import Client, Refused, default_client
from sqlengine.config import Config
from sqlengine.service import Service
from tests.cli.conftest import Sql, sql
from tests.service.harness import Process, running

__all__ = ["sql"]


@pytest.fixture
def far(tmp_path: Path) -> Path:
    """A data folder whose path is longer than a socket's address may be."""
    return tmp_path / "-".join(["a-long-way-down"] * 8) / "data"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """The socket of a server with a token."""
    with running(tmp_path / "data", token="secret") as (service, _):
        yield service.config.local_socket


def test_its_user_needs_no_token(own: Path, sql: Sql) -> None:
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert Client(f"unix:{own}").get("/api/v1/jobs")["jobs"] == []
    with connect(f"unix:{own}") as connection:
        connection.create_topic("near")
        connection.write("near", ["a" * 1_000_000])
        assert [len(r.value or b"") for r in connection.read("near")] == [1_000_000]
        assert connection.broker.wait_for_data(0.01)
    shown = sql("topic", "list", "--server", f"unix:{own}")
    assert (shown.exit_code, "near" in shown.output) == (0, True)
    assert "near" in sql("topic", "list", "--data", own.parent).output


def test_commands_find_it(own: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SQLENGINE_SERVER")
    assert default_client(None).server == f"unix:{own}"  # of ./data
    monkeypatch.chdir("/")
    assert default_client(None).server == "http://127.0.0.1:8083"
    monkeypatch.setenv("SQLENGINE_DATA", str(own.parent))
    assert default_client(None).server == f"unix:{own}"
    assert sql("jobs").exit_code == 0
    assert default_client("127.0.0.1:1").server == "http://127.0.0.1:1"
    monkeypatch.setenv("SQLENGINE_SERVER", "127.0.0.1:2")
    assert default_client(None).server == "http://127.0.0.1:2"


def test_a_web_page_cannot_use_it_and_names_do_not_matter(own: Path) -> None:
    """What makes requests on the port suspicious comes with none here."""
    assert Client(f"unix:{own}").get("/healthz")["status"] == "ok"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_are_refused(tmp_path: Path) -> None:
    """Even where the rights of files would let them in."""
    ask = (
        "import os, socket; os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
        " s.connect(PATH); s.sendall(b'GET /api/v1/jobs HTTP/1.1\\r\\nHost: localhost\\r\\n"
        "Connection: close\\r\\n\\r\\n'); print(s.makefile().read())"
    )
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "socket"
        with running(tmp_path / "data", socket=path):
            path.chmod(0o666)
            asked = [sys.executable, "-c", ask.replace("PATH", repr(str(path)))]
            said = subprocess.run(asked, cwd="/", capture_output=True, text=True, check=True).stdout
    assert "403" in said.splitlines()[0]
    assert "the user with number 65534 may not use the server" in said


def test_paths_may_be_long(far: Path) -> None:
    with running(far) as (service, _):
        assert len(str(service.config.local_socket)) > 108
        assert Client(f"unix:{service.config.local_socket}").get("/api/v1/jobs")["jobs"] == []
    assert not service.config.local_socket.exists()


def test_one_that_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Process(data) as process:
        process.user()
        process.end(signal.SIGKILL)
    socket = data / "server.sock"
    assert socket.is_socket()
    with pytest.raises(Unreachable, match=f"no server answers at unix:{socket}"):
        Client(f"unix:{socket}").get("/api/v1/jobs")
    with running(data):
        assert Client(f"unix:{socket}").get("/api/v1/jobs")["jobs"] == []


def test_where_there_is_no_room_for_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServiceError, match="no local socket can be made at"):
        Service(Config(data=tmp_path / "data", port=0, socket=tmp_path / "file" / "socket"))


def test_odd_addresses(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="is not the address of a server"):
        Client("unix:")
    with pytest.raises(Unreachable, match="no server answers at"):
        Client(f"unix:{tmp_path}/nothing").get("/healthz")


def test_the_port_beside_it_still_needs_the_token(tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", token="secret") as (service, _),
        pytest.raises(Refused, match="not authorised"),
    ):
        Client(f"127.0.0.1:{service.port}").get("/api/v1/jobs")
