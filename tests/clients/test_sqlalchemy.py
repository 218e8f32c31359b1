"""The SQLAlchemy dialect, with the SQLAlchemy that is installed; a slow test runs these with the
other line."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sqlengine.service import Service
from tests.support import ROOT

sa: Any = pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed")
NEW = not sa.__version__.startswith("1.")
NAMES = (f"Made {n}" for n in itertools.count())
UTC = dt.UTC


@pytest.fixture(scope="module")
def engine(server: Service) -> Iterator[Any]:
    # As its entry point does, which a checkout that was installed before has not.
    sa.dialects.registry.register("sqlengine", "sqlengine.sqlalchemy.dialect", "SqlengineDialect")
    engine = sa.create_engine(f"{server.url.replace('http', 'sqlengine')}/default_database")
    yield engine
    engine.dispose()


def table(metadata: Any, name: str) -> Any:
    """A table with a column of each common type."""
    return sa.Table(
        name,
        metadata,
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(20), comment="it's"),
        sa.Column("price", sa.Numeric(10, 2)),
        sa.Column("at", sa.DateTime),
        sa.Column("instant", sa.DateTime(timezone=True)),
        sa.Column("good", sa.Boolean),
        sa.Column("share", sa.Float),
        sa.Column("data", sa.LargeBinary),
        sa.Column("day", sa.Date),
        sa.Column("select", sa.Text),
        sa.UniqueConstraint("name"),
        comment="made",
    )


ROW = {
    "id": 1,
    "name": "it's",
    "price": Decimal("1.25"),
    "at": dt.datetime(2026, 1, 2, 3, 4, 5, 678901),
    "instant": dt.datetime(2026, 1, 1, tzinfo=UTC),
    "good": True,
    "share": 1.5,
    "data": b"\x00'",
    "day": dt.date(2026, 1, 1),
    "select": None,
}


def test_tables_rows_and_types(engine: Any) -> None:
    made = table(sa.MetaData(), next(NAMES))
    made.create(engine)
    made.create(engine, checkfirst=True)
    with engine.begin() as connection:
        assert connection.execute(made.select()).fetchall() == []
        connection.execute(made.insert(), [{**ROW, "id": n} for n in range(5)])
        (first, *_) = connection.execute(made.select()).fetchall()
        assert dict(first._mapping) == {**ROW, "id": 0}
        asked = made.select().where(made.c.id > 0).order_by(made.c.id.desc()).limit(2).offset(1)
        assert [row.id for row in connection.execute(asked)] == [3, 2]
        assert [
            row.id for row in connection.execute(made.select().order_by(made.c.id).offset(4))
        ] == [4]
        for condition, rows in [
            (made.c.name.in_([]), 0),
            (made.c.name.notin_([]), 5),
            (made.c.id.in_([1, 2, 9]), 2),
            (made.c.id != 1, 4),
            (made.c.name.like("%'%"), 5),
            (made.c.good.is_(True), 5),
            (made.c.instant == ROW["instant"], 5),
        ]:
            assert len(connection.execute(made.select().where(condition)).fetchall()) == rows
    made.drop(engine)
    assert not sa.inspect(engine).has_table(made.name)


def test_reflection(engine: Any) -> None:
    made = table(sa.MetaData(), next(NAMES))
    made.create(engine)
    inspector = sa.inspect(engine)
    assert inspector.default_schema_name == "default_database"
    assert inspector.get_schema_names() == ["default_database"]
    assert {"items", "keyed", made.name} <= set(
        inspector.get_table_names(schema="default_database")
    )
    assert "cheap" not in inspector.get_table_names()
    assert inspector.get_view_names() == ["cheap"]
    assert inspector.has_table("cheap")
    assert not inspector.has_table("cheap", schema="nowhere")
    assert inspector.get_view_definition("cheap").startswith("SELECT id, name")
    assert inspector.get_pk_constraint("keyed")["constrained_columns"] == ["region", "id"]
    assert [c["comment"] for c in inspector.get_columns("keyed")] == [None, None, "said"]
    assert inspector.get_indexes("keyed") == inspector.get_foreign_keys("keyed") == []
    with pytest.raises(sa.exc.NoSuchTableError):
        inspector.get_columns("nope")
    metadata = sa.MetaData()
    metadata.reflect(engine, views=True, only=["cheap", made.name])
    found = metadata.tables[made.name]
    assert [c.name for c in found.primary_key] == ["id"]
    compiled = [c.type.compile(engine.dialect) for c in found.columns]
    assert compiled == [c.type.compile(engine.dialect) for c in made.columns]


def test_types_of_results(engine: Any) -> None:
    from sqlengine.sqlalchemy.types import type_of

    texts = [
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "STRING",
        "VARCHAR(3)",
        "CHAR(3)",
        "BYTES",
        "BINARY(2)",
        "DECIMAL(38, 3)",
        "BOOLEAN",
        "DATE",
        "ARRAY<INT NOT NULL>",
        "MAP<STRING, INT>",
        "ROW<`a` INT>",
        "INTERVAL DAY(3) TO SECOND(3)",
    ]
    for text in texts:
        assert type_of(f"{text} NOT NULL").compile(engine.dialect) == text
    assert type_of("ARRAY<INT>").python_type is list


def test_what_bi_tools_ask(engine: Any) -> None:
    """A check of the connection, a query around the user's, a sample, a view as a model."""
    with engine.begin() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
        outer = "SELECT name AS name, COUNT(*) AS `count` FROM (SELECT * FROM items WHERE id < :most) AS virtual_table GROUP BY name ORDER BY `count` DESC, name LIMIT 1000"
        assert connection.execute(sa.text(outer), {"most": 2}).fetchall() == [("n0", 1), ("n1", 1)]
        assert connection.exec_driver_sql("SELECT * FROM items LIMIT 2").fetchall()[1].id == 1
        raw = connection.connection.cursor()
        raw.execute("SELECT id, name FROM items WHERE name LIKE '%1' LIMIT 1000")
        assert ([d[0] for d in raw.description], raw.fetchall()) == (["id", "name"], [(1, "n1")])
        connection.execute(sa.text("CREATE OR REPLACE VIEW model AS SELECT id FROM cheap"))
        connection.execute(
            sa.text("CREATE OR REPLACE VIEW model AS SELECT id + 1 AS id FROM cheap")
        )
        assert connection.execute(sa.text("SELECT MAX(id) FROM model")).scalar() == 3
        connection.execute(sa.text("DROP VIEW model"))


def test_values_in_the_text_are_those_of_parameters(engine: Any) -> None:
    """Superset asks so."""
    made = table(sa.MetaData(), next(NAMES))
    made.create(engine)
    with engine.begin() as connection:
        connection.execute(made.insert(), [ROW])
        for column in made.c:
            if ROW[column.name] is not None:
                asked = sa.select(sa.func.count()).where(column == ROW[column.name])
                text = str(asked.compile(engine, compile_kwargs={"literal_binds": True}))
                assert connection.exec_driver_sql(text).scalar() == 1, text
    made.drop(engine)


def test_what_flink_says_otherwise(engine: Any) -> None:
    items = sa.table("items", sa.column("id"), sa.column("name"))
    there = sa.exists().where(items.c.id == 1)
    with engine.begin() as connection:
        for asked, found in [
            (sa.select(sa.literal(1)).where(there), 1),
            (sa.select(there), True),
            (sa.select(sa.func.count()).where(items.c.name.regexp_match("N[12]", flags="i")), 2),
            (sa.select(sa.func.count()).where(~items.c.name.regexp_match("n[12]")), 3),
            (sa.select(sa.func.max(items.c.name.regexp_replace("n", "x"))), "x4"),
            (sa.select(sa.func.max(items.c.id)).with_for_update(), 4),
        ]:
            assert connection.execute(asked).scalar() == found


def test_comments_and_places_are_reflected(engine: Any) -> None:
    made = table(sa.MetaData(), f"_{next(NAMES)}")  # the topic is not called so
    made.create(engine)
    inspector = sa.inspect(engine)
    assert inspector.get_table_comment(made.name) == {"text": "made"}
    assert inspector.get_table_comment("cheap") == {"text": None}
    with engine.begin() as connection:
        connection.execute(made.insert(), [ROW])
    found = sa.Table(made.name, sa.MetaData(), autoload_with=engine)
    assert found.dialect_options["sqlengine"]["with"]["format"] == "json"
    made.drop(engine)
    found.create(engine)
    found.drop(engine)


def test_schemas_are_databases(engine: Any) -> None:
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema("shop"))
        made = sa.Table("items", sa.MetaData(), sa.Column("a", sa.Integer), schema="shop")
        made.create(connection)
        connection.execute(made.insert(), [{"a": 1}])
        assert connection.execute(made.select()).fetchall() == [(1,)]
        assert sa.inspect(connection).get_table_names("shop") == ["items"]
        made.drop(connection)
        connection.execute(sa.schema.DropSchema("shop"))
        assert "shop" not in sa.inspect(connection).get_schema_names()


def test_results_stream(engine: Any) -> None:
    ticks = "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')"
    with engine.begin() as connection:
        connection.execute(sa.text(ticks))
        options = {"stream_results": True, "follow": True, "max_row_buffer": 10}
        result = connection.execution_options(**options).execute(sa.text("SELECT n FROM ticks"))
        assert len(result.fetchmany(30)) == 30
        result.close()


def test_errors_and_no_transactions(engine: Any, server: Service) -> None:
    with engine.connect() as connection:
        with pytest.raises(sa.exc.ProgrammingError, match="unknown column 'nope'"):
            connection.execute(sa.text("SELECT nope FROM items"))
        assert connection.get_isolation_level() == "AUTOCOMMIT"
    with pytest.raises(sa.exc.ArgumentError, match="'tls' is true or false, not '1'"):
        sa.create_engine("sqlengine://127.0.0.1:9?tls=1").connect()
    nobody = sa.create_engine("sqlengine://127.0.0.1:9")
    with pytest.raises(sa.exc.OperationalError):
        nobody.connect()
    with engine.connect() as connection:
        session = connection.connection.dbapi_connection.engine
        session._client.delete(f"/api/v1/sessions/{session._session}")
        with pytest.raises(sa.exc.DBAPIError) as error:
            connection.execute(sa.text("SELECT 1"))
        assert error.value.connection_invalidated


@pytest.mark.skipif(not NEW, reason="pandas takes SQLAlchemy 2")
def test_pandas(engine: Any) -> None:
    import pandas as pd

    found = pd.read_sql("SELECT id, name FROM items ORDER BY id", engine)
    assert (len(found), str(found.dtypes["id"])) == (5, "int64")
    given = pd.DataFrame(
        {
            "a": [1, 2],
            "b": ["x", None],
            "c": [1.5, float("nan")],
            "d": [Decimal("1.25"), None],
            "t": pd.to_datetime(["2026-01-01"] * 2),
        }
    )
    name = next(NAMES)
    for many in (next(NAMES), name):
        given.to_sql(many, engine, if_exists="append", method=None if many == name else "multi")
        pd.testing.assert_frame_equal(
            pd.read_sql_table(many, engine, index_col="index").rename_axis(None),
            given.assign(d=["1.25", None]),
            check_dtype=False,
        )
    for rows in (2, 1):
        given.head(rows).to_sql(name, engine, index=True, if_exists="replace")
        assert len(pd.read_sql_table(name, engine)) == rows
    chunk = next(
        pd.read_sql(
            sa.text(f"SELECT * FROM `{name}` WHERE a > :a"), engine, params={"a": 0}, chunksize=1
        )
    )
    assert chunk.shape == (1, 6)


@pytest.mark.slow
def test_the_other_line(tmp_path: Path) -> None:
    other = "sqlalchemy<2" if NEW else "sqlalchemy>=2"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--target",
        str(tmp_path),
        other,
        "greenlet",
    ]
    if subprocess.run(install, capture_output=True).returncode:
        pytest.skip(f"'{other}' cannot be installed here")
    paths = os.pathsep.join(
        [str(tmp_path), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", str(Path(__file__))],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-3000:]
