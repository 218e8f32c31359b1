"""Python code as the sink of a table: what it is given, whose fault it is, what comes again after a
crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from parser.errors import SqlError
from sqlengine.config import Config, Target
from sqlengine.connectors.environment import Callables
from sqlengine.engine import Engine
from sqlengine.jobs.job import JobState
from sqlengine.machine import THIS, Machine
from tests.support import eventually

MODULE = '''
import pathlib

import pyarrow as pa

from sqlengine import sink, udf

OUT = pathlib.Path(__file__)


def note(*values):
    with open("FOLDER/out.txt", "a") as file:
        print(*values, file=file)


@sink
def page(rule: str, host: str | None):
    """Tells somebody."""
    if rule == "bad":
        raise ValueError("nobody is there")
    note(rule, host)


@sink
def follow(op: str, host: str, n: int):
    note(op, host, n)


@sink(vectorized=True, input_types=["STRING", "STRING"])
def store(rules: pa.Array, hosts: pa.Array):
    note(rules.to_pylist(), hosts.to_pylist())


@udf
def plain(x: str) -> str:
    return x
'''
EVENTS = """CREATE TABLE events (rule STRING, host STRING) WITH ('connector' = 'topic', 'topic' = 'events',
  'format' = 'json', 'scan.startup.mode' = 'earliest-offset');"""


def functions(*names: str) -> str:
    return "".join(f"CREATE TEMPORARY FUNCTION {n} AS 'pager.{n}' LANGUAGE PYTHON;" for n in names)


def table(columns: str, name: str, what: str = "function") -> str:
    return (
        f"CREATE TEMPORARY TABLE target ({columns}) WITH ('connector' = 'python', '{what}' ="
        f" '{name}');"
    )


class Life:
    """An engine that a test may kill."""

    def __init__(self, folder: Path, target: Target = "embedded", machine: Machine = THIS) -> None:
        self.folder = folder
        self.target = target
        self.machine = machine
        self.out = folder / "out.txt"
        (folder / "functions").mkdir()
        (folder / "functions" / "pager.py").write_text(MODULE.replace("FOLDER", str(folder)))
        self.engine = self.opened()

    def opened(self, callables: Callables | None = None) -> Engine:
        config = Config(
            data=self.folder / "data",
            functions=self.folder / "functions",
            checkpoint_ms=1 << 40,
            target=self.target,
        )
        self.engine = Engine(config, self.machine, callables=callables or {})
        self.engine.start()
        return self.engine

    def tell(self, *rows: tuple[str, str | None]) -> None:
        lines = [json.dumps({"rule": rule, "host": host}).encode() for rule, host in rows]
        self.engine.broker.append("events", 0, lines, timestamp_ms=0)

    def lines(self) -> list[str]:
        return self.out.read_text().splitlines() if self.out.exists() else []


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path)
    life.engine.broker.create_topic("events")
    life.engine.submit("tables", EVENTS)
    yield life
    life.engine.close()


def test_a_function_is_given_all_rows_in_order(life: Life) -> None:
    sql = functions("page", "store") + table("rule STRING, host STRING", "page")
    life.engine.submit("paging", sql + "INSERT INTO target SELECT rule, host FROM events")
    life.tell(("a", "h1"), ("b", None))
    life.tell(("c", "h2"))
    eventually(lambda: life.lines() == ["a h1", "b None", "c h2"])


def test_columns_come_whole_and_kinds_of_rows_are_told(life: Life) -> None:
    life.tell(("a", "h1"), ("b", None))
    sql = functions("store") + table("rule STRING, host STRING", "store")
    life.engine.submit("storing", sql + "INSERT INTO target SELECT rule, host FROM events")
    eventually(lambda: life.lines() == ["['a', 'b'] ['h1', None]"])
    sql = functions("follow") + table("host STRING, n BIGINT", "follow")
    query = "INSERT INTO target SELECT host, COUNT(*) FROM events WHERE host = 'h1' GROUP BY host"
    life.engine.submit("following", sql + query)
    eventually(lambda: life.lines()[1:] == ["+I h1 1"])
    life.tell(("c", "h1"))
    wanted = ["+I h1 1", "-U h1 1", "+U h1 2"]
    eventually(lambda: [line for line in life.lines() if line[0] in "+-"] == wanted, life.lines)


def test_what_a_function_refuses_fails_its_job_alone(life: Life) -> None:
    sql = functions("page") + table("rule STRING, host STRING", "page")
    life.engine.submit("paging", sql + "INSERT INTO target SELECT rule, host FROM events")
    life.engine.submit("other", sql + "INSERT INTO target SELECT rule || '!', host FROM events")
    life.tell(("a", "h1"), ("bad", "h2"), ("c", "h3"))
    eventually(lambda: life.engine.job("paging").state is JobState.RESTARTING)
    reason = life.engine.job("paging").reason or ""
    assert "function 'pager.page' did not take the rows of table 'target'" in reason
    assert "ValueError: nobody is there" in reason
    life.tell(("d", "h4"))
    eventually(lambda: "d! h4" in life.lines())
    assert life.engine.job("other").state is JobState.RUNNING
    assert "a h1" in life.lines()
    assert "c h3" not in life.lines()


def test_a_program_gives_callables(life: Life) -> None:
    life.engine.close()
    taken: list[pa.RecordBatch] = []
    life.opened({"mine": taken.append})
    sql = table("host STRING, n BIGINT", "mine", "callable")
    life.engine.submit(
        "counts", sql + "INSERT INTO target SELECT host, COUNT(*) FROM events GROUP BY host"
    )
    life.tell(("a", "h1"))
    eventually(lambda: [b.to_pylist() for b in taken] == [[{"op": "+I", "host": "h1", "n": 1}]])
    with pytest.raises(SqlError, match="there is no callable 'other'"):
        life.engine.submit(
            "more",
            table("host STRING", "other", "callable")
            + "INSERT INTO target SELECT host FROM events",
        )


def test_rows_come_again_after_a_crash(life: Life) -> None:
    """No checkpoint was made: all epochs are repeated."""
    sql = functions("page") + table("rule STRING, host STRING", "page")
    life.engine.submit("paging", sql + "INSERT INTO target SELECT rule, host FROM events")
    life.tell(("a", "h1"))
    eventually(lambda: life.lines() == ["a h1"])
    life.engine.graph.loop.stop()
    life.engine.graph.runner.broken = True  # nothing is saved: as if it had died
    life.engine.close()
    life.opened()
    eventually(lambda: life.lines() == ["a h1", "a h1"])


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (table("rule STRING", "nothing"), "function 'nothing' of table 'target' does not exist"),
        (
            functions("plain") + table("rule STRING", "plain"),
            "function 'plain' of table 'target' is no sink",
        ),
        (functions("page") + table("rule STRING, host INT", "page"), "do not fit function 'page'"),
        (functions("page") + table("rule STRING", "page"), "do not fit function 'page'"),
        (
            functions("page") + "INSERT INTO target SELECT page(rule, host), '' FROM events",
            "'page' is a sink",
        ),
        (
            functions("page")
            + table("rule STRING, host STRING", "page")
            + "INSERT INTO target SELECT rule, MAX(host) FROM events GROUP BY rule",
            "target",
        ),
    ],
)
def test_what_does_not_fit_is_refused(life: Life, sql: str, said: str) -> None:
    first = (
        ""
        if "CREATE TEMPORARY TABLE" in sql
        else "CREATE TEMPORARY TABLE target (a STRING, b STRING) WITH ('connector' = 'blackhole');"
    )
    with pytest.raises(SqlError, match=said):
        life.engine.submit("bad", first + sql)
