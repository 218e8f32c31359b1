"""INSERT over a connection: one whose input ends has run, any other is a job. The same on a server
and on an engine in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sqlengine import Connection, SqlError, connect
from tests.service.harness import running
from tests.support import eventually


@pytest.fixture(scope="module", params=["server", "process"])
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    data = tmp_path_factory.mktemp("inserts") / "data"
    if request.param == "server":
        with running(data) as (service, _), connect(service.url) as connection:
            yield connection
    else:
        with connect(data=data) as connection:
            yield connection


def test_inserts_run_to_their_ends_or_are_jobs(connection: Connection) -> None:
    into = "WITH ('connector' = 'topic', 'topic' = 'kept', 'format' = 'json')"
    made = connection.sql(f"CREATE TABLE kept (item STRING, price BIGINT) {into}")
    assert made.message == "OK"
    assert "table.kept" in connection.jobs
    connection.sql(
        "CREATE TEMPORARY VIEW dear AS SELECT item, price FROM"
        " (VALUES ('a', CAST(30 AS BIGINT)), ('b', 20), ('c', 5)) AS v (item, price) WHERE price > 15"
    )
    counted = connection.sql("/* kept */ INSERT INTO kept VALUES ('z', 1), ('y', NULL)")
    assert (counted.rows_written, counted.job, list(counted)) == (2, None, [])
    connection.topics.create("more", if_not_exists=True)
    connection.sql(f"CREATE TABLE more (item STRING, price BIGINT) {into.replace('kept', 'more')}")
    connection.sql("CREATE TEMPORARY VIEW much AS SELECT * FROM more UNION ALL SELECT * FROM dear")
    endless = connection.sql("-- kept\nINSERT INTO kept SELECT * FROM much")
    assert endless.job is not None
    assert (endless.rows_written, endless.job.state) == (None, "running")
    assert endless.job.wait(20)
    assert endless.job.name.startswith("insert_kept_")
    assert endless.job.sql.startswith("-- kept\n")
    found = connection.sql("SELECT * FROM kept ORDER BY price, item").to_arrow().to_pylist()
    assert [row["item"] for row in found if row["price"]] == ["z", "b", "a"]
    endless.job.remove()
    with pytest.raises(SqlError, match="unknown table 'nowhere'"):
        connection.sql("INSERT INTO nowhere SELECT * FROM dears")


def test_final_rows_of_what_ends_go_into_any_table(connection: Connection) -> None:
    into = "WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json')"
    connection.sql(f"CREATE TABLE counts (n BIGINT) {into}")
    counted = "INSERT INTO counts SELECT COUNT(*) FROM "
    assert connection.sql(counted + "(VALUES (1), (2)) AS v(a)").rows_written == 1
    for sql in (counted + "counts", counted + "(VALUES (1)) AS v(a)"):
        with pytest.raises(SqlError, match="takes new rows only"):
            connection.sql(sql, job=None if sql.endswith("counts") else "c")
    assert [row.n for row in connection.sql("SELECT n FROM counts")] == [2]


def test_a_name_makes_a_job_of_any_insert(connection: Connection) -> None:
    into = "WITH ('connector' = 'topic', 'topic' = 'named', 'format' = 'json')"
    connection.sql(f"CREATE TABLE named (n BIGINT) {into}")
    for n in (1, 2):
        job = connection.sql(f"INSERT INTO named VALUES ({n})", job="one.more").job
        assert job is not None
        assert (job.name, job.info.version) == ("one.more", n)
        assert job.wait(20)
    assert sorted(row.n for row in connection.sql("SELECT n FROM named")) == [1, 2]
    connection.sql("SET 'table.dml-sync' = 'false'")
    assert connection.sql("INSERT INTO named VALUES (3)").job is not None
    connection.sql("RESET 'table.dml-sync'")
    with pytest.raises(SqlError, match="no INSERTs cannot be the job 'x'"):
        connection.sql("SELECT 1", job="x")


def test_an_insert_that_is_waited_for_ends_with_its_job(connection: Connection) -> None:
    ticks = "WITH ('connector' = 'datagen', 'rows-per-second' = '100')"
    connection.sql(f"CREATE TEMPORARY TABLE ticks (n INT) {ticks}")
    connection.sql("CREATE TEMPORARY TABLE hole (n INT) WITH ('connector' = 'blackhole')")
    for statement in ("SET 'table.dml-sync' = 'true'", "SET 'pipeline.name' = 'waited'"):
        connection.sql(statement)

    def stop() -> None:
        eventually(lambda: "waited" in connection.jobs)
        connection.jobs["waited"].stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(SqlError, match="job 'waited' is stopped"):
        connection.sql("INSERT INTO hole SELECT n FROM ticks")
    stopping.join()
    connection.jobs["waited"].remove()
    with pytest.raises(SqlError, match="the query was ended after 1 s"):
        connection.sql("INSERT INTO hole SELECT n FROM ticks", timeout_s=1)
    assert connection.jobs["waited"].state == "stopped"
