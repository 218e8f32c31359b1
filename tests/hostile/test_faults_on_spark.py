"""What goes wrong in Spark's own workers costs its statement alone, and nobody sees a trace of
Java; `test_spark_faults.py` has the rest, without a JVM."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from parser.limits import using
from sqlengine.cli import cli
from sqlengine.connectors import registry
from sqlengine.executors.spark import splits
from sqlengine.executors.spark.session import OwnSpark, spark_session
from sqlengine.session.session import Session
from sqlengine.session.spark import script_runner
from sqlengine.system.plugins import CONNECTORS, Plugins
from tests.hostile.faulty_connector import NAME
from tests.spark.scripting import Collected

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

ROWS = list(range(300))
MB = 1 << 20
HEAD = """
CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{0}/in');
CREATE TABLE before (id BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{0}/before');
CREATE TABLE behind (id BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{0}/behind');
CREATE TABLE bad (id BIGINT, now AS PROCTIME()) WITH ('connector' = 'faulty', 'format' = 'csv', 'path' = '{0}/other',
 'fault.where' = '{1}', 'fault.method' = '{2}', 'fault.how' = '{3}');
CREATE TABLE once (id BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{0}/once');
"""
STATEMENTS = """
INSERT INTO before SELECT id FROM numbers;
INSERT INTO once SELECT id FROM (
  SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY now) AS n FROM bad) WHERE n = 1;
INSERT INTO behind SELECT id FROM numbers;
"""


class Bounded(OwnSpark):
    """The session of the tests, with little memory for its workers."""

    def worker_memory(self) -> int:
        return 500 * MB


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose workers find the connector that goes wrong."""
    folder = tmp_path_factory.mktemp("plugins")
    about = folder / "faulty-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[{CONNECTORS}]\n{NAME} = tests.hostile.faulty_connector:FaultyConnector\n"
    )
    session = spark_session("tests", cores=2, printed=folder / "spark.log")
    environment = session.sparkContext.environment
    before = dict(environment)
    path = environment.get("PYTHONPATH") or ""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(registry, "_connectors", Plugins(CONNECTORS))
        patch.setitem(splits.READ_BY_TASKS, NAME, (16 << 20, 1))
        environment["PYTHONPATH"] = f"{folder}:{path}:{':'.join(sys.path)}"
        yield session
    environment.clear()
    environment.update(before)


@pytest.fixture
def folder(session: Any, tmp_path: Path) -> Path:
    for name in ("in", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text("".join(f"{i}\n" for i in ROWS))
    return tmp_path


def run(folder: Path, text: str, timeout_s: float = 20) -> list[str]:
    """The errors of a script."""
    collected = Collected(text)
    with script_runner(folder / "data", 100, Bounded(), timeout_s=timeout_s) as runner:
        Session(runner, collected).run(text)
    return list(collected.finish().errors.values())


def rows(folder: Path, table: str) -> list[int]:
    files = [f for f in (folder / table).glob("part-*") if not f.name.startswith(".")]
    return sorted(int(line) for f in files for line in f.read_text().split())


IN_TASKS = {
    "open": ("ValueError", "'open' of connector 'faulty' raised ValueError: a\x1b[31m bad value"),
    "read": (
        "OSError",
        "'read' of connector 'faulty' raised OSError: [Errno 5] Input/output error",
    ),
    "read ": ("memory", "'read' of connector 'faulty' raised MemoryError"),
    "read  ": ("hang", "no answer for 3 s"),
    "read   ": ("nonsense", "'read' of connector 'faulty' returned 'rows', not a chunk of rows"),
    "read    ": ("SystemExit", "'read' of connector 'faulty' raised SystemExit: 3"),
}


@pytest.mark.parametrize("case", IN_TASKS)
def test_a_connector_in_a_task(folder: Path, case: str) -> None:
    how, words = IN_TASKS[case]
    head = HEAD.format(folder, "task", case.strip(), how)
    (error,) = run(folder, head + STATEMENTS, timeout_s=3 if how == "hang" else 20)
    assert "table 'bad' cannot be read" in error
    assert words in error
    assert "hint: " in error
    assert "Traceback" not in error
    assert rows(folder, "before") == rows(folder, "behind") == ROWS
    assert rows(folder, "once") == []


def test_a_worker_that_dies_is_replaced(folder: Path) -> None:
    assert run(folder, HEAD.format(folder, "task", "read", "die once") + STATEMENTS) == []
    assert (folder / "died").exists()
    assert rows(folder, "before") == rows(folder, "behind") == ROWS
    assert rows(folder, "once") == ROWS


def test_workers_that_die_again_and_again(folder: Path) -> None:
    """As people see it."""
    script = folder / "s.sql"
    script.write_text(HEAD.format(folder, "task", "read", "die") + STATEMENTS)
    done = CliRunner().invoke(cli, ["run", str(script), "--on", "spark"])
    assert done.exit_code == 1
    assert "s.sql:10:1: job failed: a Python worker of Spark ended in the midst" in done.stderr
    assert "hint: 'sql run --verbose' shows" in done.stderr
    assert "at org.apache" not in done.output
    assert rows(folder, "before") == rows(folder, "behind") == ROWS


def test_limits_are_those_of_the_driver(folder: Path) -> None:
    (folder / "other" / "b.csv").write_text("1" * 2000 + "\n")
    head = HEAD.format(folder, "driver", "never", "ValueError")
    with using(record_size=1000):
        (error,) = run(folder, head + "INSERT INTO before SELECT id FROM bad;")
    assert "record-size" in error
    assert "2,001" in error or "2,000" in error
