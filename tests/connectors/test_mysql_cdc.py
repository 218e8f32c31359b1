"""Changes of a table of MariaDB: whoever reads them has the table, also through kills of the server and
of ours."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from parser.errors import PlanError, ServiceError, UnsupportedError
from parser.types import BIGINT, STRING, Schema, map_of
from sqlengine.config import Config
from sqlengine.connectors.mysql_cdc.texts import text_of
from sqlengine.connectors.registry import capabilities_of, open_source
from sqlengine.engine import Engine
from tests.connectors.databases import Database
from tests.connectors.tables import environment, table
from tests.servers.mariadb import MariaDbServer
from tests.support import eventually

COLUMNS = """(id BIGINT PRIMARY KEY, name TEXT, price DECIMAL(10, 2), born DATE, ts DATETIME(3), since TIMESTAMP(3) NULL,
  ok BOOLEAN, bits BLOB, mood ENUM('sad', 'happy'), lasts TIME, j JSON, n INT UNSIGNED, v DOUBLE)"""
TYPES = """id BIGINT, name STRING, price DECIMAL(10, 2), born DATE, ts TIMESTAMP(3), since TIMESTAMP_LTZ(3), ok BOOLEAN,
  bits BYTES, mood STRING, lasts TIME, j STRING, n BIGINT, v DOUBLE, PRIMARY KEY (id) NOT ENFORCED"""
JOB = """
CREATE TABLE source ({types}) WITH ('connector' = 'mysql-cdc', 'hostname' = '127.0.0.1', 'port' = '{port}',
  'username' = 'root', 'database-name' = 'app', 'table-name' = 'source'{more});
CREATE TABLE copied ({types}) WITH ('connector' = 'jdbc', 'url' = '{url}', 'username' = 'root', 'table-name' = 'copied');
INSERT INTO copied SELECT * FROM source;
"""


class Life:
    """A table with its copy, and a server that is opened and ended over one data folder."""

    def __init__(self, server: MariaDbServer, folder: Path) -> None:
        self.server = server
        self.database = Database(server.url, "root")
        self._folder = folder / "data"
        self.engine: Engine | None = None
        self.run(
            "DROP TABLE IF EXISTS source, copied, sqlengine_epochs",
            f"CREATE TABLE source {COLUMNS}",
            f"CREATE TABLE copied {COLUMNS}",
            "INSERT INTO source (id, name, price, ts) SELECT seq, CONCAT('n', seq), seq, '2024-01-01' FROM seq_1_to_500",
        )

    def run(self, *statements: str) -> None:
        self.database.execute(*statements)

    def open(self) -> None:
        self.engine = Engine(Config(data=self._folder, checkpoint_ms=300))
        self.engine.start()

    def submit(self, more: str = "") -> None:
        assert self.engine is not None
        text = JOB.format(port=self.server.port, url=self.server.url, types=TYPES, more=more)
        self.engine.submit("copies", text)

    def die(self) -> None:
        assert self.engine is not None
        self.engine.graph.loop.stop()
        self.engine.graph.runner.broken = True
        self.engine.close()

    def same(self) -> None:
        eventually(
            lambda: self.database.rows("source") == self.database.rows("copied"),
            lambda: (
                self.engine and (self.engine.job("copies"), self.engine.receivers.views()),
                set(self.database.rows("source")) ^ set(self.database.rows("copied")),
            ),
            patience_s=40,
        )


@pytest.fixture
def life(mariadb: MariaDbServer, tmp_path: Path) -> Iterator[Life]:
    made = Life(mariadb, tmp_path)
    try:
        yield made
    finally:
        if made.engine is not None:
            made.engine.close()


CHANGES = (
    """INSERT INTO source VALUES (1000, 'a,"b"\\n', 1.5, '2024-02-29', '2024-02-29 23:59:59.123',
      '2024-02-29 23:59:59.123', 1, x'00ff', 'happy', '12:34:56', '{"a": [1, null]}', 4000000000, 0.1)""",
    "INSERT INTO source (id, name) VALUES (1001, ''), (1002, NULL)",
    "UPDATE source SET name = NULL, price = price + 1 WHERE id < 10",
    "UPDATE source SET id = id + 10000 WHERE id BETWEEN 20 AND 30",
    "DELETE FROM source WHERE id BETWEEN 100 AND 200",
)


@pytest.mark.slow
def test_a_snapshot_and_then_the_changes(life: Life) -> None:
    life.run(*CHANGES[:1])
    life.open()
    life.submit()
    life.same()
    life.run("DELETE FROM source WHERE id = 1000")
    life.run(*CHANGES)
    life.same()
    life.run(
        "ALTER TABLE source ADD COLUMN more INT DEFAULT 5",
        "UPDATE source SET price = 8 WHERE id = 3",
    )
    life.run("ALTER TABLE source DROP COLUMN more", "DELETE FROM source WHERE id = 4")
    life.same()
    assert len(life.database.rows("copied")) == 500 + 3 - 101 - 1


@pytest.mark.slow
def test_nothing_is_lost_or_twice_through_stops_and_kills(life: Life) -> None:
    life.open()
    life.submit()
    for number in range(4):
        life.run("UPDATE source SET price = price + 1")
        if number == 2:
            life.same()
            life.server.kill()
            life.server.start()
        else:
            life.die()
            life.run("UPDATE source SET price = price * 2 WHERE id < 50")
            life.open()
    life.same()


def test_a_job_begins_behind_a_transaction(life: Life) -> None:
    """With the changes from there on, and without the rows of before; also after a restart."""
    ((at,),) = life.database.query("SELECT @@gtid_binlog_pos")
    life.run("INSERT INTO source (id, name) VALUES (1000, 'new'), (1001, 'gone')")
    life.run("DELETE FROM source WHERE id = 1001", "DELETE FROM source WHERE id <= 500")
    life.open()
    more = f"""'scan.startup.mode' = 'specific-offset',
  'scan.startup.specific-offset.gtid-set' = '{at}'"""
    life.submit(f", {more}")
    life.same()
    life.die()
    life.run("UPDATE source SET name = 'newer'")
    life.open()
    life.same()
    assert [row[:2] for row in life.database.rows("copied")] == [(1000, "newer")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mode": "specific-offset"}, "needs the option '.*gtid-set' or '.*file' and '.*pos'"),
        ({"mode": "specific-offset", "specific-offset.pos": "4"}, "needs the option"),
        ({"mode": "timestamp"}, "needs the option 'scan.startup.timestamp-millis'"),
        ({"timestamp-millis": "4"}, "needs 'scan.startup.mode' = 'timestamp'"),
        ({"mode": "timestamp", "specific-offset.file": "f"}, "= 'specific-offset'"),
        ({"mode": "specific-offset", "specific-offset.gtid-set": "3E11FA47-71CA:1-5"}, "0-1-42"),
    ],
)
def test_places_that_options_do_not_say(given: dict[str, str], words: str) -> None:
    options = {"connector": "mysql-cdc", "hostname": "h", "username": "u", "database-name": "d"}
    start = {f"scan.startup.{name}": value for name, value in given.items()}
    with pytest.raises(PlanError) as told:
        capabilities_of(table({**options, "table-name": "t", **start}))
    assert re.search(words, f"{told.value.message} {told.value.detail}")


def test_types_of_columns_that_changes_have_not_are_named() -> None:
    options = {"connector": "mysql-cdc", "hostname": "h", "username": "u", "database-name": "d"}
    asked = table({**options, "table-name": "t"}, Schema.of(id=BIGINT, m=map_of(STRING, STRING)))
    with pytest.raises(UnsupportedError, match="connector 'mysql-cdc' do not have"):
        open_source(asked, environment())


@pytest.mark.parametrize(
    ("connector", "module", "hint"),
    [
        ("mysql-cdc", "pymysql", "sqlengine[mysql-cdc]"),
        ("mysql-cdc", "pymysqlreplication", "sqlengine[mysql-cdc]"),
        ("postgres-cdc", "psycopg", "sqlengine[postgresql]"),
    ],
)
def test_a_package_that_is_missing_is_told_at_once(
    connector: str, module: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"connector": connector, "hostname": "h", "username": "u", "database-name": "d"}
    slot = {"slot.name": "s"} if connector == "postgres-cdc" else {}
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ServiceError) as told:
        open_source(table({**options, **slot, "table-name": "t"}), environment())
    assert hint in (told.value.hint or "")


@pytest.mark.parametrize(
    ("value", "binary", "text"),
    [
        (None, False, None),
        (b"\x00\xff", True, b"\\x00ff"),
        ("é", True, b"\\xc3a9"),
        (Decimal("1E+2"), False, b"100"),
        (timedelta(hours=-30, microseconds=-5), False, b"-30:00:00.000005"),
        ({b"a": [1, {b"b": None}]}, False, b'{"a": [1, {"b": null}]}'),
        ({"y", "x"}, False, b"x,y"),
        (True, False, b"1"),
    ],
)
def test_values_as_texts(value: object, binary: bool, text: bytes | None) -> None:
    assert text_of(value, binary=binary) == text


@pytest.mark.slow
def test_dates_that_are_zero_are_null(life: Life) -> None:
    """In the snapshot, whose job failed, and in the changes, where a TIMESTAMP was of 1970."""
    zeros = "({}, '0000-00-00', '2024-02-00 10:00:00', 0, 0, '0000-00-00'), ({}, '1970-01-01', '1970-01-01', '1970-01-02', 1970, '')"
    columns = (
        "(id BIGINT PRIMARY KEY, d DATE, ts DATETIME(3), tz TIMESTAMP(3) NULL, y YEAR, s TEXT)"
    )
    life.run(
        "SET GLOBAL sql_mode = ''", "DROP TABLE IF EXISTS zeros, zeros_copy", f"CREATE TABLE zeros {columns}",
        f"CREATE TABLE zeros_copy {columns.replace('YEAR', 'INT')}", f"INSERT INTO zeros VALUES {zeros.format(1, 2)}",
    )  # fmt: skip
    life.open()
    assert life.engine is not None
    types = "id BIGINT, d DATE, ts TIMESTAMP(3), tz TIMESTAMP_LTZ(3), y INT, s STRING, PRIMARY KEY (id) NOT ENFORCED"
    text = JOB.format(port=life.server.port, url=life.server.url, types=types, more="")
    text = text.replace("= 'source'", "= 'zeros'").replace("= 'copied'", "= 'zeros_copy'")
    life.engine.submit("copies", text)
    eventually(lambda: len(life.database.rows("zeros_copy")) == 2)
    life.run(f"INSERT INTO zeros VALUES {zeros.format(3, 4)}")
    eventually(lambda: len(life.database.rows("zeros_copy")) == 4)
    one, two, three, four = (row[1:] for row in life.database.rows("zeros_copy"))
    assert one == three == (None, None, None, 0, "0000-00-00")
    assert two == four
    assert None not in two
