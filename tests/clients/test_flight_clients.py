"""Clients of Flight SQL that people have: ADBC, with pandas and Polars over it, and the JDBC driver."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlengine.service import Service
from tests.clients.test_flight import port_of, topic_table
from tests.servers.process import PATIENCE_S, Missing
from tests.servers.setup import FLIGHT_JDBC

HERE = Path(__file__).resolve().parent
NAMES = (f"adbc_{n}" for n in itertools.count())


@pytest.fixture
def adbc(server: Service) -> Iterator[Any]:
    driver = pytest.importorskip("adbc_driver_flightsql.dbapi", reason="ADBC is not installed")
    with driver.connect(f"grpc://127.0.0.1:{port_of(server)}", autocommit=True) as connection:
        yield connection


def test_adbc(adbc: Any) -> None:
    name = next(NAMES)
    with adbc.cursor() as cursor:
        assert adbc.adbc_get_info()["vendor_name"] == "sqlengine"
        cursor.execute(topic_table(name))
        cursor.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(1, "it's"), (2, None)])
        assert cursor.rowcount == 2
        cursor.execute(f"SELECT * FROM {name} WHERE a >= ? ORDER BY a", (1,))
        assert cursor.fetchall() == [(1, "it's"), (2, None)]
        assert cursor.adbc_ingest(name, pa.table({"a": [5], "b": ["q"]}), mode="append") == 1
        made = next(NAMES)
        assert cursor.adbc_ingest(made, pa.table({"x": range(1000)}), mode="create") == 1000
        cursor.execute(f"SELECT SUM(x) AS s FROM {made}")
        assert cursor.fetch_arrow_table().to_pylist() == [{"s": 499_500}]
        with pytest.raises(Exception, match="unknown column 'nope'"):
            cursor.execute(f"SELECT nope FROM {name}")
    tables = adbc.adbc_get_objects(depth="tables", table_name_filter="cheap").read_all()
    (schema,) = tables.to_pylist()[0]["catalog_db_schemas"]
    assert [t["table_type"] for t in schema["db_schema_tables"]] == ["VIEW"]
    assert adbc.adbc_get_table_schema("items").names == ["id", "name", "price", "bought"]


def test_data_frames(adbc: Any) -> None:
    import pandas as pd
    import polars as pl

    assert list(pd.read_sql("SELECT id FROM items WHERE id < 2", adbc)["id"]) == [0, 1]
    assert pl.read_database("SELECT name FROM items WHERE id < 2", adbc)["name"].to_list() == [
        "n0",
        "n1",
    ]
    name = next(NAMES)
    pd.DataFrame({"a": [1, 2]}).to_sql(name, adbc, index=False)
    pl.DataFrame({"a": [3]}).write_database(name, adbc, if_table_exists="append")
    assert sorted(pl.read_database(f"SELECT a FROM {name}", adbc)["a"]) == [1, 2, 3]
    pd.DataFrame({"a": [4]}).to_sql(name, adbc, index=False, if_exists="replace")
    pl.DataFrame({"a": [5]}).write_database(name, adbc, if_table_exists="append")
    assert sorted(pl.read_database(f"SELECT a FROM {name}", adbc)["a"]) == [4, 5]


def run_java(program: Path, address: str, folder: Path) -> str:
    """What a program over the JDBC driver prints."""
    try:
        jars = FLIGHT_JDBC.path()
    except Missing as error:
        pytest.skip(str(error))
    options = (
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Duser.timezone=UTC",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
    )
    done = subprocess.run(
        ["java", *options, "-cp", jars, str(program), address],
        cwd=folder,
        env=os.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_jdbc_driver(server: Service, tmp_path: Path) -> None:
    address = f"jdbc:arrow-flight-sql://127.0.0.1:{port_of(server)}/?useEncryption=false&user=me&password=none"
    assert run_java(HERE / "Flight.java", address, tmp_path).splitlines() == [
        "sqlengine `",
        "items TABLE",
        "id BIGINT",
        "name VARCHAR",
        "price DECIMAL",
        "bought TIMESTAMP",
        "region",
        "id",
        "2",
        "1",
        "2 null",
        "3 it's",
        "true 1.50 2026-01-02 2026-01-02 03:04:05.678 2.5 10",
        "true",
    ]
