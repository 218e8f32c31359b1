"""Versions of tables that are held as a whole: what is shared, what stays after a failure or a
restart, and from which tables they can be made."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parser.errors import JobError, SqlError
from sqlengine.dimensions.columns import ColumnWriter
from sqlengine.engine.dead_letters import DeadLetterFilter
from sqlengine.metrics import render
from sqlengine.system.lanes import get_on
from tests.engine.by_hand import die, step
from tests.recovery.test_reloaded_files import JOB, Life

HELD = "'lookup.cache' = 'FULL'"
ORDERS = """
CREATE TEMPORARY TABLE o (id INT, p AS PROCTIME()) WITH ('connector' = 'topic', 'topic' = 'o', 'format' = 'json');
CREATE TEMPORARY TABLE told (id INT, name STRING) WITH ('connector' = 'topic', 'topic' = '{out}', 'format' = 'json');
"""
CSV = """
CREATE TEMPORARY TABLE dim (id INT, name STRING, w INT)
WITH ('connector' = 'filesystem', 'path' = '{folder}/dim.csv', 'format' = 'csv', 'lookup.cache' = 'FULL');
CREATE TEMPORARY VIEW heavy AS SELECT id AS k, UPPER(name) AS n FROM dim WHERE w > 2;
"""
JOIN = "FROM o {kind} JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON"


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path)
    yield life
    die(life.engine)


def submit(life: Life, job: str, table: str, query: str, out: str = "out") -> None:
    text = ORDERS.format(out=out) + table.format(folder=life.folder)
    life.engine.submit(job, f"{text} INSERT INTO told {query}")


def run(life: Life, *ids: int) -> None:
    step(life.engine)
    life.feed(*ids)
    step(life.engine)


def by_id(life: Life, topic: str) -> list[Sequence[object]]:
    return sorted(life.out(topic), key=lambda row: str(row[0]))


def contents(life: Life) -> list[Path]:
    return [f for f in (life.folder / "data/dimensions/rows").glob("*/*") if f.is_dir()]


# Conditions and filters over one table of three rows, with what rows 1 to 4 get.
ROWS = ("1,one,5", "2,two,1", "2,zwei,9", "3,drei,7")
QUERIES = {
    "another key": (
        "SELECT o.id, d.name {inner} o.id = d.w",
        [(1, "two")],
    ),
    "two keys": (
        "SELECT o.id, d.name {left} d.id = o.id AND d.w = o.id + 4",
        [(1, "one"), (2, None), (3, "drei"), (4, None)],
    ),
    "condition over both": (
        "SELECT o.id, d.name {left} o.id = d.id AND d.w > o.id",
        [(1, "one"), (2, "zwei"), (3, "drei"), (4, None)],
    ),
    "computed key": (
        "SELECT o.id, d.name {inner} 'T' || CAST(o.id AS STRING) = UPPER(SUBSTRING(d.name, 1, 1)) || '2'",
        [(2, "two")],
    ),
    "computed and typed otherwise": (
        "SELECT o.id, d.name {inner} CAST(o.id AS STRING) = CAST(d.id AS STRING)",
        [(1, "one"), (2, "two"), (2, "zwei"), (3, "drei")],
    ),
    "constant": (
        "SELECT o.id, d.name {inner} d.name = 'one' AND o.id > d.id",
        [(2, "one"), (3, "one"), (4, "one")],
    ),
    "view": (
        "SELECT o.id, d.n FROM o JOIN heavy FOR SYSTEM_TIME AS OF o.p AS d ON o.id = d.k",
        [(1, "ONE"), (2, "ZWEI"), (3, "DREI")],
    ),
}


def test_jobs_look_up_by_what_they_compare_and_share_the_rows(life: Life) -> None:
    life.write(*ROWS)
    joins = {k: JOIN.format(kind=k.upper()) for k in ("inner", "left")}
    wanted = {}
    for number, (query, rows) in enumerate(QUERIES.values()):
        life.engine.broker.create_topic(f"out{number}")
        submit(life, f"job{number}", CSV, query.format(**joins), f"out{number}")
        wanted[f"out{number}"] = rows
    run(life, 1, 2, 3, 4)
    # In tasks rows of different keys come in no order, those of one as they are in the table.
    assert {name: by_id(life, name) for name in wanted} == wanted
    # The rows of the table as it is are there once, with an index for each way; those of two
    # computed keys and of the view are rows of their own.
    (plain,) = (f for f in contents(life) if len(list(f.glob("column*"))) == 3
                and len(list(f.glob("index*"))) > 1)  # fmt: skip
    assert len(list(plain.glob("index*"))) == 4
    assert len(contents(life)) == 4


def test_a_job_that_comes_later_looks_up_in_the_same_rows(life: Life) -> None:
    life.write(*ROWS)
    query = f"SELECT o.id, d.name {JOIN.format(kind='')} o.id = d.id"
    submit(life, "first", CSV, query)
    run(life, 1)
    submit(life, "later", CSV, query.replace("d.name", "UPPER(d.name)"), "late")
    run(life, 1)
    life.engine.isolate("later")
    run(life, 2)
    assert life.out() == [(1, "one"), (1, "one"), (2, "two"), (2, "zwei")]
    assert life.out("late") == [(1, "ONE"), (2, "TWO"), (2, "ZWEI")]
    assert len(contents(life)) == 1
    versions = (life.folder / "data/dimensions/sources").glob("*/*/column-0.arrow")
    assert len({file.stat().st_ino for file in versions}) == 1


def test_a_restart_reads_nothing_again(life: Life) -> None:
    life.write(*ROWS)
    submit(life, "job", CSV, f"SELECT o.id, d.name {JOIN.format(kind='')} o.id = d.id")
    run(life, 1)
    (life.folder / "dim.csv").unlink()
    life.again()
    run(life, 1)
    assert life.out() == [(1, "one")] * 2


def test_a_table_is_read_again_on_command(life: Life) -> None:
    life.write("1,one,1")
    submit(life, "job", CSV, f"SELECT o.id, d.name {JOIN.format(kind='')} o.id = d.id")
    run(life, 1)
    life.write("1,eins,1")
    run(life, 1)
    assert life.engine.reload_lookups("job") == ["dim"]
    run(life, 1)
    assert life.out() == [(1, "one"), (1, "one"), (1, "eins")]
    with pytest.raises(JobError):
        life.engine.reload_lookups("nobody")


def test_the_last_version_stays_where_a_newer_one_cannot_be_read(life: Life) -> None:
    life.write("1,one")
    life.engine.submit("job", JOB.format(folder=life.folder, key=""))
    run(life, 1)
    (life.folder / "dim.csv").unlink()
    for _ in range(2):
        life.now += 10
        run(life, 1)
    (lookup,) = life.engine.progress.of(life.engine.job("job")).lookups
    assert (lookup.table, lookup.rows, lookup.failures > 1) == ("dim", 1, True)
    assert "dim.csv" in lookup.error
    metrics = "\n".join(m for m in render(life.engine).decode().split("\n") if "lookup_" in m)
    assert 'sqlengine_lookup_rows{graph="main",table="dim"} 1.0' in metrics
    assert 'sqlengine_lookup_versions_total{graph="main",table="dim"} 1.0' in metrics
    assert 'sqlengine_lookup_failures_total{graph="main",table="dim"} 0.0' not in metrics
    life.change("1,eins")
    run(life, 1)
    assert life.out() == [(1, "one")] * 3 + [(1, "eins")]
    (lookup,) = life.engine.progress.of(life.engine.job("job")).lookups
    assert lookup.error == ""


def test_rows_that_cannot_be_read_are_dead_letters(life: Life) -> None:
    life.write("1,one", "nonsense,two", "3,three")
    life.engine.submit("job", JOB.format(folder=life.folder, key=""))
    run(life, 1, 3)
    assert life.out() == [(1, "one"), (3, "three")]
    (letter,) = life.engine.dead_letters.last(DeadLetterFilter(), 10)
    assert "nonsense" in letter.payload


def in_parquet(folder: Path) -> str:
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["one", "two"]}), folder / "d.parquet")  # fmt: skip
    return f"'connector' = 'filesystem', 'path' = '{folder}/d.parquet', 'format' = 'parquet'"


def in_json(folder: Path) -> str:
    lines = [json.dumps({"id": i, "name": n}) for i, n in ((1, "one"), (2, "two"))]
    (folder / "d.json").write_text("\n".join(lines))
    return f"'connector' = 'filesystem', 'path' = '{folder}/d.json', 'format' = 'json'"


def in_database(folder: Path) -> str:
    with sqlite3.connect(folder / "d.db") as database:
        database.execute("CREATE TABLE d (id INTEGER, name TEXT)")
        database.executemany("INSERT INTO d VALUES (?, ?)", [(1, "one"), (2, "two")])
    database.close()
    return f"'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/d.db', 'table-name' = 'd'"


@pytest.mark.parametrize("place", [in_parquet, in_json, in_database])
def test_tables_of_other_kinds(place: Callable[[Path], str], life: Life) -> None:
    table = f"CREATE TEMPORARY TABLE dim (id INT, name STRING) WITH ({place(life.folder)}, {HELD});"
    submit(life, "job", table, f"SELECT o.id, d.name {JOIN.format(kind='LEFT')} o.id = d.id")
    run(life, 1, 2, 3)
    assert life.out() == [(1, "one"), (2, "two"), (3, None)]


REFUSED = {
    "'connector' = 'filesystem', 'path' = '{folder}/dim.csv', 'format' = 'debezium-json'": "is a changelog",
    "'connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv', 'source.monitor-interval' = '1 s'": "has no end",
    "'connector' = 'filesystem', 'path' = '{folder}/none.csv', 'format' = 'csv'": "none.csv",
}


@pytest.mark.parametrize("options", REFUSED)
def test_tables_that_cannot_be_held(options: str, life: Life) -> None:
    life.write("1,one")
    table = f"CREATE TEMPORARY TABLE dim (id INT, name STRING) WITH ({options}, {HELD});"
    with pytest.raises(SqlError) as refused:
        submit(life, "job", table, f"SELECT o.id, d.name {JOIN.format(kind='')} o.id = d.id")
    assert REFUSED[options] in f"{refused.value.message} {refused.value.detail}"


def test_a_job_begins_with_its_table(life: Life) -> None:
    """What the table is when the job is submitted, is read then: no row waits for it later."""
    life.write("1,one")
    life.engine.submit("job", JOB.format(folder=life.folder, key=""))
    (life.folder / "dim.csv").unlink()
    life.feed(1)
    step(life.engine)
    assert life.out() == [(1, "one")]


def test_reading_may_take_longer_than_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, write = Life(tmp_path), ColumnWriter.add
    life.engine._openings.timeout_s = 0.3

    def slow(writer: ColumnWriter, columns: Sequence[pa.Array], num_rows: int) -> None:
        for _ in range(8):
            time.sleep(0.1)
            get_on()
        write(writer, columns, num_rows)

    monkeypatch.setattr(ColumnWriter, "add", slow)
    life.write("1,one")
    life.engine.submit("job", JOB.format(folder=life.folder, key=""))
    run(life, 1)
    assert life.out() == [(1, "one")]
    die(life.engine)


def test_metadata_and_folders_are_held_too(life: Life) -> None:
    folder = life.folder / "parts"
    for name in ("a", "b"):
        (folder / f"name={name}").mkdir(parents=True)
    (folder / "name=a" / "x.csv").write_text("1\n2\n")
    (folder / "name=b" / "y.csv").write_text("2\n")
    table = (
        "CREATE TEMPORARY TABLE dim (id INT, file STRING METADATA FROM 'file.name', name STRING)"
        f" PARTITIONED BY (name) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv', {HELD});"
    )
    query = f"SELECT o.id, d.name || ' ' || d.file {JOIN.format(kind='LEFT')} o.id = d.id"
    submit(life, "job", table, query)
    run(life, 1, 2, 3)
    assert by_id(life, "out") == [(1, "a x.csv"), (2, "a x.csv"), (2, "b y.csv"), (3, None)]
