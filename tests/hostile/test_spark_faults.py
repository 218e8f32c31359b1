"""On Spark, whatever a connector, format or function raises, answers or never answers is a failure
of its statement, with a reason that names it: statements before and behind it have every row once.

Most of it runs in stages without a JVM, where tasks are in this process and the injector reaches
them; `test_faults_on_spark.py` has Spark itself."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parser.errors import SqlError
from parser.limits import Limits, using
from parser.types import BIGINT
from sqlengine.batch import Batch
from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
from sqlengine.executors.spark.tasks.rules import TaskRules
from sqlengine.formats.base import Decoded, Decoder
from sqlengine.formats.csv_ import CsvFormat
from sqlengine.formats.guarded import GuardedDecoder
from sqlengine.operators.aggregates.group_aggregate import GroupAggregateOperator
from sqlengine.operators.base import Output
from sqlengine.operators.project import ProjectOperator
from sqlengine.session.session import Session
from sqlengine.session.spark import script_runner
from sqlengine.system.file_access import ANY_FILES, FileAccess
from tests.hostile.injector import (
    HANG,
    NONSENSE,
    RAISES,
    SINK_METHODS,
    SOURCE_METHODS,
    Fault,
    Injector,
)
from tests.spark.scripting import Collected
from tests.spark.staged import Staged
from tests.support import ROOT

# Seconds that a call may take that hangs, and one that does not.
HANGS_S, TIMEOUT_S = 2.0, 20.0
ROWS = list(range(300))
MAY_HANG = ("filesystem", "rolling", "jdbc")
FILE = "'connector' = 'filesystem', 'format' = 'csv', 'path' = '{folder}/%s'"
SINKS = {
    "filesystem": FILE % "out",
    "rolling": FILE % "out" + ", 'sink.rolling-policy.rollover-interval' = '1 h'",
    "jdbc": "'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'out'",
    "topic": "'connector' = 'topic', 'topic' = 'out', 'format' = 'json'",
    "blackhole": "'connector' = 'blackhole'",
}
SOURCES = {
    "filesystem": FILE % "other",
    "jdbc": "'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'numbers'",
    "datagen": "'connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0',"
    " 'fields.id.end' = '299'",
    "topic": "'connector' = 'topic', 'topic' = 'numbers', 'format' = 'json',"
    " 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'",
}
# Without these no statement can end well, if they are called.
NEEDED = {
    "open", "bounded", "shards", "start", "end", "read", "resume", "write", "commit", "roll",
    "last_epoch",
}  # fmt: skip
HEAD = """
CREATE TABLE numbers (id BIGINT) WITH (%(file)sin');
CREATE TABLE first_out (id BIGINT) WITH (%(file)sfirst_out');
CREATE TABLE beside (id BIGINT) WITH (%(file)sbeside');
CREATE TABLE last_out (id BIGINT) WITH (%(file)slast_out');
CREATE TABLE gone (id BIGINT) WITH ('connector' = 'blackhole');
"""


class House:
    """A folder with data, and what scripts make of it."""

    def __init__(self, folder: Path, injector: Injector) -> None:
        self.folder, self.injector = folder, injector
        self.set_aside = RowsSetAside()
        self.files = ANY_FILES
        for name in ("in", "other"):
            (folder / name).mkdir()
            (folder / name / "a.csv").write_text("".join(f"{i}\n" for i in ROWS))
        with closing(sqlite3.connect(folder / "app.db")) as database:
            database.execute("CREATE TABLE out (id BIGINT)")
            database.execute("CREATE TABLE numbers (id BIGINT)")
            database.executemany("INSERT INTO numbers VALUES (?)", [(i,) for i in ROWS])
            database.commit()

    def run(self, text: str, *, timeout_s: float = TIMEOUT_S) -> list[str]:
        """The errors of a script, in stages."""
        file = f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{self.folder}/"
        collected = Collected(text := HEAD % {"file": file} + text)
        data = self.folder / "data"
        with script_runner(data, 100, Staged(), self.files, timeout_s) as runner:
            runner.dead_letters = self.set_aside
            Session(runner, collected).run(text)
        self.outcome = collected.finish()
        return list(self.outcome.errors.values())

    def rows(self, table: str) -> list[int]:
        """The rows of a table of files."""
        files = [f for f in (self.folder / table).glob("**/*") if f.is_file()]
        shown = [f for f in files if not f.name.startswith((".", "_"))]
        return sorted(int(line.split(",")[0]) for f in shown for line in f.read_text().split())


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a first statement imports takes longer than a call may take that hangs."""
    with Injector() as injector:
        House(tmp_path_factory.mktemp("first"), injector).run("SELECT COUNT(*) FROM numbers;")


@pytest.fixture
def house(imported: None, tmp_path: Path) -> Iterator[House]:
    with Injector() as injector:
        one = House(tmp_path, injector)
        yield one
        for table in list(injector.faults):
            injector.switch_off(table)


def faults(*, sink: bool, hangs: bool) -> Iterator[tuple[str, str, object]]:
    for method in SINK_METHODS if sink else SOURCE_METHODS:
        for how in (*RAISES, HANG) if hangs else RAISES:
            # Only a lane keeps an exit of the thread from the thread that waits.
            if (how != "SystemExit" or hangs) and (method, how) != ("roll_is_due", HANG):
                yield method, how, None
        for answer in NONSENSE.get(method, ()):
            yield method, "nonsense", answer


CASES = [
    (kind, sink, *fault)
    for sink, kinds in ((True, SINKS), (False, SOURCES))
    for kind in kinds
    for fault in faults(sink=sink, hangs=kind in MAY_HANG)
]
SOME = [
    ("filesystem", False, "read", "ValueError", None),
    ("filesystem", False, "read", HANG, None),
    ("filesystem", False, "read", "nonsense", "rows"),
    ("filesystem", False, "end", "OSError", None),
    ("jdbc", False, "read", "MemoryError", None),
    ("jdbc", True, "commit", HANG, None),
    ("topic", True, "write", "ValueError", None),
    ("rolling", True, "roll", "OSError", None),
    ("topic", False, "bounded", "OSError", None),
]


def go_wrong_beside_others(
    house: House, kind: str, sink: bool, method: str, how: str, answer: object
) -> None:
    options = (SINKS if sink else SOURCES)[kind].format(folder=house.folder)
    table = f"CREATE TABLE bad (id BIGINT) WITH ({options});"
    if kind == "topic" and not sink:
        values = ", ".join(f"({i})" for i in ROWS)
        writable = table.split(", 'scan.startup")[0] + ");"
        assert not house.run(f"{writable} INSERT INTO bad VALUES {values};")
    statement = (
        "INSERT INTO bad SELECT id FROM numbers;"
        if sink
        else "INSERT INTO gone SELECT id FROM bad;"
    )
    fault = Fault(method, how, answer)
    house.injector.switch_on("bad", fault)
    began = time.monotonic()
    text = f"""{table}
        INSERT INTO first_out SELECT id FROM numbers;
        {statement}
        EXECUTE STATEMENT SET BEGIN {statement} INSERT INTO beside SELECT id FROM numbers; END;
        INSERT INTO last_out SELECT id FROM numbers;"""
    errors = house.run(text, timeout_s=HANGS_S if how == HANG else TIMEOUT_S)
    assert time.monotonic() - began < 20
    assert house.rows("first_out") == house.rows("last_out") == ROWS
    # Rows of a batch that a sink refuses are in the others; one that is not read whole in none.
    assert house.rows("beside") in (ROWS, [])
    if fault.calls and method in NEEDED:
        assert len(errors) == 2, errors
    if method == "close":  # nobody has closed the table of the first statement
        errors = [e for e in errors if "another process writes to" not in e]
    for error in errors:
        assert "table 'bad' cannot be" in error
        if method == "open" and how == "OSError":
            assert "/mnt/data: Input/output error" in error
        else:  # a read asks several methods, and opening waits for a call that still writes
            assert "' of connector '" in error
        assert "hint:" in error
        assert "sql start" not in error
    house.injector.switch_off("bad")
    assert not house.run(table + statement)


@pytest.mark.parametrize(("kind", "sink", "method", "how", "answer"), SOME)
def test_some_faults(
    house: House, kind: str, sink: bool, method: str, how: str, answer: object
) -> None:
    go_wrong_beside_others(house, kind, sink, method, how, answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "sink", "method", "how", "answer"),
    CASES,
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_every_fault(
    house: House, kind: str, sink: bool, method: str, how: str, answer: object
) -> None:
    go_wrong_beside_others(house, kind, sink, method, how, answer)


# ---- what fails for one row or file ----------------------------------------------------------------

SETS_ASIDE = "SET 'job.on-error' = 'dead-letter';"


def beside_others(house: House, statement: str) -> list[str]:
    """The errors of a statement between two others, whose rows are counted."""
    errors = house.run(
        f"INSERT INTO first_out SELECT id FROM numbers; {statement};"
        " INSERT INTO last_out SELECT id FROM numbers;"
    )
    assert house.rows("first_out") == house.rows("last_out") == ROWS
    return errors


def test_files_that_are_none(house: House) -> None:
    """Each is named, and none is taken as empty."""
    folder = house.folder
    (folder / "garbage.parquet").write_bytes(b"PAR1 and then something else")
    (folder / "empty.parquet").touch()
    os.mkfifo(folder / "fifo.csv")
    wrong = pa.table({"id": ["text"]})
    pq.write_table(wrong, folder / "types.parquet")
    for name, words in {
        "garbage.parquet": "cannot be read as Parquet",
        "empty.parquet": "cannot be read as Parquet",
        "types.parquet": "is no BIGINT",
        "fifo.csv": "is a FIFO",
    }.items():
        form = name.rpartition(".")[2]
        options = f"'connector' = 'filesystem', 'format' = '{form}', 'path' = '{folder}/{name}'"
        table = f"CREATE TABLE bad (id BIGINT) WITH ({options})"
        (error,) = beside_others(house, f"{table}; INSERT INTO gone SELECT id FROM bad")
        assert f"{folder}/{name}" in error
        assert words in error
        for out in ("first_out", "last_out"):
            shutil.rmtree(folder / out)


@pytest.mark.parametrize("fails", [False, True])
def test_partitions_that_no_file_system_can_hold(house: House, fails: bool) -> None:
    options = FILE.format(folder=house.folder) % "parts"
    table = f"CREATE TABLE parts (id BIGINT, p STRING) PARTITIONED BY (p) WITH ({options})"
    errors = beside_others(
        house,
        f"{'' if fails else SETS_ASIDE} {table}; INSERT INTO parts SELECT id, CASE id WHEN 7 THEN"
        " REPEAT('x', 300) WHEN 8 THEN CHR(0) ELSE 'a' END FROM numbers",
    )
    if fails:
        assert "partition column 'p' gives a folder a name of 302 bytes" in errors[0]
        assert house.rows("parts") == []
    else:
        assert not errors
        assert house.rows("parts") == [i for i in ROWS if i != 7]
        assert house.set_aside.rows == 1


def test_a_record_for_which_a_format_raises(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has it, and the others have all rows."""

    def decoder(self: CsvFormat, *given: Any) -> Decoder:
        return GuardedDecoder("csv", Brittle(real(self, *given)), [BIGINT])

    real = CsvFormat.decoder
    monkeypatch.setattr(CsvFormat, "decoder", decoder)
    options = SOURCES["filesystem"].format(folder=house.folder)
    (house.folder / "other" / "b.csv").write_text("1000007\n1000008\n")
    table = f"CREATE TABLE bad (id BIGINT) WITH ({options}); CREATE TABLE kept (id BIGINT) WITH ("
    table += FILE.format(folder=house.folder) % "kept" + ")"
    (error,) = beside_others(house, f"{table}; INSERT INTO kept SELECT id FROM bad")
    assert "format 'csv' failed: MemoryError" in error
    assert house.rows("kept") == []
    assert not house.run(f"{SETS_ASIDE} {table}; INSERT INTO kept SELECT id FROM bad;")
    assert house.rows("kept") == [*ROWS, 1000008]
    assert house.set_aside.rows == 1


class Brittle(Decoder):
    """Has no memory for records with a certain text."""

    def __init__(self, real: Decoder) -> None:
        self._real = real

    def decode(self, records: pa.Array) -> Decoded:
        if b"1000007" in records.to_pylist():
            raise MemoryError
        return self._real.decode(records)


def test_a_row_for_which_an_operator_raises(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without state the row is an error, with state the statement fails."""

    def process(self: ProjectOperator, port: int, batch: Batch) -> Output:
        if any("bad" in c.name for c in batch.schema) and 7 in batch.columns[0].to_pylist():
            raise KeyError("seven")
        return list(real(self, port, batch))

    real = ProjectOperator.process
    monkeypatch.setattr(ProjectOperator, "process", process)
    options = SOURCES["filesystem"].format(folder=house.folder)
    out = FILE.format(folder=house.folder) % "kept"
    tables = (
        f"CREATE TABLE t (bad BIGINT) WITH ({options}); CREATE TABLE kept (id BIGINT) WITH ({out})"
    )
    statement = f"{SETS_ASIDE} {tables}; INSERT INTO kept SELECT bad + 1 FROM t"
    assert not beside_others(house, statement)
    assert house.rows("kept") == [i + 1 for i in ROWS if i != 7]
    assert "KeyError: 'seven'" in house.set_aside.first


def test_an_operator_with_state_that_raises(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def process(self: GroupAggregateOperator, port: int, batch: Batch) -> Output:
        raise ZeroDivisionError("a fault of the engine")

    monkeypatch.setattr(GroupAggregateOperator, "process", process)
    (error,) = beside_others(house, "SELECT id % 7, COUNT(*) FROM numbers GROUP BY id % 7")
    assert "internal error in GroupAggregate: ZeroDivisionError: a fault of the engine" in error


def test_files_and_limits_hold_in_tasks(house: House) -> None:
    """What a task opens is judged where it opens it."""
    rules = TaskRules(Limits(record_size=1000), FileAccess((house.folder / "in",)))
    files = rules.environment(lambda: 0).files
    files.check(house.folder / "in" / "a.csv")
    with pytest.raises(SqlError, match="outside the folders that SQL may use"):
        files.check(house.folder / "other" / "a.csv")
    (house.folder / "in" / "b.csv").write_text("1" * 2000 + "\n")
    with using(record_size=1000):
        (error,) = house.run("SELECT SUM(id) FROM numbers;")
    assert "record-size" in error


def test_memory_of_a_worker(tmp_path: Path) -> None:
    """A worker that needs more gets a MemoryError, and goes on."""
    program = """
from sqlengine.executors.spark.tasks.rules import TaskRules
import pyarrow as pa
TaskRules(memory=200 << 20).apply()
for _ in range(2):
    try:
        pa.array(b"x" * (300 << 20))
    except MemoryError:
        print("no memory")
TaskRules(memory=600 << 20).apply()
print(len(b"x" * (300 << 20)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:3] == ["no memory", "no memory", str(300 << 20)]
