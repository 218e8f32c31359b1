"""Databases that are asked for the rows of keys, of all types by which they can be asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.connectors.databases import Database
from tests.sql.golden import Collected

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


def test_keys_of_two_columns_fill_a_question(server: Database, tmp_path: Path) -> None:
    numbers = range(1_001)
    server.execute(
        "DROP TABLE IF EXISTS asked",
        "CREATE TABLE asked (k integer, n integer, name varchar(20))",
        "INSERT INTO asked VALUES " + ", ".join(f"({i}, {i}, 'of {i}')" for i in numbers),
    )
    asks = [f'{{"v": {i}, "k": {i}, "n": {i}}}\n' for i in numbers]
    (tmp_path / "asks.json").write_text("".join(asks))
    text = TABLES.format(
        kind="INT", folder=tmp_path, url=server.url, cache="NONE",
        on="a.k = d.k AND a.n = d.n",
        user="" if server.username is None else f", 'username' = '{server.username}'",
    )  # fmt: skip
    collected = Collected(text)
    with open_runner(tmp_path / "data") as runner:
        assert Session(runner, collected).run(text), collected.messages
    found = [e["row"] for e in collected.events if e["kind"] == "row"]
    assert sorted(found) == [[i, f"of {i}"] for i in numbers]
