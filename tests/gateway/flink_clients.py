"""Flink's own clients, in Java: the SQL client and the JDBC driver."""

from __future__ import annotations

import os
import subprocess
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
    (folder / "config.yaml").write_text("table.local-time-zone: UTC\n")
    classes = _jars(driver=False)
    main = "org.apache.flink.table.client.SqlClient"
    history = ("-hist", str(folder / "history"))
    command = ["-cp", classes, main, "gateway", "-e", f"http://{address}/", "-f", str(script)]
    environment = {"FLINK_CONF_DIR": str(folder), **headers(token)}
    return _run([*command, *history], folder, environment)


def jdbc(address: str, program: Path, folder: Path, token: str | None = None) -> str:
    """Runs a program over the JDBC driver; its argument is the address."""
    command = ["-cp", _jars(driver=True), str(program), f"jdbc:flink://{address}"]
    return _run(command, folder, headers(token))
