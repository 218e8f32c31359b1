"""Databases that are asked for the rows of keys, of all types by which they can be asked."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import pytest

from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.connectors.databases import Database
from tests.servers.postgresql import PostgresServer
from tests.service.harness import running
from tests.sql.golden import Collected
from tests.support import eventually

KEYS = {
    "INT": ("integer", "7", "7"),
    "BIGINT": ("bigint", "-9000000000", "-9000000000"),
    "STRING": ("varchar(30)", "'it''s 100%'", '"it\'s 100%"'),
    "DATE": ("date", "'2024-02-29'", '"2024-02-29"'),
}
TABLES = """
CREATE TABLE asks (v INT, k {kind}, n INT, p AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '{folder}/asks.json', 'format' = 'json');
CREATE TABLE dim (k {kind}, n INT, name STRING) WITH ('connector' = 'jdbc', 'url' = '{url}',
  'table-name' = 'asked', 'lookup.cache' = '{cache}'{user});
SELECT v, name FROM asks AS a LEFT JOIN dim FOR SYSTEM_TIME AS OF a.p AS d ON {on};
"""


@pytest.mark.parametrize("on", ["a.k = d.k", "a.k = d.k AND a.n = d.n"])
@pytest.mark.parametrize("kind", KEYS)
def test_rows_are_found_by_keys_of_each_type(
    server: Database, tmp_path: Path, kind: str, on: str
) -> None:
    own, value, given = KEYS[kind]
    server.execute(
        "DROP TABLE IF EXISTS asked",
        f"CREATE TABLE asked (k {own}, n integer, name varchar(20))",
        f"INSERT INTO asked VALUES ({value}, 1, 'one'), ({value}, 2, 'two'), (NULL, 1, 'none')",
    )
    asks = [f'{{"v": 1, "k": {given}, "n": 1}}', '{"v": 2, "k": null, "n": 1}']
    (tmp_path / "asks.json").write_text("\n".join(asks) + "\n")
    text = TABLES.format(
        kind=kind, folder=tmp_path, url=server.url, cache="PARTIAL", on=on,
        user="" if server.username is None else f", 'username' = '{server.username}'",
    )  # fmt: skip
    collected = Collected(text)
    with open_runner(tmp_path / "data") as runner:
        good = Session(runner, collected).run(text)
    if kind == "DATE" and server.username is None:  # dates of SQLite are texts of any form
        assert "cannot be asked by column 'k'" in collected.messages[0]
        return
    assert good, collected.messages
    found = sorted(json.dumps(e["row"]) for e in collected.events if e["kind"] == "row")
    names = ["one"] if "a.n" in on else ["one", "two"]
    assert found == sorted(["[2, null]", *(f'[1, "{n}"]' for n in names)])


@pytest.mark.parametrize("on", ["a.k = d.k", "a.k = d.k AND a.n = d.n"])
def test_thousands_of_keys_and_such_as_no_database_has(
    server: Database, tmp_path: Path, on: str
) -> None:
    server.execute(
        "DROP TABLE IF EXISTS asked",
        "CREATE TABLE asked (k varchar(30), n integer, name varchar(20))",
        "INSERT INTO asked VALUES ('a1', 1, 'one'), ('a1999', 1999, 'last'), ('b', 5, 'nobody asks')",
    )
    asks = [{"v": i, "k": f"a{i}", "n": i} for i in range(2_000)]
    asks += [{"v": -1, "k": "a\0b", "n": 1}]
    (tmp_path / "asks.json").write_text("".join(json.dumps(a) + "\n" for a in asks))
    text = TABLES.format(
        kind="STRING", folder=tmp_path, url=server.url, cache="NONE", on=on,
        user="" if server.username is None else f", 'username' = '{server.username}'",
    )  # fmt: skip
    collected = Collected(text)
    with open_runner(tmp_path / "data") as runner:
        assert Session(runner, collected).run(text), collected.messages
    found = [e["row"] for e in collected.events if e["kind"] == "row"]
    assert len(found) == 2_001
    assert sorted(r for r in found if r[1] is not None) == [[1, "one"], [1999, "last"]]


@pytest.mark.parametrize(("at_once", "keys", "wanted"), [(3, 2_000, 3), (8, 250, 3), (3, 90, 1)])
def test_keys_are_asked_for_over_several_connections_at_a_time(
    postgresql: PostgresServer, tmp_path: Path, at_once: int, keys: int, wanted: int
) -> None:
    database = Database(postgresql.url, "postgres")
    database.execute(
        "CREATE OR REPLACE VIEW asked_slowly AS SELECT k, pg_backend_pid() AS n, 'a' || k AS name"
        " FROM generate_series(0, 9999) AS k, (SELECT pg_sleep(0.1)) AS s",
    )
    (tmp_path / "asks.json").write_text("".join(f'{{"v": {i}, "k": {i}}}\n' for i in range(keys)))
    text = TABLES.format(
        kind="INT", folder=tmp_path, url=postgresql.url, cache="NONE", on="a.k = d.k",
        user=f", 'username' = 'postgres', 'lookup.concurrency' = '{at_once}', 'lookup.async' = 'true'",
    )  # fmt: skip
    text = text.replace("'asked'", "'asked_slowly'").replace(
        "SELECT v, name", "SELECT v, name, d.n"
    )
    collected = Collected(text)
    with open_runner(tmp_path / "data") as runner:
        assert Session(runner, collected).run(text), collected.messages
    found = [e["row"] for e in collected.events if e["kind"] == "row"]
    assert [r[:2] for r in found] == [[i, f"a{i}"] for i in range(keys)]
    assert len({r[2] for r in found}) == wanted


# Rows of texts that are alike, and what each database finds for 'a', 'A ', 'b' and 'ä'.
ALIKE = {
    "SQLite": ("varchar(9) COLLATE NOCASE", {"a": "aA", "A ": "", "b": "B", "ä": "ä"}),
    "PostgreSQL": ("char(3)", {"a": "a", "A ": "A", "b": "", "ä": "ä"}),
    "MySQL": ("varchar(9)", {"a": "aAä", "A ": "aAä", "b": "B", "ä": "aAä"}),
}


@pytest.mark.parametrize("cache", ["NONE", "PARTIAL"])
def test_which_texts_are_equal_the_database_says(
    server: Database, tmp_path: Path, cache: str
) -> None:
    """Each row is that of all keys to which it is equal there."""
    kind, wanted = ALIKE[server.dialect.name]
    collation = " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci" * (kind == "varchar(9)")
    server.execute(
        "DROP TABLE IF EXISTS asked",
        f"CREATE TABLE asked (k {kind}{collation}, n integer, name varchar(20))",
        "INSERT INTO asked VALUES ('a', 1, 'a'), ('A', 2, 'A'), ('B', 3, 'B'), ('ä', 4, 'ä')",
    )
    asks = [{"v": i, "k": k, "n": 1} for i, k in enumerate([*wanted, "c", *wanted])]
    (tmp_path / "asks.json").write_text("".join(json.dumps(a) + "\n" for a in asks))
    text = TABLES.format(
        kind="STRING", folder=tmp_path, url=server.url, cache=cache, on="a.k = d.k",
        user="" if server.username is None else f", 'username' = '{server.username}'",
    )  # fmt: skip
    collected = Collected(text)
    with open_runner(tmp_path / "data") as runner:
        assert Session(runner, collected).run(text), collected.messages
    found: dict[int, str] = {}
    for v, name in (e["row"] for e in collected.events if e["kind"] == "row"):
        found[v] = "".join(sorted((name or "") + found.get(v, "")))
    expected = [*wanted.values(), "", *wanted.values()]
    assert found == dict(enumerate("".join(sorted(names)) for names in expected))


SILENT = """
CREATE TABLE sales (id BIGINT, client STRING, now AS PROCTIME())
WITH ('connector' = 'topic', 'topic' = 'sales', 'format' = 'json');
CREATE TABLE clients (id STRING, name STRING) WITH ('connector' = 'jdbc', 'url' = '{url}',
  'table-name' = 'silent', 'username' = 'postgres', 'lookup.cache' = 'NONE', 'lookup.timeout' = '3 s');
CREATE TABLE named (id BIGINT, name STRING) WITH ('connector' = 'topic', 'topic' = 'named', 'format' = 'json');
CREATE TABLE plain (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'plain', 'format' = 'json');
"""
NAMED = """INSERT INTO named SELECT s.id, c.name FROM sales AS s
LEFT JOIN clients FOR SYSTEM_TIME AS OF s.now AS c ON s.client = c.id"""


def test_a_table_that_does_not_answer_costs_its_own_job_a_pause(
    postgresql: PostgresServer, tmp_path: Path
) -> None:
    database = Database(postgresql.url, "postgres")
    database.execute(
        "CREATE TABLE silent (id varchar(9), name varchar(9))",
        "INSERT INTO silent VALUES ('a', 'one'), ('b', 'two')",
    )
    with running(tmp_path / "data") as (_, user), closing(database.connect()) as other:
        for topic in ("sales", "named", "plain"):
            user.topic(topic)
        user.submit("tables", SILENT.format(url=database.url))
        user.submit("named", NAMED)
        user.submit("plain", "INSERT INTO plain SELECT id FROM sales")
        user.write("sales", {"id": 1, "client": "a"})
        eventually(lambda: user.read("named") == [{"id": 1, "name": "one"}])
        other.cursor().execute("BEGIN; LOCK TABLE silent IN ACCESS EXCLUSIVE MODE")
        user.write("sales", {"id": 2, "client": "b"})
        eventually(lambda: user.states()["named"] == "restarting")
        assert "no answer for 3 s" in user.job("named")["reason"]
        eventually(lambda: user.read("plain")[-1] == {"id": 2})
        other.rollback()
        user.client.post("/api/v1/jobs/named/start", {})
        eventually(lambda: user.read("named")[1:] == [{"id": 2, "name": "two"}])


@pytest.mark.slow
def test_others_do_not_wait_for_a_table_that_is_slow(
    postgresql: PostgresServer, tmp_path: Path
) -> None:
    """Its job goes on apart from them, with its counts, and stays there as long as it is slow."""
    database = Database(postgresql.url, "postgres")
    database.execute(
        "CREATE TABLE pace AS SELECT 0.0 AS seconds",
        "CREATE VIEW slow AS SELECT 'a' AS id, 'one' AS name FROM (SELECT pg_sleep(seconds) FROM pace) s",
    )
    tables = SILENT.format(url=database.url).replace("'silent'", "'slow'").replace("3 s", "20 s")
    tables = tables.replace("'named', 'format' = 'json'", "'named', 'format' = 'debezium-json'")
    count = NAMED.replace("s.id, c.name", "COUNT(*), c.name") + " GROUP BY c.name"
    with running(tmp_path / "data") as (_, user):
        for topic in ("sales", "named", "plain"):
            user.topic(topic)
        user.submit("tables", tables)
        user.submit("named", f"SET 'job.isolation.lookup-time' = '200 ms'; {count}")
        user.submit("plain", "INSERT INTO plain SELECT id FROM sales")

        def sold(n: int) -> None:
            user.write("sales", {"id": n, "client": "a"})
            eventually(lambda: user.read("plain")[-1:] == [{"id": n}])

        def counted(n: int) -> None:
            row = {"id": n, "name": "one"}
            eventually(lambda: [r["after"] for r in user.read("named")[-1:]] == [row])

        sold(1)
        counted(1)
        database.execute("UPDATE pace SET seconds = 4")
        began = time.monotonic()
        sold(2)
        assert time.monotonic() - began < 4, "it was waited for"
        counted(2)
        eventually(lambda: "took 4." in (user.job("named")["reason"] or ""))
        assert user.job("named")["graph"] != "main"
        sold(3)
        counted(3)
