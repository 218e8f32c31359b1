"""Changes of a table of PostgreSQL: whoever reads them has the table, also through kills of the server
and of ours."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.connectors.changes import refusals
from sqlengine.connectors.receivers import worker
from sqlengine.engine import Engine
from tests.connectors import lives
from tests.connectors.databases import Database
from tests.servers.postgresql import PostgresServer
from tests.support import eventually

_numbers = count()
JOB = """
CREATE TABLE source (id BIGINT, name STRING, price DECIMAL(10, 2), since TIMESTAMP_LTZ(3), op TIMESTAMP_LTZ(3) METADATA
  FROM 'op_ts' VIRTUAL, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'postgres-cdc', 'hostname' = '127.0.0.1', 'port' = '{port}', 'username' = 'postgres',
  'database-name' = 'postgres', 'schema-name' = 'cdc', 'table-name' = 'source', 'slot.name' = '{slot}'{more});
CREATE TABLE copy (id BIGINT, name STRING, price DECIMAL(10, 2), since TIMESTAMP_LTZ(3), PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = '{url}', 'username' = 'postgres', 'table-name' = 'cdc.copy');
INSERT INTO copy SELECT id, name, price, since FROM source;
"""
OTHER = """
CREATE TABLE {job} ({column} BIGINT, PRIMARY KEY ({column}) NOT ENFORCED) WITH ('connector' = 'postgres-cdc', 'hostname' = '127.0.0.1', 'port' = '{port}',
  'username' = 'postgres', 'database-name' = 'postgres', 'schema-name' = 'cdc', 'table-name' = '{name}', 'slot.name' = '{slot}');
CREATE TABLE {job}_copy (id BIGINT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = '{url}', 'username' = 'postgres', 'table-name' = 'cdc.{job}_copy');
INSERT INTO {job}_copy SELECT {column} FROM {job};
"""
SAFE = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots"
COLUMNS = "(id bigint PRIMARY KEY, name text, price numeric(10, 2), since timestamptz)"


class Life:
    """A table with its copy, and a server that is opened and ended over one data folder."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self.server = server
        self.database = Database(server.url, "postgres")
        self.slot = f"slot{next(_numbers)}"
        self._folder = folder / "data"
        self.engine: Engine | None = None
        self.run(
            "DROP SCHEMA IF EXISTS cdc CASCADE", "CREATE SCHEMA cdc", "DROP TABLE IF EXISTS sqlengine_epochs",
            f"CREATE TABLE cdc.source {COLUMNS}", f"CREATE TABLE cdc.copy {COLUMNS}",
            "ALTER TABLE cdc.source REPLICA IDENTITY FULL",
            "ALTER TABLE cdc.source ALTER COLUMN name SET STORAGE EXTERNAL",
            "INSERT INTO cdc.source SELECT i, 'n' || i, i, '2024-01-01' FROM generate_series(1, 1000) i",
        )  # fmt: skip

    def run(self, *statements: str) -> None:
        self.database.execute(*statements)

    def open(self) -> Engine:
        self.engine = Engine(Config(data=self._folder, checkpoint_ms=300))
        self.engine.start()
        return self.engine

    def reopened(self) -> Engine:
        if self.engine is not None:
            self.engine.close()
        return self.open()

    def submit(self, more: str = "", key: str = "id") -> None:
        assert self.engine is not None
        text = JOB.format(port=self.server.port, url=self.server.url, slot=self.slot, more=more)
        text = (
            text.replace("(id ", f"({key} ").replace("(id)", f"({key})").replace(" id,", f" {key},")
        )
        self.engine.submit("copies", text)

    def die(self) -> None:
        assert self.engine is not None
        self.engine.graph.loop.stop()
        self.engine.graph.runner.broken = True
        self.engine.close()

    def differences(self) -> object:
        return self.database_rows(
            "(TABLE cdc.source EXCEPT TABLE cdc.copy) UNION ALL (TABLE cdc.copy EXCEPT TABLE cdc.source)"
        )

    def database_rows(self, query: str) -> list[tuple[object, ...]]:
        connection = self.database.connect()
        try:
            cursor = connection.cursor()
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            connection.close()

    def same(self) -> None:
        assert self.engine is not None
        eventually(
            lambda: not self.differences(),
            lambda: (self.engine and self.engine.job("copies"), str(self.differences())[:500]),
        )


@pytest.fixture
def life(postgresql: PostgresServer, tmp_path: Path) -> Iterator[Life]:
    made = Life(postgresql, tmp_path)
    try:
        yield made
    finally:
        if made.engine is not None:
            made.engine.close()
        made.run(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active",
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active",
        )


CHANGES = (
    "INSERT INTO cdc.source VALUES (2000, E'a,\"b\"\\n\\\\N', NULL, '2024-07-01 12:00+02'), (2001, '', 0.5, NULL)",
    "UPDATE cdc.source SET name = NULL, price = price + 1 WHERE id < 10",
    "UPDATE cdc.source SET id = id + 10000 WHERE id BETWEEN 20 AND 30",
    "DELETE FROM cdc.source WHERE id BETWEEN 100 AND 200",
    "UPDATE cdc.source SET name = repeat('x', 20000) WHERE id = 500",
    "UPDATE cdc.source SET price = 7 WHERE id = 500",  # whose long name is not told
    "BEGIN; INSERT INTO cdc.source VALUES (3000, 'gone'); ROLLBACK",
    "BEGIN; INSERT INTO cdc.source VALUES (3001); DELETE FROM cdc.source WHERE id = 3001; COMMIT",
)


@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_a_snapshot_and_then_the_changes(life: Life, mode: str) -> None:
    if mode == "upsert":
        life.run("ALTER TABLE cdc.source REPLICA IDENTITY DEFAULT")
    life.open()
    life.submit(f", 'changelog-mode' = '{mode}'")
    life.same()
    for change in CHANGES:
        life.run(change)
    life.same()
    # Columns more, and one less, change nothing else.
    life.run(
        "ALTER TABLE cdc.source ADD COLUMN more int DEFAULT 5",
        "UPDATE cdc.source SET price = 8 WHERE id = 3",
    )
    life.run("ALTER TABLE cdc.source DROP COLUMN more", "DELETE FROM cdc.source WHERE id = 4")
    life.same()
    assert len(life.database_rows("TABLE cdc.copy")) == 1000 - 101 + 2 - 1


def test_a_table_that_is_truncated_is_told(life: Life) -> None:
    engine = life.open()
    life.submit()
    life.same()
    life.run("UPDATE cdc.source SET price = 3 WHERE id = 1", "TRUNCATE cdc.source")
    life.run("INSERT INTO cdc.source VALUES (1, 'new')")
    eventually(
        lambda: any(
            "'cdc.source' was truncated" in str(v.trouble) for v in engine.receivers.views()
        ),
        lambda: engine.receivers.views(),
    )
    eventually(lambda: life.database_rows("SELECT id FROM cdc.copy WHERE price = 3") != [])
    assert len(life.database_rows("TABLE cdc.copy")) == 1000


@pytest.mark.parametrize(
    ("statement", "told"),
    [("TRUNCATE cdc.source", "was truncated"), ("DROP TABLE cdc.source", "no table 'cdc.source'")],
)
def test_a_table_that_ends_holds_up_no_other_of_its_slot(
    life: Life, statement: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_TIDY_S", 0.2)
    life.run(
        "CREATE TABLE cdc.other (id bigint PRIMARY KEY)",
        "CREATE TABLE cdc.other_copy (id bigint PRIMARY KEY)",
        "ALTER TABLE cdc.other REPLICA IDENTITY FULL",
    )
    life.open()
    life.submit(", 'receive.retention' = '5 s'")
    life.same()
    where = {"port": life.server.port, "url": life.server.url, "slot": life.slot}
    engine = life.reopened()
    engine.submit("other", OTHER.format(**where, job="other", name="other", column="id"))
    life.run(statement)
    for number in range(3):
        life.run(f"INSERT INTO cdc.other VALUES ({number})")
        eventually(
            lambda: life.database_rows("SELECT COUNT(*) FROM cdc.other_copy") == [(number + 1,)],  # noqa: B023
            engine.hints,
        )
        engine = life.reopened()
    eventually(lambda: told in engine.hints().get("copies", ""), engine.hints)
    assert "other" not in engine.hints()
    assert life.database_rows("SELECT COUNT(*) FROM cdc.copy") == [(1000,)]
    held = life.database_rows(SAFE)
    engine.remove("copies")
    eventually(lambda: life.database_rows(SAFE) != held)
    life.run("INSERT INTO cdc.other VALUES (3)")
    eventually(lambda: life.database_rows("SELECT COUNT(*) FROM cdc.other_copy") == [(4,)])


def test_rows_of_a_table_that_is_truncated_may_stay(life: Life) -> None:
    life.open()
    life.submit(", 'scan.on-truncate' = 'skip'")
    life.same()
    life.run("TRUNCATE cdc.source", "INSERT INTO cdc.source VALUES (5000, 'new')")
    eventually(lambda: len(life.database_rows("TABLE cdc.copy")) == 1001)


def test_long_values_that_are_not_told_are_asked_for_by_key(life: Life) -> None:
    life.run(
        "ALTER TABLE cdc.source REPLICA IDENTITY DEFAULT",
        'ALTER TABLE cdc.source RENAME id TO "i%d"',
        'ALTER TABLE cdc.copy RENAME id TO "i%d"',
        "UPDATE cdc.source SET name = repeat('x', 3000)",
    )
    engine = life.open()
    life.submit(", 'changelog-mode' = 'upsert'", key="`i%d`")
    life.same()
    connections, scans = asked(life)
    life.run("UPDATE cdc.source SET price = 7")
    eventually(
        lambda: life.database_rows("SELECT COUNT(*) FROM cdc.copy WHERE price = 7") == [(1000,)]
    )
    life.same()
    engine.close()  # the server counts what a connection has done as it ends
    life.engine = None
    eventually(lambda: asked(life)[1] >= scans + 1000)
    assert asked(life)[0] < connections + 100


def asked(life: Life) -> tuple[int, int]:
    """Returns how many connections there were so far, and scans of the index."""
    query = """SELECT sessions, idx_scan FROM pg_stat_database, pg_stat_user_tables
    WHERE datname = current_database() AND schemaname = 'cdc' AND relname = 'source'"""
    ((sessions, scans),) = life.database_rows(query)
    return int(str(sessions)), int(str(scans))


@pytest.mark.slow
def test_nothing_is_lost_or_twice_through_stops_and_kills(life: Life) -> None:
    life.open()
    life.submit()
    for number in range(6):
        life.run(
            *CHANGES[:1],
            "UPDATE cdc.source SET price = price + 1",
            "DELETE FROM cdc.source WHERE id > 1999",
        )
        if number == 2:
            life.same()
        if number % 3 == 2:
            life.server.kill()
            life.server.start()
        else:
            life.die()
            life.run("UPDATE cdc.source SET price = price * 2 WHERE id < 50")
            life.open()
    life.same()


SUMS = """
CREATE TABLE sums (bucket BIGINT, n BIGINT, total DECIMAL(20, 2), PRIMARY KEY (bucket) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = '{url}', 'username' = 'postgres', 'table-name' = 'cdc.sums');
INSERT INTO sums SELECT MOD(id, 50), COUNT(*), CAST(SUM(price) AS DECIMAL(20, 2)) FROM source GROUP BY MOD(id, 50);
"""
DIFFERENT = """
WITH here AS (SELECT id % 50, count(*), sum(price) FROM cdc.source GROUP BY 1)
(TABLE here EXCEPT TABLE cdc.sums) UNION ALL (TABLE cdc.sums EXCEPT TABLE here)"""


_SLOW = [pytest.param(kills, marks=pytest.mark.slow) for kills in (24, 26)]


@pytest.mark.parametrize("kills", [3, *_SLOW])
def test_every_change_counts_once_through_kills(life: Life, tmp_path: Path, kills: int) -> None:
    """Ours is killed while it takes the snapshot, follows and commits, and the database now and
    then. A change that is lost, or comes twice, is seen in the sums."""
    life.run(
        "CREATE TABLE cdc.sums (bucket bigint PRIMARY KEY, n bigint, total numeric(20, 2))",
        "INSERT INTO cdc.source SELECT i, 'n', 0 FROM generate_series(10000, 60000) i",
    )
    tables = JOB.partition("INSERT INTO")[0] + SUMS
    job = tables.format(port=life.server.port, url=life.server.url, slot=life.slot, more="")
    chance = random.Random(kills)
    for number in range(kills):
        with lives.life(tmp_path / "killed", job):
            for _ in range(chance.randint(1, 20)):
                bucket = chance.randint(0, 49)
                life.run(f"UPDATE cdc.source SET price = price + 1 WHERE id % 50 = {bucket}")
            time.sleep(chance.uniform(0, 1))
            if number % 7 == 2:
                life.server.kill()
                life.server.start()
    with lives.life(tmp_path / "killed", job):
        eventually(
            lambda: not life.database_rows(DIFFERENT), lambda: life.database_rows(DIFFERENT)[:5]
        )


def test_what_the_server_lacks_is_told(life: Life) -> None:
    life.run("ALTER TABLE cdc.source REPLICA IDENTITY DEFAULT")
    engine = life.open()
    life.submit()
    assert engine.receivers is not None
    views = engine.receivers.views
    eventually(lambda: "REPLICA IDENTITY FULL" in str(views()[0].trouble), views)
    life.run("ALTER TABLE cdc.source REPLICA IDENTITY FULL")
    life.same()


def test_a_table_that_is_not_there_holds_up_no_other_of_its_slot(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told of itself alone, and followed once it is there."""
    monkeypatch.setattr(refusals, "_AGAIN_S", 0.5)
    monkeypatch.setattr(worker, "_TIDY_S", 0.2)
    engine = life.open()
    life.submit()
    life.same()
    for job, name, column in (("later", "later", "id"), ("wrong", "source", "ident")):
        life.run(f"CREATE TABLE cdc.{job}_copy (id bigint PRIMARY KEY)")
        where = {"port": life.server.port, "url": life.server.url, "slot": life.slot}
        engine.submit(job, OTHER.format(**where, job=job, name=name, column=column))
    reasons = {"later": "no table 'cdc.later'", "wrong": 'column "ident" does not exist'}
    eventually(
        lambda: all(why in engine.hints().get(job, "") for job, why in reasons.items()),
        engine.hints,
    )
    assert "copies" not in engine.hints()
    life.run(*CHANGES)
    life.same()
    life.run(
        "CREATE TABLE cdc.later (id bigint PRIMARY KEY)",
        "ALTER TABLE cdc.later REPLICA IDENTITY FULL",
        "INSERT INTO cdc.later VALUES (5)",
    )
    eventually(lambda: life.database_rows("TABLE cdc.later_copy") == [(5,)], engine.hints)
    eventually(lambda: "later" not in engine.hints(), engine.hints)
    life.run("UPDATE cdc.source SET price = 1")
    life.same()
