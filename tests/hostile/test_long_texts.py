"""Texts that would take long or much to plan: refused by their size, or ended at their deadline,
while other changes are made."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from parser.errors import SqlError
from parser.limits import lifted, using
from planner.catalog import Catalog
from sqlengine import connect
from sqlengine.jobs.planning import JobText, PlannedJob, plan_job
from sqlengine.jobs.workers import INLINE_CHARACTERS, Planner
from sqlengine.system import deadlines
from tests.service.harness import User, rule

TABLES = """CREATE TABLE s (s STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 's', 'format' = 'json');
CREATE TABLE o (s STRING) WITH ('connector' = 'topic', 'topic' = 'o', 'format' = 'json');
"""


def views(count: int, query: str) -> str:
    """Views over each other: `query` says what each makes of the one before, which is {0}."""
    made = [f"CREATE TEMPORARY VIEW v{i} AS {query.format(f'v{i - 1}')};" for i in range(1, count)]
    return "CREATE TEMPORARY VIEW v0 AS SELECT s FROM s;\n" + "\n".join(made)


def plan(sql: str) -> PlannedJob:
    return plan_job(JobText("j", TABLES + sql), Catalog(), {})


def refused(sql: str) -> str:
    began = time.thread_time()
    with pytest.raises(SqlError) as error:
        plan(sql)
    assert time.thread_time() - began < 5
    return str(error.value)


def cube(columns: int) -> str:
    keys = ", ".join(f"n + {i}" for i in range(columns))
    return f"INSERT INTO o SELECT s FROM s GROUP BY s, CUBE({keys})"


TWICE = "SELECT s FROM {0} UNION ALL SELECT s FROM {0}"
REFUSED: dict[str, tuple[Callable[[], str], str]] = {
    "24 views of UNION ALL": (lambda: views(24, TWICE) + "INSERT INTO o SELECT * FROM v23",
        "more than 20,000 operations with its views written out ('plan-nodes')"),
    "a view that is read often": (
        lambda: views(9, TWICE) + "INSERT INTO o " + " UNION ALL ".join(["SELECT s FROM v8"] * 200),
        "'plan-nodes'"),
    "views of joins": (
        lambda: views(24, "SELECT a.s FROM {0} a JOIN {0} b ON a.s = b.s"), "'plan-nodes'"),
    "common tables that are read twice": (
        lambda: "INSERT INTO o WITH v0 AS (SELECT n FROM s)" + "".join(
            f", v{i} AS (SELECT n FROM v{i - 1} WHERE n > (SELECT MAX(n) FROM v{i - 1}))"
            for i in range(1, 30)
        ) + " SELECT CAST(n AS STRING) FROM v29", "'plan-nodes'"),
    "sets of grouping": (lambda: cube(30), "GROUP BY names 1073741824 sets, more than 4096"),
    "more sets of grouping": (lambda: cube(9_000), "GROUP BY names sets without number"),
    "columns": (lambda: "CREATE VIEW v AS SELECT " + "1," * 50_000 + "1 FROM s",
        "SELECT has more than 10,000 columns ('select-columns')"),
    "a statement of 15 MB": (lambda: "CREATE VIEW v AS SELECT " + "1," * 7_500_000 + "1 FROM s",
        "at most 1,048,576 are allowed ('statement-size')"),
    "a text of 20 MB": (lambda: "SET 'a' = 'b';" * 1_500_000,
        "the text has 21,000,"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_too_large_is_refused_by_its_size(name: str) -> None:
    text, reason = REFUSED[name]
    assert reason in refused(text())


def test_an_expression_that_is_read_twice_at_each_level() -> None:
    """Forty views of s || s stay forty projections: nothing is written out."""
    chain = views(40, "SELECT s || s AS s FROM {0}")
    assert plan(chain + "INSERT INTO o SELECT s FROM v39").sinks
    assert plan(chain + "INSERT INTO o SELECT s FROM v39 WHERE s || s LIKE 'a%'").sinks
    with using(expression_nodes=5):
        assert "'expression-nodes'" in refused("INSERT INTO o SELECT s || s || s || s || s FROM s")


def test_names_that_are_given_often_take_no_quadratic_time() -> None:
    began = time.process_time()
    with using(select_columns=50_000):
        assert plan("CREATE VIEW v AS SELECT " + "1," * 9_999 + "1 FROM s").objects
    assert time.process_time() - began < 5


def test_views_are_not_read_again_for_each_object_beside_them() -> None:
    numbers = ", ".join(map(str, range(500)))
    view = "CREATE TEMPORARY VIEW v{} AS SELECT 1 AS a FROM (VALUES (1)) AS t(n) WHERE n IN ({})"
    table = "CREATE TEMPORARY TABLE t{} (a INT) WITH ('connector' = 'blackhole')"
    with connect() as connection:
        connection.sql(";".join(view.format(n, numbers) for n in range(50)))
        began = time.process_time()
        connection.sql(";".join(table.format(n) for n in range(100)))
        assert time.process_time() - began < 5


def test_what_was_accepted_is_planned_under_any_limits() -> None:
    with using(statement_size=10, plan_nodes=1, select_columns=1), lifted():
        assert plan("INSERT INTO o SELECT s FROM s WHERE n > 1").sinks


def test_planning_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "INSERT INTO o SELECT s FROM s WHERE " + " OR ".join(f"n = {i}" for i in range(50_000))
    monkeypatch.setattr(deadlines, "_INTERVAL_S", 0.05)
    with using(planning_time=1):
        began = time.thread_time()
        with pytest.raises(SqlError) as error:
            plan(long)
        assert time.thread_time() - began < 4
        assert "planning took more than 1 s ('planning-time')" in str(error.value)
        # And the thread is as before.
        assert plan("INSERT INTO o SELECT s FROM s").sinks
        assert len(TABLES + long) > INLINE_CHARACTERS
        (planned,) = Planner({}).plan([JobText("j", TABLES + long)], Catalog())
    assert isinstance(planned, SqlError)
    assert "'planning-time'" in str(planned)


def test_other_changes_are_made_while_a_long_text_is_planned(user: User) -> None:
    where = " OR ".join(f"word LIKE '%a{i}b%'" for i in range(30_000))
    with using(planning_time=1), ThreadPoolExecutor(1) as threads:
        hostile = threads.submit(lambda: user.try_to(lambda: user.submit("h", rule("h", where))))
        durations: list[float] = []
        while not hostile.done():
            began = time.monotonic()
            user.submit("quick", rule("quick", f"amount = {len(durations)}"))
            durations.append(time.monotonic() - began)
            time.sleep(0.02)
        assert user.fired(amount=len(durations) - 1) == {"quick"}
    assert len(durations) > 3
    assert sorted(durations)[len(durations) // 2] < 1
