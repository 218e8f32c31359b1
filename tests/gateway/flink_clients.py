"""Flink's own clients, in Java: the SQL client and the JDBC driver."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.servers.process import PATIENCE_S, Missing
from tests.servers.setup import FLINK_CLIENTS

HERE = Path(__file__).resolve().parent
_DRIVER = "flink-sql-jdbc-driver-bundle"
_FRUGAL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def _jars(*, driver: bool) -> str:
    """The class path of the driver, which brings all of Flink that it needs, or of the rest."""
    try:
        FLINK_CLIENTS.path()
    except Missing as error:
        pytest.skip(str(error))
    jars = sorted(FLINK_CLIENTS.folder.glob("*.jar"))
    logging = [j for j in jars if j.name.startswith("slf4j-api")]
    bundle = [j for j in jars if j.name.startswith(_DRIVER)]
    chosen = bundle + logging if driver else [j for j in jars if j not in bundle]
    return os.pathsep.join(map(str, chosen))


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    """What a client prints to standard output."""
    done = subprocess.run(
        ["java", *_FRUGAL, *command],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def headers(token: str | None) -> Mapping[str, str]:
    """How a token reaches a client of Flink: by its environment."""
    return {"FLINK_REST_CLIENT_HEADERS": f"Authorization:Bearer {token}"} if token else {}


def sql_client(address: str, script: Path, folder: Path, token: str | None = None) -> str:
    """Runs a script with the SQL client."""
    environment = {"FLINK_CONF_DIR": str(folder), **headers(token)}
    return _run([*_sql_client(address, folder), "-f", str(script)], folder, environment)


def _sql_client(address: str, folder: Path) -> list[str]:
    (folder / "config.yaml").write_text("table.local-time-zone: UTC\n")
    main = "org.apache.flink.table.client.SqlClient"
    history = ("-hist", str(folder / "history"))
    return ["-cp", _jars(driver=False), main, "gateway", "-e", f"http://{address}/", *history]


class Terminal:
    """The SQL client at a terminal, for who types."""

    def __init__(self, address: str, folder: Path) -> None:
        spawn = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])"]
        self._process = subprocess.Popen(
            [*spawn, "java", *_FRUGAL, *_sql_client(address, folder)],
            cwd=folder,
            env={**os.environ, "FLINK_CONF_DIR": str(folder), "TERM": "xterm"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._seen = b""

    def type(self, text: str) -> None:
        """Types a text; `\\r` is Enter."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def wait_for(self, text: str) -> None:
        """Waits until the client has printed a text behind what was waited for before."""
        assert self._process.stdout is not None
        until = time.monotonic() + PATIENCE_S
        while text.encode() not in self._seen:
            assert time.monotonic() < until, self._seen[-2000:].decode(errors="replace")
            if select.select([self._process.stdout], [], [], 0.2)[0]:
                self._seen += os.read(self._process.stdout.fileno(), 1 << 16)
        self._seen = self._seen.partition(text.encode())[2]

    def end(self) -> None:
        """Ends the client."""
        self._process.kill()
        self._process.communicate()


def jdbc(address: str, program: Path, folder: Path, token: str | None = None) -> str:
    """Runs a program over the JDBC driver; its argument is the address."""
    command = ["-cp", _jars(driver=True), str(program), f"jdbc:flink://{address}"]
    return _run(command, folder, headers(token))
