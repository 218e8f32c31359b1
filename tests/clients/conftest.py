"""A server for all tests of this folder, and tables to read from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqlengine.config import QueryLimits
from sqlengine.connection.base import Connection
from sqlengine.connection.connecting import connect
from sqlengine.service import Service
from tests.service.harness import running

LIMITS = QueryLimits(at_once=24, rows_per_second=10_000_000)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("clients") / "data"
    with running(data, queries=LIMITS, flight_port=0) as (service, _):
        with connect(service.url) as connection:
            fill(connection)
        yield service


def fill(connection: Connection) -> None:
    """Makes the tables, and writes five items."""
    for name, text in definitions().items():
        connection.create_topic(name)
        connection.submit(name, text)
    connection.write("items", ({"id": n, "name": f"n{n}", "price": n} for n in range(5)))


def definitions() -> dict[str, str]:
    """Texts of jobs by name: a table with rows, and a view of it."""
    return {
        "items": """CREATE TABLE items (id BIGINT, name STRING, price DECIMAL(10, 2), bought TIMESTAMP(3))
            WITH ('connector' = 'topic', 'topic' = 'items', 'format' = 'json');
            CREATE VIEW cheap AS SELECT id, name FROM items WHERE price < 3""",
        "keyed": """CREATE TABLE keyed (region STRING, id INT, word STRING COMMENT 'said',
            PRIMARY KEY (region, id) NOT ENFORCED)
            WITH ('connector' = 'topic', 'topic' = 'keyed', 'format' = 'json')""",
    }
