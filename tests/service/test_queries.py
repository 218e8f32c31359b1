"""Ad-hoc statements on a running server: what they give, how they end, and that they leave nothing
behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlengine import connect
from sqlengine.client import ARROW_STREAM, Refused
from sqlengine.config import QueryLimits
from sqlengine.connection.pages import with_rows
from sqlengine.functions.limits import FunctionLimits
from sqlengine.functions.pool import POOL
from sqlengine.queries.giving_way import GivingWay
from sqlengine.queries.query import Budget, Query
from sqlengine.service import Service
from tests.service.harness import User, running
from tests.support import eventually

QUERIES = "/api/v1/queries"
LIMITS = QueryLimits(at_once=2, timeout_s=20, silence_s=0.5)
RISKY = """import os
from sqlengine import udf

@udf
def risky(n: int) -> int:
    if n < 0:
        os._exit(7)
    return n + 1
"""
EVENTS = "CREATE TABLE {0} (n BIGINT, word STRING) WITH ('connector' = 'topic', 'topic' = '{0}', 'format' = 'json')"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, User]]:
    folder = tmp_path_factory.mktemp("queries")
    functions = folder / "functions"
    functions.mkdir()
    (functions / "dangers.py").write_text(RISKY)
    limits = FunctionLimits(failures=1, row_s=5)
    with running(folder / "data", functions=functions, function_limits=limits, queries=LIMITS) as (
        service,
        user,
    ):
        user.prepare()
        user.topic("q", shards=2)
        user.submit("q", EVENTS.format("q"))
        for shard in (0, 1):
            rows: list[dict[str, object]] = [
                {"n": n, "word": f"w{n % 3}"} for n in range(shard, 2500, 2)
            ]
            user.write("q", *rows, shard=shard)
        yield service, user


@pytest.fixture
def asker(served: tuple[Service, User]) -> User:
    return served[1]


def pages(user: User, sql: str, **query: object) -> list[Any]:
    """All pages of a statement's result."""
    found: list[Any] = [user.client.post(QUERIES, sql.encode(), **query)]
    while found[-1]["next"] is not None:
        place = f"{QUERIES}/{found[-1]['query']}"
        found.append(user.client.get(place, page=found[-1]["next"]))
    return found


def running_queries(user: User) -> list[Any]:
    found: Any = user.client.get(QUERIES)["queries"]
    return list(found)


def ask(user: User, sql: str, **query: object) -> list[list[Any]]:
    """The rows of a statement, without their kinds."""
    return [values for page in pages(user, sql, **query) for _, values in page["rows"]]


def test_a_query_sees_the_rows_that_are_there(asker: User) -> None:
    found = pages(asker, "SELECT n, word FROM q WHERE n >= 100")
    rows = [r for page in found for r in page["rows"]]
    assert sorted(v for _, v in rows) == [[n, f"w{n % 3}"] for n in range(100, 2500)]
    assert {op for op, _ in rows} == {"+I"}
    assert found[0]["columns"] == [["n", "BIGINT"], ["word", "STRING"]]
    assert len(found) > 2, "pages are bounded"
    assert found[-1]["state"] == "finished"


def test_a_limit_ends_the_query_before_the_topics_are_read(asker: User) -> None:
    many = (
        "CREATE TEMPORARY TABLE m (a INT) WITH ('connector' = 'datagen'); SELECT * FROM m LIMIT 7"
    )
    assert len(ask(asker, many)) == 7
    assert len(ask(asker, "SELECT n FROM q LIMIT 5 OFFSET 3")) == 5
    assert ask(asker, "SELECT n FROM q ORDER BY n DESC LIMIT 2") == [[2499], [2498]]


def test_rows_that_may_change_come_when_they_are_final(asker: User) -> None:
    counted = "SELECT word, COUNT(*) FROM q GROUP BY word"
    assert sorted(ask(asker, counted)) == [["w0", 834], ["w1", 833], ["w2", 833]]
    assert ask(asker, "SELECT COUNT(*), MAX(n) FROM q WHERE n > 5000") == [[0, None]]


def test_an_option_says_where_to_begin(asker: User) -> None:
    hinted = "SELECT COUNT(*) FROM q /*+ OPTIONS('scan.startup.mode' = 'latest-offset') */"
    assert ask(asker, hinted) == [[0]]


def test_following_gives_the_changelog_with_rows_that_come_later(asker: User) -> None:
    asker.topic("followed")
    asker.submit("followed", EVENTS.format("followed"))
    asker.write("followed", {"n": 1, "word": "a"})
    page: Any = asker.client.post(
        QUERIES, b"SELECT word, COUNT(*) AS c FROM followed GROUP BY word", follow="true"
    )
    seen, place = page["rows"], f"{QUERIES}/{page['query']}"

    def until(*expected: list[object]) -> None:
        nonlocal page
        while seen != list(expected):
            assert len(seen) < len(expected), seen
            page = asker.client.get(place, page=page["next"])
            seen.extend(page["rows"])

    until(["+I", ["a", 1]])
    assert page["changes"] is True
    asker.write("followed", {"n": 2, "word": "a"})
    until(["+I", ["a", 1]], ["-U", ["a", 1]], ["+U", ["a", 2]])
    (listed,) = running_queries(asker)
    assert listed["query"] == page["query"]
    asker.client.delete(place)
    assert running_queries(asker) == []
    assert asker.refused(lambda: asker.client.get(place, page=page["next"])).status == 404


def test_a_page_can_be_asked_for_again_but_no_other(asker: User) -> None:
    first: Any = asker.client.post(QUERIES, b"SELECT n FROM q")
    place = f"{QUERIES}/{first['query']}"
    assert asker.client.get(place, page=0)["rows"] == first["rows"]
    second: Any = asker.client.get(place, page=1)
    assert asker.client.get(place, page=1)["rows"] == second["rows"] != first["rows"]
    for page in (0, 5):
        assert asker.refused(partial(asker.client.get, place, page=page)).status == 400
    asker.client.delete(place)


def test_a_query_leaves_nothing_behind(served: tuple[Service, User], tmp_path: Path) -> None:
    service, user = served

    def everything() -> object:
        listed: Any = user.client.get("/api/v1/topics")["topics"]
        topics = {t["name"]: t["end"] for t in listed}
        topics = {n: e for n, e in topics.items() if n not in ("_epochs", "_jobs")}
        graphs = sorted(p.name for p in (service.config.data / "graphs").iterdir())
        return topics, graphs, [j["name"] for j in user.jobs()], user.client.get("/api/v1/groups")

    user.write("q", b"broken")
    before = everything()
    *_, last = pages(user, "SELECT n, COUNT(*) FROM q GROUP BY n")
    assert (last["set_aside"], "broken" in last["first_error"]) == (1, True)
    prices = tmp_path / "prices.csv"
    prices.write_text("1,one\n2,two\n")
    rows = ask(
        user,
        f"""CREATE TEMPORARY TABLE prices (n BIGINT, name STRING) WITH ('connector' = 'filesystem',
            'path' = '{prices}', 'format' = 'csv',
            'lookup.full-cache.periodic-reload.interval' = '1 s');
            CREATE TEMPORARY VIEW timed AS SELECT n, PROCTIME() AS p FROM q WHERE n < 3;
            SELECT t.n, name FROM timed AS t
            JOIN prices FOR SYSTEM_TIME AS OF t.p AS x ON t.n = x.n""",
    )
    assert sorted(rows) == [[1, "one"], [2, "two"]]
    assert everything() == before
    assert not _threads()


def test_show_describe_and_explain(asker: User) -> None:
    assert ["q"] in ask(asker, "SHOW TABLES")
    assert ["all", "RUNNING"] in [[r[1], r[2]] for r in ask(asker, "SHOW JOBS")]
    assert [r[:2] for r in ask(asker, "DESCRIBE q")] == [["n", "BIGINT"], ["word", "STRING"]]
    assert "'topic' = 'q'" in ask(asker, "SHOW CREATE TABLE q")[0][0]
    assert "Scan q (topic)" in ask(asker, "EXPLAIN SELECT n FROM q")[0][0]


@pytest.mark.parametrize(
    ("sql", "status", "message", "place"),
    [
        ("SELECT m FROM q", 400, "unknown column 'm'", (1, 8)),
        ("SET 'job.state' = 'keep';\nSELEKT 1", 400, "unexpected 'SELEKT'", (2, 1)),
        ("SET 'job.on-eror' = 'fail'", 400, "unknown setting 'job.on-eror'", (1, 5)),
        ("INSERT INTO q SELECT 1, 'a'", 422, "INSERT cannot be run ad hoc", (1, 1)),
        ("CREATE TABLE x (a INT)", 422, "CREATE without TEMPORARY", (1, 1)),
        ("DROP TABLE q", 422, "DROP without TEMPORARY", (1, 1)),
        ("ALTER TABLE q RENAME TO r", 422, "ALTER cannot be run ad hoc", (1, 1)),
        ("SELECT 1; SELECT 2", 422, "only the last statement", (1, 1)),
        ("", 400, "there is no statement", (1, 1)),
    ],
)
def test_refusals_name_the_place(
    asker: User, sql: str, status: int, message: str, place: tuple[int, int]
) -> None:
    error = asker.refused(lambda: ask(asker, sql))
    assert (error.status, error.position and (error.position.line, error.position.column)) == (
        status,
        place,
    )
    assert message in error.message
    if status == 422 and "last" not in message:
        ways = {"DROP": "sql remove", "ALTE": "sql execute"}
        assert ways.get(sql[:4], "sql submit") in str(error.hint)


def test_a_query_over_a_table_without_end_needs_to_be_followed(asker: User) -> None:
    table = "CREATE TEMPORARY TABLE m (a INT) WITH ('connector' = 'datagen');"
    error = asker.refused(lambda: ask(asker, f"{table} SELECT COUNT(*) FROM m"))
    assert (error.message, "--follow" in str(error.hint)) == (
        "table 'm' has no end, and batch mode waits for it",
        True,
    )


def test_too_much_state_ends_a_query(asker: User) -> None:
    many = """CREATE TEMPORARY TABLE m (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '20000');
        SET 'memory.limit' = '10kb'; SELECT a, COUNT(*) FROM m GROUP BY a"""
    error = asker.refused(lambda: ask(asker, many))
    assert error.message.startswith("state of the query takes ")
    assert "WHERE" in str(error.hint)


def test_settings_without_effect_are_told(asker: User) -> None:
    *_, last = pages(asker, "SET 'parallelism.default' = '4'; SELECT 1")
    assert "'parallelism.default' has no effect here" in last["warnings"][0]


def test_a_client_that_pauses_finds_its_rows_again(asker: User) -> None:
    first: Any = asker.client.post(
        QUERIES, b"SELECT a.n FROM q AS a JOIN q AS b ON a.word = b.word"
    )
    time.sleep(3 * LIMITS.silence_s)
    (listed,) = running_queries(asker)
    assert listed["query"] == first["query"], "it waits until rows are read"
    place = f"{QUERIES}/{first['query']}"
    assert asker.client.get(place, page=first["next"])["rows"]
    asker.client.delete(place)


@pytest.mark.parametrize("way", ["stopped", "timeout", "silence"])
def test_a_query_that_makes_rows_without_end_ends_all_the_same(asker: User, way: str) -> None:
    many = (
        b"SELECT COUNT(*) FROM q AS a JOIN q AS b ON a.word = b.word JOIN q AS c ON c.word = b.word"
    )
    page: Any = asker.client.post(QUERIES, many, wait=0, timeout=0.7 if way == "timeout" else None)
    place = f"{QUERIES}/{page['query']}"
    if way == "stopped":
        time.sleep(0.3)
        asker.client.delete(place)
    elif way == "timeout":
        refused = eventually(
            lambda: asker.try_to(lambda: asker.client.get(place, page=0)), "its end"
        )
        assert refused.message == "the query was ended after 0.7 s"
    eventually(lambda: not running_queries(asker), "its end")
    eventually(lambda: not _threads(), "the end of its thread")


def _threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("query-")]


def test_a_session_keeps_what_is_temporary_and_sees_what_jobs_define(asker: User) -> None:
    session = asker.client.post("/api/v1/sessions")["session"]
    assert (
        pages(asker, "CREATE TEMPORARY VIEW few AS SELECT n FROM q WHERE n < 2", session=session)[
            0
        ]["message"]
        == "OK"
    )
    assert sorted(ask(asker, "SELECT * FROM few", session=session)) == [[0], [1]]
    asker.submit("later", EVENTS.format("later"))
    assert ["later"] in ask(asker, "SHOW TABLES", session=session)
    names: Any = asker.client.get("/api/v1/catalog", session=session)
    assert {"name": "few", "columns": ["n"]} in names["tables"]
    assert "UPPER" in names["functions"]
    assert "all" in names["jobs"]
    assert asker.refused(lambda: ask(asker, "SELECT * FROM few")).status == 400
    asker.client.delete(f"/api/v1/sessions/{session}")
    assert asker.refused(lambda: ask(asker, "SELECT 1", session=session)).status == 404


def test_rows_that_come_with_a_statement(asker: User) -> None:
    rows = pa.RecordBatch.from_pydict({"a": pa.array([1, 2], pa.int32())})
    text = "SELECT SUM(a) AS n FROM `rows of the client`"

    def ask(body: bytes, **query: object) -> bytes:
        return asker.client.arrow("POST", "/api/v1/queries", body, ARROW_STREAM, **query)

    with pa.ipc.open_stream(ask(with_rows(text, rows), write="true")) as answer:
        assert answer.read_all().to_pylist() == [{"n": 3}]
    without = with_rows(text, rows).replace(b"sql", b"qql")
    odd = pa.RecordBatch.from_pydict({"a": pa.array([None], pa.month_day_nano_interval())})
    for body, told, write in (
        (with_rows(text, rows), "rows are for a statement that writes", "false"),
        (b"junk", "the body is no stream of Arrow", "true"),
        (without, "has no statement", "true"),
        (with_rows("SELECT \ud800".encode("utf-8", "surrogatepass"), rows), "not UTF-8", "true"),
        (with_rows(text, odd), "which no SQL type holds", "true"),
    ):
        with pytest.raises(Refused, match=told) as refused:
            ask(body, write=write)
        assert refused.value.status == 400, told


def test_too_many_queries_are_refused(asker: User) -> None:
    def follow() -> Any:
        return asker.client.post(QUERIES, b"SELECT n FROM q WHERE n < 0", follow="true", wait=0)

    running = [follow() for _ in range(LIMITS.at_once)]
    eventually(lambda: len(running_queries(asker)) == 2, "two queries")
    refused = asker.refused(lambda: ask(asker, "SELECT 1"))
    assert (refused.status, refused.message) == (429, "2 queries run already")
    assert ask(asker, "SHOW TABLES"), "what reads no rows is not counted"
    for page in running:
        asker.client.delete(f"{QUERIES}/{page['query']}")
    eventually(lambda: asker.try_to(lambda: ask(asker, "SELECT 1")) is None, "a free place")


def test_threads_of_a_program_wait_for_each_other(served: tuple[Service, User]) -> None:
    """Two queries may run at once, and eight threads of one connection ask."""
    found: list[int] = []
    with connect(served[0].url) as connection:

        def ask(n: int) -> None:
            found.extend(row.n for row in connection.sql(f"SELECT {n} AS n FROM q LIMIT 1"))

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == list(range(8))


def test_a_query_ends_when_its_client_is_silent_or_its_time_is_over(asker: User) -> None:
    page: Any = asker.client.post(QUERIES, b"SELECT n FROM q WHERE n < 0", follow="true", wait=0)
    eventually(lambda: not running_queries(asker), "the end of a query nobody reads")
    place = f"{QUERIES}/{page['query']}"
    ended = asker.refused(lambda: asker.client.get(place, page=0))
    assert (ended.status, "nobody reads its rows" in ended.message) == (408, True)
    with pytest.raises(Refused, match=r"the query was ended after 0\.1 s"):
        ask(asker, "SELECT n FROM q WHERE n < 0", follow="true", timeout=0.1)


def test_a_function_that_fails_for_a_query_runs_on_for_its_jobs(asker: User) -> None:
    asker.submit(
        "careful",
        "CREATE FUNCTION risky AS 'dangers.risky' LANGUAGE PYTHON;"
        " INSERT INTO alerts SELECT 'careful', id FROM events WHERE risky(amount) > 0",
    )
    assert "careful" in asker.fired(amount=1)
    (host,) = (h for h in POOL.hosts() if h.pid is not None)
    worker = host.pid
    assert sorted(ask(asker, "SELECT risky(n) FROM q WHERE n < 2")) == [[1], [2]]
    *_, last = pages(asker, "SELECT risky(n - 10) FROM q WHERE n IN (0, 1)")
    assert last["set_aside"] >= 2, "the function is switched off"
    assert "careful" in asker.fired(amount=1)
    assert (asker.job("careful")["state"], host.pid) == ("running", worker)
    assert [h.pid for h in POOL.hosts() if h.pid is not None] == [worker], "its worker has ended"


def test_queries_need_the_token_and_end_with_the_server(tmp_path: Path) -> None:
    with running(tmp_path / "data", token="secret") as (service, user):
        user.topic("events")
        user.submit("tables", EVENTS.format("events"))
        user.client.post(QUERIES, b"SELECT n FROM events", follow="true", wait=0)
        stranger = User(type(user.client)(user.client.server, None))
        assert stranger.refused(lambda: stranger.client.get(QUERIES)).status == 401
        assert stranger.refused(lambda: ask(stranger, "SELECT 1")).status == 401
        service.stop()
    assert not _threads()


def test_rows_are_read_no_faster_than_allowed(tmp_path: Path) -> None:
    limits = QueryLimits(rows_per_second=1000)
    with running(tmp_path / "data", rows_per_read=200, queries=limits) as (_, user):
        user.topic("q")
        user.submit("q", EVENTS.format("q"))
        rows: list[dict[str, object]] = [{"n": n, "word": "w"} for n in range(1800)]
        user.write("q", *rows)
        began = time.monotonic()
        assert ask(user, "SELECT COUNT(*) FROM q") == [[1800]]
        assert time.monotonic() - began > 0.5, "1,000 rows at once, then 1,000 a second"


def test_queries_give_way_to_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a graph computes they have a quarter of a processor; stopped ones do not wait."""
    busy, sleep = [True], time.sleep
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", wait)
    query = Query("q", "SELECT 1", "", 0, QueryLimits(), Budget(1e9))
    rest = GivingWay(lambda: busy[0]).of(query)

    def computed(seconds: float) -> float:
        began, until = time.thread_time(), time.monotonic() + seconds
        while time.monotonic() < until:
            rest()
        return time.thread_time() - began

    began = time.monotonic()
    rest()
    spent = computed(1.0)
    # A second's worth at once, and then its part.
    assert spent < 0.25 + 0.25 * (time.monotonic() - began) + 0.1
    assert waits
    waits.clear()
    busy[0] = False
    computed(0.3)
    assert not waits, "no job works"
    busy[0] = True
    query.stop()
    computed(0.3)
    assert not waits, "it is stopped"
