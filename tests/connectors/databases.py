"""Databases for the tests of the connector 'jdbc': files of SQLite, and a real MariaDB from
Debian's packages."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from parser.errors import ExecutionError
from parser.types import Schema
from planner.catalog import Table
from sqlengine.connectors.jdbc.dialects import Account, Connection, Dialect, dialect_of
from tests.connectors.tables import SCHEMA, table

PACKAGES = ("mariadb-server-core", "liburing2", "libaio1")
WAIT_S = 60


@dataclass(frozen=True)
class Database:
    """Where it is, and who may use it."""

    url: str
    username: str | None = None

    @property
    def dialect(self) -> Dialect:
        return dialect_of(self.url)

    def connect(self) -> Connection:
        return self.dialect.open(self.url, Account(self.username, None))

    def execute(self, *statements: str) -> None:
        with closing(self.connect()) as connection:
            for statement in statements:
                connection.cursor().execute(statement)
            connection.commit()

    def rows(self, name: str) -> list[tuple[object, ...]]:
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(f"SELECT * FROM {name} ORDER BY 1, 2")
            return [tuple(row) for row in cursor.fetchall()]

    def table(
        self, name: str, schema: Schema = SCHEMA, key: tuple[str, ...] = (), retries: int = 3
    ) -> Table:
        given = {
            "connector": "jdbc",
            "url": self.url,
            "table-name": name,
            "sink.max-retries": str(retries),
        }
        if self.username is not None:
            given["username"] = self.username
        found = table(given, schema)
        return Table(found.name, found.schema, found.physical, found.options, primary_key=key)


def sqlite(folder: Path) -> Database:
    path = folder / "app.db"
    path.touch()
    return Database(f"jdbc:sqlite:{path}")


@contextmanager
def mariadb(folder: Path) -> Iterator[Database]:
    """A server of its own on loopback; skips where there is no package to take it from."""
    root = _unpacked(folder)
    libraries = ":".join(
        str(root / p) for p in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    data, port = folder / "data", _free_port()
    data.mkdir()
    server = [
        str(root / "usr/sbin/mariadbd"), "--no-defaults", f"--datadir={data}", "--skip-grant-tables",
        f"--lc-messages-dir={root / 'usr/share/mysql'}", f"--user={os.environ.get('USER', 'root')}",
    ]  # fmt: skip
    made = [*server, "--bootstrap"]
    subprocess.run(
        made, env=environment, input=b"CREATE DATABASE app;", check=True, capture_output=True
    )
    running = [
        *server,
        f"--port={port}",
        "--bind-address=127.0.0.1",
        f"--socket={folder / 'socket'}",
    ]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(running, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            found = Database(f"jdbc:mariadb://127.0.0.1:{port}/app", "root")
            _wait(found, process)
            yield found
        finally:
            process.kill()


def _unpacked(folder: Path) -> Path:
    """The files of the packages, without installing them."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip("MariaDB comes from Debian's packages, and this is no Debian")
    got = subprocess.run(
        ["apt-get", "download", "-q", *PACKAGES],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if got.returncode != 0:
        pytest.skip(
            "Debian's packages of MariaDB cannot be had here:"
            f" {got.stderr.strip().splitlines()[-1:]}"
        )
    root = folder / "root"
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
    return root


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


def _wait(database: Database, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            database.connect().close()
        except ExecutionError:
            if time.monotonic() > until or process.poll() is not None:
                raise
            time.sleep(0.1)
        else:
            return
