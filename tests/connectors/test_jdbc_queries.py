"""Databases that are asked for what a plan wants: the rows of a query are those that it has over all
rows, whatever the database holds for equal or less."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from parser.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    Schema,
    decimal,
    timestamp,
    timestamp_ltz,
)
from planner.logical import Scan
from planner.scalar import Call, ColumnRef, Literal, Scalar
from sqlengine.connectors.registry import declared, open_scan
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.connectors.databases import Database
from tests.connectors.tables import environment
from tests.spark.scripting import Collected

COLUMNS = Schema.of(
    id=BIGINT,
    name=STRING,
    v=DOUBLE,
    d=DATE,
    ts=timestamp(3),
    n=decimal(8, 2),
    since=timestamp_ltz(3),
)
ROWS = """(1, 'a', 0.5, '2024-01-01', '2024-01-01 00:00:00.000500', 1.004, '2024-01-01 00:00:00.000500'),
(2, 'A', -0.0, '2024-01-02', '2024-01-01 00:00:00.001000', 1.006, '2024-01-01 00:00:00.001000'), (3, 'a ', 0.0, '1969-12-31', NULL, 1, NULL),
(4, 'á', 1e300, NULL, '1969-12-31 23:59:59.999900', 2, '1970-06-01 00:00:00'), (5, NULL, NULL, '2024-01-01', '2024-06-01 00:00:00', NULL, '2024-06-01 00:00:00'),
(6, '5', 5.0, '2024-02-29', '2024-01-01 00:00:00.001999', 5, '2024-01-01 00:00:00.001999')"""
CONDITIONS = (
    "name = 'a'", "name = 'A' OR name = '5'", "name <> 'a'", "name > 'A'", "name IN ('a', 'á')", "name IS NULL",
    "id > 2 AND name IS NOT NULL", "id BETWEEN 2 AND 4", "id IN (1, 6, 9)", "id <> 3", "v = 0", "v <= 0.5", "v > 4",
    "d = DATE '2024-01-01'", "d < DATE '1970-01-01' OR d >= DATE '2024-02-01'", "n = 1.00", "n > 1.00",
    "n >= 1.01", "n < 1.01", "n <= 1", "n IN (1.01, 5)", "n <> 1.00", "n BETWEEN 1.005 AND 2", "n = 1.004", "n > 4",
    "since = TO_TIMESTAMP_LTZ(1704067200000, 3)", "since > TO_TIMESTAMP_LTZ(1704067200000, 3)",
    "since >= TO_TIMESTAMP_LTZ(1704067200001, 3)", "since < TO_TIMESTAMP_LTZ(1704067200001, 3)",
    "ts = TIMESTAMP '2024-01-01 00:00:00'", "ts <= TIMESTAMP '2024-01-01 00:00:00.001'",
    "ts > TIMESTAMP '2024-01-01 00:00:00'", "ts < TIMESTAMP '1970-01-01 00:00:00'",
)  # fmt: skip


@pytest.fixture
def database(server: Database) -> Database:
    kinds = {"ts": timestamp(6), "n": decimal(8, 3), "since": timestamp_ltz(6)}
    types = (
        f"{c.name} {server.dialect.type_name(kinds.get(c.name, c.type), False)}" for c in COLUMNS
    )
    server.execute(
        "DROP TABLE IF EXISTS odd",
        f"CREATE TABLE odd ({', '.join(types)})",
        f"INSERT INTO odd VALUES {ROWS}",
    )
    return server


def found(database: Database, folder: Path, *, asked: bool) -> dict[str, int]:
    options = f"'connector' = 'jdbc', 'url' = '{database.url}', 'table-name' = 'odd'"
    user = f", 'username' = '{database.username}'" if database.username else ""
    columns = ", ".join(f"{c.name} {c.type.plain}" for c in COLUMNS)
    text = f"""SET 'execution.runtime-mode' = 'batch';
    SET 'optimizer.query-source' = '{str(asked).lower()}';
    CREATE TABLE odd ({columns}) WITH ({options}{user});"""
    text += "".join(f"SELECT '{i}', id, ts FROM odd WHERE {c};\n" for i, c in enumerate(CONDITIONS))
    text += "SELECT COUNT(*) FROM (SELECT name FROM odd LIMIT 4);\n"
    collected = Collected(text)
    with open_runner(folder / str(asked)) as runner:
        Session(runner, collected).run(text)
    outcome = collected.finish()
    assert not outcome.errors
    return outcome.rows


def test_rows_are_those_of_all_rows(database: Database, tmp_path: Path) -> None:
    rows = found(database, tmp_path, asked=True)
    assert rows == found(database, tmp_path, asked=False)
    assert sum(rows.values()) > 40


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        (Call(">", (ColumnRef("id", BIGINT), Literal(4, BIGINT)), BOOLEAN), [5, 6]),
        (Call("IS NULL", (ColumnRef("v", DOUBLE),), BOOLEAN), [5]),
        # Not all that a plan wants is a database asked for.
        (
            Call("<>", (ColumnRef("name", STRING), Literal("a", STRING)), BOOLEAN),
            [1, 2, 3, 4, 5, 6],
        ),
    ],
)
def test_the_database_leaves_rows_out(database: Database, where: Scalar, ids: list[int]) -> None:
    table = declared(database.table("odd", COLUMNS))
    source = open_scan(Scan(table, where), environment())
    (shard,) = source.shards()
    chunk = source.read(shard, 0, max_rows=10)
    assert chunk is not None
    assert chunk.columns is not None
    assert chunk.columns["id"].to_pylist() == ids
    few = open_scan(Scan(table, where, limit=1), environment())
    assert few.end(few.shards()[0]) == 1


def test_decimals_and_instants_leave_rows_out(database: Database) -> None:
    if database.dialect.name == "SQLite":
        pytest.skip("its columns have no types")
    number, instant = ColumnRef("n", decimal(8, 2)), ColumnRef("since", timestamp_ltz(3))
    one, moment = Literal(Decimal("1.00"), decimal(3, 2)), Literal(1704067200001, timestamp_ltz(3))
    table = declared(database.table("odd", COLUMNS))
    for where, count in (
        (Call("=", (number, one), BOOLEAN), 2),
        (Call(">", (instant, moment), BOOLEAN), 2),
    ):
        source = open_scan(Scan(table, where), environment())
        assert source.end(source.shards()[0]) == count
        assert source.health is not None
        assert source.health.conditions == 1
