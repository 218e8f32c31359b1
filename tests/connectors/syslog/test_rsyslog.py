"""Messages from and to a real rsyslogd, over UDP, TCP and TLS; both sides are killed."""

from __future__ import annotations

import re
import signal
import socket
import ssl
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.servers.process import free_ports, started
from tests.servers.rsyslog import Rsyslog
from tests.service.harness import Process, User, running
from tests.support import eventually

TAKE = """
CREATE TABLE lines (line STRING, peer STRING METADATA VIRTUAL)
WITH ('connector' = 'syslog', 'listen' = '{listen}', 'format' = 'raw'{more});
CREATE TABLE seen (line STRING, peer STRING) WITH ('connector' = 'topic', 'topic' = 'seen', 'format' = 'json');
"""
FIELDS = """
CREATE TABLE messages (severity INT, host STRING, app STRING, message STRING)
WITH ('connector' = 'syslog', 'listen' = 'udp://127.0.0.1:{port}', 'format' = 'syslog');
CREATE TABLE fields (severity INT, host STRING, app STRING, message STRING)
WITH ('connector' = 'topic', 'topic' = 'fields', 'format' = 'json');
"""
COPY = "INSERT INTO seen SELECT line, peer FROM lines"
SEND = """
CREATE TABLE events (id BIGINT, sev STRING) WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE {name} (id BIGINT, sev STRING) WITH ('connector' = 'syslog', 'server' = '{server}', 'format' = 'json',
  'severity' = '{{{{sev}}}}', 'facility' = 'local1', 'hostname' = 'here', 'app-name' = '{name}', 'message' = 'no {{{{id}}}}');
"""


def take(user: User, listen: str, more: str = "") -> None:
    user.topic("seen")
    user.submit("tables", TAKE.format(listen=listen, more=more))
    user.submit("copy", COPY)


def seen(user: User) -> list[str]:
    return [row["line"] for row in user.read("seen")]


def log_to(port: int, *texts: str) -> None:
    """Gives messages to an rsyslogd, as applications do."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"".join(b"<13>1 - h app - - - %s\n" % t.encode() for t in texts))


def test_messages_come_from_rsyslog_over_every_way(tmp_path: Path) -> None:
    udp, tcp = free_ports(2)
    to = ((udp, "udp", "traditional"), (tcp, "tcp", "octet-counted"), (tcp, "tcp", "traditional"))
    listen = f"udp://127.0.0.1:{udp};tcp://127.0.0.1:{tcp}"
    with running(tmp_path / "data") as (_, user), started_rsyslog(tmp_path, *to) as server:
        take(user, listen)
        eventually(lambda: can_connect(tcp))
        texts = [f"message {i} é" for i in range(50)]
        log_to(server.port, *texts)
        eventually(lambda: len(seen(user)) == 3 * len(texts))
        for text in texts:
            found = [line for line in seen(user) if line.endswith(f" {text}")]
            assert len(found) == 3
            assert all(line.startswith("<13>1 ") and " h app " in line for line in found)
        assert {row["peer"] for row in user.read("seen")} == {"127.0.0.1"}


def test_fields_of_messages_are_columns(tmp_path: Path) -> None:
    udp = free_ports(1)[0]
    with (
        running(tmp_path / "data") as (_, user),
        started_rsyslog(tmp_path, (udp, "udp", "traditional")) as server,
    ):
        user.topic("fields")
        user.submit("tables", FIELDS.format(port=udp))
        user.submit("copy", "INSERT INTO fields SELECT severity, host, app, message FROM messages")

        def there() -> list[dict[str, object]]:
            log_to(server.port, "logged")  # what comes before the port is open is lost
            return user.read("fields")

        found = eventually(there)[0]
        assert found == {"severity": 5, "host": "h", "app": "app", "message": "logged"}


def started_rsyslog(folder: Path, *to: tuple[int, str, str]) -> AbstractContextManager[Rsyslog]:
    return started(Rsyslog(folder / "rsyslog", *to))


def can_connect(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_senders_go_on_when_either_side_was_killed(tmp_path: Path) -> None:
    """What rsyslogd had not handed over comes once the server is back."""
    port = free_ports(1)[0]
    data, sent = tmp_path / "data", 0
    with started_rsyslog(tmp_path, (port, "tcp", "octet-counted")) as server:
        for turn in range(2):
            with Process(data) as process:
                user = process.user()
                if not turn:
                    take(user, f"tcp://127.0.0.1:{port}")
                eventually(lambda: can_connect(port))
                log_to(server.port, *(f"n{sent + i}" for i in range(20)))
                sent += 20
                want = {f"n{i}" for i in range(sent)}
                eventually(lambda: {x.split()[-1] for x in seen(user)} >= want)  # noqa: B023
                process.end(signal.SIGKILL)
            server.kill()
            server.start()


def test_rows_go_to_rsyslog_and_wait_while_it_is_away(tmp_path: Path) -> None:
    server = Rsyslog(tmp_path / "rsyslog")
    with running(tmp_path / "data") as (_, user), started(server):
        user.topic("events")
        for name in ("udp", "tcp"):
            address = f"{name}://127.0.0.1:{server.port}"
            user.submit(f"table_{name}", SEND.format(name=name, server=address))
            user.submit(name, f"INSERT INTO {name} SELECT id, sev FROM events")
        user.write("events", {"id": 1, "sev": "error"}, {"id": 2, "sev": "loud"})
        eventually(lambda: len(server.messages()) == 2)
        assert sorted(server.messages()) == [
            ["139", "here", name, "-", "-", "no 1"] for name in ("tcp", "udp")
        ]
        assert len(eventually(lambda: len(user.letters()) == 2 and user.letters())) == 2
        user.client.post("/api/v1/jobs/udp/stop", {})
        server.kill()
        user.write("events", {"id": 3, "sev": "info"})
        why = rf"does not take rows now \(tcp://127.0.0.1:{server.port}: "
        eventually(lambda: re.search(why, str(user.job("tcp"))))
        server.start()
        eventually(lambda: ["142", "here", "tcp", "-", "-", "no 3"] in server.messages())
        assert user.states()["tcp"] == "running"


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    files = tmp_path / "here.pem", tmp_path / "here.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return files


def test_tls_from_one_server_to_another_and_none_without(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    """Our sink sends to our source: a certificate is asked of both sides."""
    port = free_ports(1)[0]
    own, key = certificate
    files = f", 'tls.cert' = '{own}', 'tls.key' = '{key}', 'tls.ca' = '{own}'"
    address = f"tls://127.0.0.1:{port}"
    with running(tmp_path / "data") as (_, user):
        user.topic("events")
        take(user, address, files)
        eventually(lambda: can_connect(port))
        sends = SEND.format(name="safe", server=address)
        user.submit("sends", sends.replace("'syslog'", f"'syslog'{files}"))
        user.submit("out", "INSERT INTO safe SELECT id, sev FROM events")
        user.write("events", {"id": 1, "sev": "error"}, {"id": 2, "sev": "error"})
        eventually(lambda: [line.split()[-1] for line in seen(user)] == ["1", "2"])
        context = ssl.create_default_context(cafile=str(own))
        assert refused(port, context)
        assert len(seen(user)) == 2


def refused(port: int, context: ssl.SSLContext) -> bool:
    """True if who shows no certificate is closed."""
    with socket.create_connection(("127.0.0.1", port), 60) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as stranger:
                stranger.sendall(b"4 <1>x")
                return not stranger.recv(1)
        except OSError:
            return True
