"""The databases that tables are tried on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.databases import Database, mariadb, sqlite


@pytest.fixture(scope="module", params=["sqlite", pytest.param("mariadb", marks=pytest.mark.slow)])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("database")
    if request.param == "sqlite":
        yield sqlite(folder)
    else:
        with mariadb(folder) as found:
            yield found
