"""The databases that tables are tried on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.databases import Database, sqlite
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgresql import PostgresServer
from tests.servers.process import started


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with started(PostgresServer(tmp_path_factory.mktemp("postgresql") / "server")) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    with started(MariaDbServer(tmp_path_factory.mktemp("mariadb") / "server")) as server:
        yield server


@pytest.fixture(
    scope="module",
    params=["sqlite", "postgresql", pytest.param("mariadb", marks=pytest.mark.slow)],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    if request.param == "sqlite":
        return sqlite(tmp_path_factory.mktemp("database"))
    found = request.getfixturevalue(request.param)
    return Database(found.url, "root" if request.param == "mariadb" else "postgres")
