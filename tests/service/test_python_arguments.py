"""Arguments of all kinds: what is wrong is said at once, and nothing is done of it."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from sqlengine import Connection, PlanError, ServiceError, connect
from tests.support import ROOT


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
    with connect() as connection:
        connection.register_table("items", [{"a": 1}, {"a": 2}])
        connection.create_topic("t")
        yield connection


CALLS: list[tuple[str, Callable[[Any], object]]] = [
    ("a statement is a text, not None", lambda c: c.sql(None)),
    ("'progress' is True or a function", lambda c: c.sql("SELECT 1", progress=5)),
    ("a job is a text, not 5", lambda c: c.submit("j", 5)),
    ("the name of a job is a text, not 5", lambda c: c.jobs.validate(5, "SELECT 1")),
    ("the name of a table is a text, not 5", lambda c: c.register_table(5, [{"a": 1}])),
    ("the name of a table is a text, not None", lambda c: c.source(None)),
    ("a table cannot be made of 'dict'", lambda c: c.register_table("n", {"a": [1, 2]})),
    ("a table cannot be made of 'str'", lambda c: c.register_table("n", "abc")),
    ("a schema is a mapping", lambda c: c.register_table("n", [{"a": 1}], schema="a INT")),
    ("'a' of a schema has the type int", lambda c: c.register_table("n", [], schema={"a": int})),
    ("a schema is a mapping", lambda c: c.register_sink("n", print, ["a"])),
    ("records come as a list, not as one str", lambda c: c.topics["t"].write("abc")),
    ("records come as a list, not as one dict", lambda c: c.write("t", {"a": 1})),
    ("a record is bytes, text or a mapping, not 5", lambda c: c.write("t", [5])),
    ("a text of SQL or a function, not 5", lambda c: c.source("items").filter(5)),
    ("an aggregate is a text, not 5", lambda c: c.source("items").aggregate(n=5)),
    ("a key is a text, not 5", lambda c: c.source("items").key_by(5)),
    ("process takes the class", lambda c: c.source("items").key_by("a").process(print)),
    ("a window is tumble", lambda c: c.source("items").window(5)),
    ("a stream is joined with one of its own", lambda c: c.source("items").join(5, on="a")),
    ("the address of a server is a text, not 5", lambda c: connect(5)),  # type: ignore[arg-type]
    ("a token is a text, not 5", lambda c: connect("x", token=5)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("said", "call"), CALLS)
def test_a_wrong_argument_is_named(
    local: Connection, said: str, call: Callable[[Connection], object]
) -> None:
    with pytest.raises(ServiceError, match=said):
        call(local)
    assert local.read("t") == []


def half(a: int) -> int:
    return a // 2


def test_a_function_of_one_value_gives_no_rows(local: Connection) -> None:
    with pytest.raises(PlanError, match="'half' is no table function: it gives no rows"):
        local.source("items").flat_map(half).run()


def test_python_shows_the_remedy(local: Connection) -> None:
    with pytest.raises(ServiceError) as error:
        local.register_table("n", {"a": [1, 2]})
    error.value.add_note("in this test")
    assert traceback.format_exception_only(error.value)[1:] == [
        "hint: columns become a table with pyarrow.table(…), one row is [row]\n",
        "in this test\n",
    ]


def test_what_is_shown_of_objects(local: Connection) -> None:
    assert repr(local).startswith("connect(data='")
    assert repr(connect("127.0.0.1:1")) == "connect('http://127.0.0.1:1')"
    assert (
        repr(local.sql("SELECT 1 AS n, 'x' AS s")) == "Result(n INT NOT NULL, s CHAR(1) NOT NULL)"
    )
    assert repr(local.sql("SET 'pipeline.name' = 'c'")) == "Result(OK)"
    feed = local.register_table("two", iter([{"a": 1}, {"a": 2}]))
    feed.wait()
    assert repr(feed) == "Feed('two', rows=2, ended=True)"


def test_rows_can_be_sent_to_other_processes(local: Connection) -> None:
    (row,) = local.sql("SELECT 1 AS n, 2 AS `no name`")
    found = pickle.loads(pickle.dumps(row))
    assert (found, found.n, found.kind) == (row, 1, "+I")


def test_all_rows_are_aggregated_without_a_key(local: Connection) -> None:
    (row,) = local.source("items").aggregate(n="COUNT(*)", most="MAX(a)").run()
    assert (row.n, row.most) == (2, 2)


@pytest.mark.slow
def test_a_process_that_was_forked_takes_nothing_along() -> None:
    """Its end does not delete the data of the one that goes on."""
    program = """
import os, sys, sqlengine
with sqlengine.connect() as connection:
    if os.fork() == 0:
        try:
            connection.sql("SELECT 1")
        except sqlengine.ServiceError as error:
            print(error.message, flush=True)
        sys.exit()
    os.wait()
    connection.create_topic("t")
    print(connection.topics["t"].write(["x"]))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    said = run.stdout.splitlines()
    assert said[1:] == ["0"], run.stderr
    assert re.fullmatch(r"the engine runs in process \d+, of which this is a fork", said[0])


def test_a_job_whose_rows_are_not_written_is_waited_for(local: Connection) -> None:
    """Not so before: what it had read counted as written."""
    taken: list[int] = []

    def take(batch: pa.RecordBatch) -> None:
        if not taken:
            taken.append(0)
            raise RuntimeError("not now")
        taken.append(batch.num_rows)

    local.register_sink("once", take, {"a": "BIGINT"})
    local.submit("tried", "INSERT INTO once SELECT a FROM items")
    assert not local.jobs["tried"].wait(0.2)
    assert local.jobs["tried"].wait(10)
    assert taken == [0, 2]
