"""Tables and functions of Python objects: on a server and on an engine in this process."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pytest

from sqlengine import Connection, JobError, ServiceError, async_udf, connect, udaf, udf
from sqlengine.connection.functions import module_source
from tests.service.harness import running
from tests.support import eventually


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with connect(data=tmp_path_factory.mktemp("local") / "data") as connection:
        yield connection


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with (
        running(tmp_path_factory.mktemp("remote") / "data", token="secret", uploads=True) as (s, _),
        connect(f"http://127.0.0.1:{s.port}", token="secret") as connection,
    ):
        yield connection


@pytest.fixture(params=["local", "remote"])
def connection(request: pytest.FixtureRequest) -> Connection:
    found: Connection = request.getfixturevalue(request.param)
    return found


@dataclass
class Event:
    id: int
    ts: dt.datetime
    word: str | None = None


class Point(NamedTuple):
    x: float
    tags: list[str]


START = dt.datetime(2026, 1, 2)


def events(count: int) -> Iterator[Event]:
    for n in range(count):
        yield Event(n, START + dt.timedelta(minutes=n), f"w{n % 2}")


def test_a_table_of_arrow_keeps_all_types(connection: Connection) -> None:
    day = dt.date(2026, 1, 2)
    table = pa.table(
        {
            "i": pa.array([1, None], pa.int16()),
            "u": pa.array([2**32 - 1, 0], pa.uint32()),
            "s": pa.array(["a", "b"]).dictionary_encode(),
            "d": pa.array([Decimal("1.20"), None], pa.decimal128(9, 2)),
            "t": pa.array([START, None], pa.timestamp("us")),
            "z": pa.array([START, None], pa.timestamp("ms", "Europe/Berlin")),
            "day": [day, None],
            "l": [[1, 2], None],
            "r": [{"x": 1.5}, None],
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
            "b": [b"\x00", None],
        }
    )
    feed = connection.register_table("typed", table)
    assert feed.wait(10)
    result = connection.sql("SELECT * FROM typed")
    assert list(result.types.values()) == [
        *("SMALLINT", "BIGINT", "STRING", "DECIMAL(9, 2)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)"),
        *("DATE", "ARRAY<BIGINT>", "ROW<`x` DOUBLE>", "MAP<STRING, INT>", "BYTES"),
    ]
    first, second = result
    utc = START.replace(tzinfo=dt.UTC)
    assert first == (
        *(1, 2**32 - 1, "a", Decimal("1.20"), START, utc),
        *(day, [1, 2], {"x": 1.5}, {"k": 1}, b"\x00"),
    )
    assert second == (None, 0, "b", *[None] * 8)


def test_lists_of_mappings_and_named_tuples(connection: Connection) -> None:
    connection.register_table("pairs", [{"a": 1, "b": "x"}, {"a": 2}])
    assert [tuple(r) for r in connection.sql("SELECT * FROM pairs")] == [(1, "x"), (2, None)]
    connection.register_table("points", [Point(1.5, ["p"])])
    assert list(connection.sql("SELECT tags[1] AS tag FROM points").dicts()) == [{"tag": "p"}]


def test_a_generator_with_event_time(connection: Connection) -> None:
    late = dt.timedelta(minutes=1, milliseconds=500)
    feed = connection.register_table("timed", events(130), event_time="ts", watermark=late)
    assert feed.wait(20)
    assert (feed.rows, feed.ended) == (130, True)
    windows = connection.sql("""SELECT window_start, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(rowtime), INTERVAL '1' HOUR))
        GROUP BY window_start, window_end""")
    assert [row.n for row in windows] == [60, 60, 10]
    with connection.sql("SELECT id FROM timed", follow=True) as rows:
        assert [next(rows).id for _ in range(130)][-1] == 129
        assert rows.progress.watermark is not None


def test_jobs_read_what_an_endless_generator_gives(connection: Connection) -> None:
    async def numbers() -> AsyncIterator[Mapping[str, object]]:
        n = 0
        while True:
            yield {"n": n}
            n += 1

    feed = connection.register_table("numbers", numbers(), schema={"n": "BIGINT"})
    connection.submit(
        "evens",
        """CREATE TEMPORARY TABLE evens (n BIGINT)
        WITH ('connector' = 'topic', 'topic' = 'evens', 'format' = 'json');
        INSERT INTO evens SELECT n FROM numbers WHERE MOD(n, 2) = 0""",
    )
    assert eventually(lambda: connection.read("evens"))[0].value == b'{"n":0}'
    feed.close()
    assert feed.ended
    rows = feed.rows
    assert rows > 0
    connection.remove("evens")
    connection.unregister_table("numbers")
    assert connection.sql("SHOW TABLES LIKE 'numbers'").to_arrow().num_rows == 0


def test_a_stream_of_arrow(connection: Connection) -> None:
    schema = pa.schema({"n": pa.int64()})
    batches = (pa.record_batch({"n": [n, n]}) for n in range(3))
    feed = connection.register_table("arrows", pa.RecordBatchReader.from_batches(schema, batches))
    assert feed.wait(10)
    assert [row.n for row in connection.sql("SELECT * FROM arrows")] == [0, 0, 1, 1, 2, 2]


def test_a_row_that_does_not_fit_ends_the_feed(connection: Connection) -> None:
    rows = iter([{"n": 1}, {"n": "two"}])
    feed = connection.register_table("bad", rows)
    with pytest.raises(ServiceError, match="row 2: 'n' is 'two', which is no BIGINT"):
        feed.wait(10)

    def failing() -> Iterator[dict[str, object]]:
        yield {"n": 1}
        raise OSError("no network")

    feed = connection.register_table("failing", failing)
    with pytest.raises(OSError, match="no network"):
        feed.wait(10)
    assert connection.sql("SELECT * FROM failing").to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (5, "a table cannot be made of 'int'"),
        ([], "there is no row"),
        ([{"a": None}], "the type of column 'a' is not known from None"),
        ([(1, 2)], "a row is a mapping"),
        (pa.table({"a": pa.nulls(1)}), "column 'a' is null, which no SQL type holds"),
        (pa.table([[1], [2]], names=["a", "a"]), "two columns are called 'a'"),
        (pa.table([[1]], names=[""]), "a column has no name"),
        (pd.DataFrame({"a": [1, "x"]}), "table 'x' cannot be made of a DataFrame"),
        (print, "the columns of table 'x' are not known"),
    ],
)
def test_what_can_be_no_table_is_said(local: Connection, rows: object, message: str) -> None:
    with pytest.raises(ServiceError, match=re.escape(message)):
        local.register_table("x", rows)


def test_a_type_that_is_said_is_not_looked_for(local: Connection) -> None:
    local.register_table("said", pa.table({"a": pa.nulls(1), "b": [1]}), schema={"a": "STRING"})
    assert local.sql("SELECT * FROM said").types == {"a": "STRING", "b": "BIGINT"}


def test_wrong_arguments_are_said(local: Connection) -> None:
    wrong: Any = 5
    with pytest.raises(
        ServiceError, match="'watermark' is a time by which events come late, not 5"
    ):
        local.register_table("late", [Event(1, START)], event_time="ts", watermark=wrong)
    with pytest.raises(ServiceError, match="a sink is a function that takes record batches"):
        local.register_sink("wrong", wrong, {"a": "INT"})


def test_a_topic_that_exists_takes_rows_only_when_told(connection: Connection) -> None:
    connection.create_topic("earlier")
    connection.write("earlier", [{"n": 1}])
    with pytest.raises(ServiceError, match="topic 'earlier' exists already") as caught:
        connection.register_table("earlier", iter([{"n": 2}]))
    assert "append=True" in str(caught.value.hint)
    connection.register_table("earlier", iter([{"n": 2}]), append=True).wait(10)
    assert [row.n for row in connection.sql("SELECT * FROM earlier")] == [1, 2]


def test_a_function_takes_rows(local: Connection, remote: Connection) -> None:
    taken: list[pa.RecordBatch] = []
    local.register_table("given", [{"id": 1}, {"id": 2}])
    local.register_sink("taken", taken.append, {"id": "BIGINT"})
    local.submit("take", "INSERT INTO taken SELECT id FROM given")
    eventually(lambda: taken)
    assert taken[0].to_pylist() == [{"op": "+I", "id": 1}, {"op": "+I", "id": 2}]
    local.remove("take")
    with pytest.raises(ServiceError, match="a server cannot give the rows of table 'taken'"):
        remote.register_table("taken", taken.append, schema={"id": "BIGINT"})


PREFIX = "<"


def marked(text: str) -> str:
    return PREFIX + text


def shout(text: str) -> str:
    return re.sub(r"\W", "", marked(text.upper())) + "!"


@udf
def half(n: int) -> Decimal:
    return Decimal(n) / 2


@udaf
class Longest:
    def create_accumulator(self) -> list[str]:
        return [""]

    def accumulate(self, acc: list[str], text: str) -> None:
        acc[0] = max(acc[0], text, key=len)

    def get_value(self, acc: list[str]) -> str:
        return marked(acc[0])


@async_udf(concurrency=2)
async def later(n: int) -> int:
    await asyncio.sleep(0)
    return n + 1


def test_functions_of_a_program(connection: Connection) -> None:
    connection.register_function(later)
    assert [row.n for row in connection.sql("SELECT later(2) AS n")] == [3]
    connection.register_function(shout)
    connection.register_function(half, "a_half")
    connection.register_function(Longest, "longest")
    (row,) = connection.sql("SELECT longest(w) FROM (VALUES ('a'), ('bcd')) AS t (w)")
    assert row == ("<bcd",)
    (row,) = connection.sql("SELECT shout('a-b'), CAST(a_half(3) AS DOUBLE)")
    assert row == ("AB!", 1.5)


def test_what_cannot_be_sent_is_said() -> None:
    with pytest.raises(ServiceError, match="is no function of its own"):
        module_source(lambda x: x)
    with pytest.raises(ServiceError, match="the source of function 'len' is not known"):
        module_source(len)

    def around(factor: int) -> object:
        def times(n: int) -> int:
            return n * factor

        return times

    with pytest.raises(ServiceError, match="uses 'factor' of the function around it"):
        module_source(around(2))  # type: ignore[arg-type]


def test_a_table_that_was_renamed_keeps_its_feed(connection: Connection) -> None:
    """A new table of the old name has another one."""

    def numbers() -> Iterator[Mapping[str, object]]:
        yield {"n": 1}
        waits.wait(30)

    waits = threading.Event()
    feed = connection.register_table("fed", numbers(), schema={"n": "BIGINT"})
    connection.sql("ALTER TABLE fed RENAME TO fed_later")
    other = connection.register_table("fed", numbers(), schema={"n": "BIGINT"}, append=True)
    connection.unregister_table("fed_later")
    assert (feed.ended, other.ended) == (True, False)
    connection.unregister_table("fed")
    assert other.ended
    waits.set()


def test_a_table_that_was_renamed_keeps_its_job(connection: Connection) -> None:
    """A new table of the old name is another job, with rows of its own."""
    for given in ([{"a": 1}], iter([{"a": 1}])):
        connection.register_table("first", given).wait()
        connection.sql("ALTER TABLE first RENAME TO later")
        with pytest.raises(JobError, match="table 'first' is not one that was registered"):
            connection.unregister_table("first")
        is_topic = "first" in list(connection.topics)
        connection.register_table("first", [{"b": "x"}], append=is_topic).wait()
        assert [tuple(r) for r in connection.sql("SELECT a FROM later WHERE a IS NOT NULL")] == [
            (1,)
        ]
        found = connection.sql("SELECT b FROM first WHERE b IS NOT NULL")
        assert [tuple(r) for r in found] == [("x",)]
        connection.register_table("first", [{"b": "y"}], append=is_topic).wait()
        assert ("y",) in [tuple(r) for r in connection.sql("SELECT b FROM first")]
        tables = {"table.first", "table.first-2"}
        assert {j.name for j in connection.jobs if j.name.startswith("table.first")} == tables
        connection.unregister_table("later")
        connection.unregister_table("first")
        assert not tables & {job.name for job in connection.jobs}
        if is_topic:
            connection.topics["first"].delete()
