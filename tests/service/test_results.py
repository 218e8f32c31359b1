"""Results of `Connection.sql`: the same on a server and on an engine in this process."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sqlengine import Connection, Progress, Result, ServiceError, SqlError, connect
from sqlengine.client import Client
from sqlengine.connection.values import python_values
from sqlengine.queries.results import BUFFERED_BYTES
from tests.service.harness import running
from tests.support import ROOT, eventually

EVENTS = """CREATE TABLE events (n BIGINT, word STRING)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json')"""
COUNTS = "SELECT word, COUNT(*) AS n FROM events GROUP BY word"
ROWS = 20_000


@pytest.fixture(scope="module", params=["server", "process"])
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    data = tmp_path_factory.mktemp("results") / "data"
    if request.param == "server":
        with running(data, token="secret") as (service, _):
            url = f"http://127.0.0.1:{service.port}"
            with connect(url, token="secret") as connection:
                yield prepared(connection)
    else:
        with connect(data=data) as connection:
            yield prepared(connection)


def prepared(connection: Connection) -> Connection:
    connection.create_topic("events")
    connection.submit("tables", EVENTS)
    connection.write("events", [{"n": n, "word": f"w{n % 3}"} for n in range(ROWS)])
    return connection


def test_rows_are_named_tuples(connection: Connection) -> None:
    with connection.sql("SELECT n, word AS `a word` FROM events LIMIT 2") as result:
        first, second = result
    assert (first.n, first[1], first.kind) == (0, "w0", "+I")
    assert second._asdict() == {"n": 1, "_1": "w1"}
    assert result.types == {"n": "BIGINT", "a word": "STRING"}
    assert result.schema.names == ["n", "a word"]
    assert not result.changes


def test_rows_come_whole_and_in_any_way(connection: Connection) -> None:
    table = connection.sql("SELECT * FROM events").to_arrow()
    assert table.column("n").to_pylist() == list(range(ROWS))
    assert table.schema.field("word").metadata == {b"sql": b"STRING"}
    assert sum(1 for _ in connection.sql("SELECT n FROM events")) == ROWS
    dicts = list(connection.sql("SELECT n FROM events").dicts())
    assert dicts[-1] == {"n": ROWS - 1}


def test_each_way_goes_on_where_the_one_before_stopped(connection: Connection) -> None:
    result = connection.sql("SELECT n FROM events")
    found = [next(result).n, next(result).n]
    found += next(result.batches()).column("n").to_pylist()
    found.append(next(result).n)
    found += [row["n"] for row in result.dicts()]
    assert found == list(range(ROWS))
    assert result.progress.rows == ROWS
    assert not list(result)


def test_arrow_reads_it_as_a_stream(connection: Connection) -> None:
    assert pa.table(connection.sql("SELECT n FROM events")).num_rows == ROWS
    with connection.sql("SELECT n FROM events", follow=True) as result:
        reader = pa.RecordBatchReader.from_stream(result)
        assert reader.read_next_batch().column("n")[0].as_py() == 0


def test_final_rows_of_an_aggregate(connection: Connection) -> None:
    result = connection.sql(COUNTS + " ORDER BY word")
    assert [tuple(row) for row in result] == [("w0", 6667), ("w1", 6667), ("w2", 6666)]
    assert not result.changes


def test_changes_come_until_it_is_closed(connection: Connection) -> None:
    result = connection.sql(COUNTS, follow=True)
    assert result.changes
    assert result.schema.names == ["op", "word", "n"]
    kinds, counts = set(), dict.fromkeys(("w0", "w1", "w2"), 0)
    while sum(counts.values()) < ROWS:
        row = next(result)
        kinds.add(row.kind)
        if row.kind in ("+I", "+U"):
            counts[row.word] = row.n
    assert kinds >= {"+I", "-U", "+U"} or kinds == {"+I"}
    threading.Timer(0.2, result.close).start()
    assert not [row for row in result if row.kind == "-D"]
    assert none_runs(connection)


def none_runs(connection: Connection) -> bool:
    """True once no query runs, whatever became of its client."""
    client = getattr(connection, "_client", None)
    if client is None:
        queries = getattr(connection, "_queries")  # noqa: B009
        return bool(eventually(lambda: not queries.running() and not queries._slots.taken()))
    assert isinstance(client, Client)
    return bool(eventually(lambda: not client.get("/api/v1/queries")["queries"]))


def test_a_task_of_asyncio_reads_rows_beside_others(connection: Connection) -> None:
    async def read() -> list[object]:
        found: list[object] = []
        async for row in connection.sql("SELECT n FROM events LIMIT 5"):
            found.append(row.n)  # noqa: PERF401 - that is what is tested
        return found

    async def cancelled() -> None:
        result = connection.sql("SELECT n FROM events WHERE n < 0", follow=True)

        async def wait() -> None:
            async for _ in result:
                pass

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait(), 0.3)

    assert asyncio.run(read()) == [0, 1, 2, 3, 4]
    asyncio.run(cancelled())
    assert none_runs(connection)


def test_values_are_exact(connection: Connection) -> None:
    (row,) = connection.sql("""SELECT * FROM (VALUES (CAST(1.50 AS DECIMAL(20, 2)),
        TIMESTAMP '2020-01-02 03:04:05.123456789', TIMESTAMP '2020-01-02 03:04:05.123',
        TO_TIMESTAMP_LTZ(1001, 3), DATE '9999-12-31', TIME '01:02:03',
        ARRAY[1, 2], MAP['a', X'00ff'], ROW(1, INTERVAL '5' SECOND), INTERVAL '2' MONTH,
        TRUE, CAST(0.1 AS FLOAT)))
        AS t (d, nanos, ms, instant, day_, time_, a, m, r, months, b, f)""")
    assert row.d == Decimal("1.50")
    assert str(row.d) == "1.50"
    assert row.nanos == np.datetime64("2020-01-02T03:04:05.123456789")
    assert row.ms == dt.datetime(2020, 1, 2, 3, 4, 5, 123000)
    assert row.instant == dt.datetime(1970, 1, 1, 0, 0, 1, 1000, tzinfo=dt.UTC)
    assert (row.day_, row.time_) == (dt.date(9999, 12, 31), dt.time(1, 2, 3))
    assert (row.a, row.m) == ([1, 2], {"a": b"\x00\xff"})
    assert row.r == {"EXPR$0": 1, "EXPR$1": dt.timedelta(seconds=5)}
    assert (row.months, row.b) == (2, True)
    assert row.f == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("kind", "ticks", "value"),
    [
        (pa.date32(), 4_000_000, np.datetime64(4_000_000, "D")),
        (pa.timestamp("ms", "UTC"), 400_000_000_000_000, np.datetime64(400_000_000_000_000, "ms")),
        (pa.timestamp("us"), -(10**17), np.datetime64(-(10**17), "us")),
        (pa.time64("ns"), 1, np.timedelta64(1, "ns")),
    ],
)
def test_what_datetime_cannot_hold_is_a_value_of_numpy(
    kind: pa.DataType, ticks: int, value: object
) -> None:
    storage = pa.int32() if kind.bit_width == 32 else pa.int64()
    column = pa.array([ticks, None], storage).view(kind)
    assert python_values(column, pa.field("v", kind)) == [value, None]
    rows = pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 1, 2], column)], ["l"])
    assert python_values(rows, pa.field("v", rows.type)) == [{"l": [value]}, {"l": [None]}]


def test_an_error_has_its_place(connection: Connection) -> None:
    with pytest.raises(SqlError) as caught:
        connection.sql("SELECT ident FROM events")
    assert caught.value.position is not None
    assert caught.value.position.column == 8
    with pytest.raises(SqlError, match="unknown column 'ident'") as caught:
        connection.sql("INSERT INTO events SELECT ident FROM events")
    assert caught.value.position is not None
    assert caught.value.position.column == 27


def test_rows_in_error_are_told(connection: Connection) -> None:
    asked = "SELECT 1 / (n - 1) AS x FROM (VALUES (0), (1), (2)) AS t (n)"
    with pytest.warns(UserWarning, match="1 row in error is left out"):
        assert len(list(connection.sql(asked))) == 2


def test_a_session_keeps_what_was_set(connection: Connection) -> None:
    made = connection.sql("CREATE TEMPORARY VIEW firsts AS SELECT n FROM events LIMIT 3")
    assert made.message == "OK"
    assert not list(made)
    assert connection.sql("SELECT * FROM firsts").to_arrow().num_rows == 3
    shown = connection.sql("SHOW VIEWS").to_arrow().to_pylist()
    assert shown == [{"view name": "firsts"}]


def test_statements_begin_with_blanks_and_comments(connection: Connection) -> None:
    """However a text is indented, it takes no time to see what it is."""
    assert [r.n for r in connection.sql("\n" + " " * 60 + "SELECT 1 AS n")] == [1]
    before = "/* INSERT */\n  -- SET\n" * 40
    assert [r.n for r in connection.sql(before + "SELECT 1 AS n")] == [1]


def test_a_comment_behind_a_setting_hides_nothing_from_a_job(connection: Connection) -> None:
    connection.topics.create("told")
    connection.submit(
        "told",
        "CREATE TABLE told (n BIGINT) WITH ('connector' = 'topic', 'topic' = 'told', 'format' = 'json')",
    )
    connection.sql("SET 'job.on-error' = 'fail' -- for all that follows")
    result = connection.sql("INSERT INTO told VALUES (1)", job="told-1")
    assert result.job is not None
    result.job.wait()
    assert [record.json() for record in connection.topics["told"].read()] == [{"n": 1}]
    connection.sql("RESET 'job.on-error'")


def test_a_query_that_nobody_reads_waits(connection: Connection) -> None:
    result = connection.sql("SELECT n FROM events")
    assert next(result).n == 0
    read = result.progress.rows_read
    assert read < ROWS
    assert sum(1 for _ in result) == ROWS - 1


def test_rows_of_one_step_wait_for_their_reader_too(tmp_path: Path) -> None:
    """However many rows one step makes, few bytes of them are in memory at once."""
    ten = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS {}(n)"
    tables = " CROSS JOIN ".join(ten.format(name) for name in "abcd")
    with connect(data=tmp_path / "data") as connection:
        result = connection.sql(f"SELECT REPEAT('x', 10000) AS v FROM {tables}")
        queries = getattr(connection, "_queries")  # noqa: B009
        (query,) = queries.running()
        eventually(lambda: query.buffer.size > BUFFERED_BYTES)
        rows = 0
        for batch in result.batches():
            assert query.buffer.size < 3 * BUFFERED_BYTES
            rows += batch.num_rows
        assert rows == 10_000
        assert none_runs(connection)


def test_a_result_that_waits_within_a_step_can_be_closed(tmp_path: Path) -> None:
    ten = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS {}(n)"
    tables = " CROSS JOIN ".join(ten.format(name) for name in "abcdef")
    with connect(data=tmp_path / "data") as connection:
        result = connection.sql(f"SELECT REPEAT('x', 10000) AS v FROM {tables}")
        next(result)
        result.close()
        assert none_runs(connection)


def test_progress_is_told_and_ctrl_c_leaves_nothing(connection: Connection) -> None:
    told: list[Progress] = []
    result = connection.sql("SELECT n FROM events", progress=told.append)
    result.to_arrow()
    assert told[-1].rows_read == ROWS
    assert told[-1].rate > 0
    assert "20,000 rows read" in str(told[-1])

    def interrupt(progress: Progress) -> None:
        if told:
            raise KeyboardInterrupt

    told.clear()
    result = connection.sql("SELECT n FROM events", follow=True, progress=told.append)
    result._told = interrupt
    result._told_at = 0
    with pytest.raises(KeyboardInterrupt):
        sum(1 for _ in result)
    assert none_runs(connection)


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_what_is_missing_is_named(
    connection: Connection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with connection.sql("SELECT n FROM events LIMIT 1") as result:
        with pytest.raises(ServiceError, match=f"to_{name}\\(\\) needs {name}") as caught:
            getattr(result, f"to_{name}")()
        assert "pip install" in str(caught.value.hint)


def test_data_frames(connection: Connection) -> None:
    asked = "SELECT n, CAST(n AS DECIMAL(5, 1)) AS d FROM (VALUES (9007199254740993), (CAST(NULL AS BIGINT))) AS t (n)"
    pytest.importorskip("pandas")
    frame = connection.sql(asked.replace("CAST(n AS DECIMAL(5, 1))", "1.5")).to_pandas()
    assert frame["n"].tolist()[0] == 9007199254740993
    assert frame["d"].tolist() == [Decimal("1.5")] * 2


def test_frames_of_polars(connection: Connection) -> None:
    pytest.importorskip("polars")
    frame = connection.sql("SELECT n, word FROM events LIMIT 2").to_polars()
    assert frame.rows() == [(0, "w0"), (1, "w1")]


def test_closing_the_connection_ends_its_statements(tmp_path: Path) -> None:
    with connect(data=tmp_path / "data") as connection:
        connection.create_topic("events")
        connection.submit("tables", EVENTS)
        result: Result = connection.sql("SELECT n FROM events", follow=True)
    assert not list(result)


def test_a_connection_that_is_closed_says_so(tmp_path: Path) -> None:
    with running(tmp_path / "server") as (service, _):
        for url in (f"http://127.0.0.1:{service.port}", None):
            with connect(url) as connection:
                assert len(list(connection.sql("SELECT 1 AS n"))) == 1
            for use in (
                lambda c: c.sql("SELECT 1 AS n"),
                lambda c: list(c.jobs),
                lambda c: c.submit("a", "SELECT 1"),
                lambda c: list(c.topics),
                lambda c: c.rules,
                lambda c: c.register_table("t", [{"n": 1}]),
            ):
                with pytest.raises(ServiceError, match="the connection is closed"):
                    use(connection)
            connection.close()


def test_ctrl_c_in_a_program_ends_its_query(connection: Connection) -> None:
    client = getattr(connection, "_client", None)
    if client is None:
        pytest.skip("it has no server")
    program = Path(__file__).parent / "interrupted_client.py"
    with subprocess.Popen(
        [sys.executable, str(program), client.server, client.token],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() != f"{ROWS - 1}\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert none_runs(connection)
        process.kill()
