"""`sql run --on spark` gives the rows that the embedded executor gives."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from parser.errors import SqlError
from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.cli import cli
from sqlengine.executors.spark import splits
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.spark.scripting import Outcome, run, write_data
from tests.sql.golden import DATA, FOLDER
from tests.support import PATIENCE_S, ROOT

SCRIPTS = Path(__file__).parent / "scripts"
EXAMPLES = ROOT / "examples"
# Merged filters, a union, late rows, a statement set with two sinks, made-up rows and VALUES, a
# topic.
SOME_EXAMPLES = (
    "02_rule_set",
    "06_one_alert_form",
    "09_account_report",
    "11_iot_minute_averages",
    "14_load",
    "15_topic",
)
GOLDENS = (
    "formats/raw",
    "insert/statement_sets",
    "select/union_all",
    "tables/metadata",
    "windows/late_rows",
    "windows/ltz",
    "windows/several",
)

needs_spark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder


def both(text: str, data: Path, folder: Path) -> tuple[Outcome, Outcome]:
    """On Spark, and embedded."""
    return run(text, data, folder / "spark", "spark"), run(
        text, data, folder / "embedded", "embedded"
    )


class TestSameRows:
    pytestmark = needs_spark

    @pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.sql")), ids=lambda p: p.stem)
    def test_script(self, spark: Any, data: Path, tmp_path: Path, script: Path) -> None:
        on_spark, embedded = both(script.read_text(), data, tmp_path)
        assert embedded.rows
        assert on_spark == embedded

    @pytest.mark.parametrize("name", SOME_EXAMPLES)
    def test_example(self, spark: Any, tmp_path: Path, name: str) -> None:
        text = (EXAMPLES / "sql" / f"{name}.sql").read_text()
        on_spark, embedded = both(text, EXAMPLES / "data", tmp_path)
        assert not embedded.errors
        assert on_spark == embedded

    @pytest.mark.parametrize("name", GOLDENS)
    def test_golden(self, spark: Any, tmp_path: Path, name: str) -> None:
        """Scripts whose rows `tests/sql` compares with Flink's."""
        on_spark, embedded = both((FOLDER / f"{name}.sql").read_text(), DATA, tmp_path)
        assert embedded.rows
        assert on_spark == embedded

    def test_hundred_filters(self, spark: Any, tmp_path: Path) -> None:
        """A statement set of a hundred rules, patterns among them, over one scan."""
        text = (EXAMPLES / "sql" / "02_rule_set.sql").read_text()
        head = text[: text.index("EXECUTE STATEMENT SET")]
        on_spark, embedded = both(head + hundred_rules(), EXAMPLES / "data", tmp_path)
        assert len(set(re.findall(r"rule-\d\d", "\n".join(embedded.rows)))) > 50
        assert on_spark == embedded

    def test_many_parts_and_batches(
        self, spark: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file is cut into parts that several tasks read, and these into batches with state
        between them: lateness is judged row by row, so nothing of that shows."""
        in_small_parts(monkeypatch, part=9_000, batch=20_000)
        text = (SCRIPTS / "late_rows.sql").read_text().replace("${DATA}/many", "${DATA}/one")
        on_spark, embedded = both(text, data, tmp_path)
        assert on_spark == embedded


class TestErrors:
    pytestmark = needs_spark

    def test_an_error_in_a_task(
        self, spark: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The file loses its second half once rows of the first have come."""
        lines = (data / "one" / "0.json").read_text()
        path = tmp_path / "t.json"
        path.write_text(lines)
        in_small_parts(monkeypatch, part=len(lines) // 2, batch=1)
        shown = Cutter(path)
        with open_runner(tmp_path / "topics", where="spark") as runner:
            good = Session(runner, shown).run(
                f"CREATE TABLE t (v INT) WITH ('connector' = 'filesystem', 'path' = '{path}',"
                " 'format' = 'json');SELECT v FROM t;"
            )
        assert not good
        (error,) = shown.errors
        assert error.message.startswith(f"file '{path}' has changed under a running job")


@pytest.mark.spark
def test_output_is_events_and_nothing_else(spark: Any, data: Path, tmp_path: Path) -> None:
    """A process that starts Spark itself."""
    script = tmp_path / "x.sql"
    script.write_text(
        "CREATE TABLE t (k STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/one',"
        " 'format' = 'json');SELECT k FROM t WHERE k = 'a';"
    )
    command = [
        sys.executable,
        "-m",
        "sqlengine.cli",
        "run",
        str(script),
        "--on",
        "spark",
        "--output",
        "events",
    ]
    done = subprocess.run(
        [*command, "-D", f"DATA={data}", "--files", str(data)],
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {e["kind"] for e in events} == {"schema", "row"}
    assert len(events) == 1 + (data / "one" / "0.json").read_text().count('"k": "a"')


@pytest.mark.parametrize("output", ["table", "events"])
def test_without_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    script = tmp_path / "x.sql"
    script.write_text("SELECT 1")
    result = CliRunner().invoke(cli, ["run", str(script), "--on", "spark", "--output", output])
    assert result.exit_code == 1
    assert "Spark is not installed" in result.stderr
    assert "install sqlengine[spark]" in result.stderr
    assert result.stdout == ""


class Cutter:
    """An output that cuts a file to one byte with the first rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.errors: list[SqlError] = []

    def schema(self, stmt: int, schema: Schema) -> None: ...

    def rows(self, stmt: int, batch: Batch) -> None:
        os.truncate(self._path, 1)

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        self.errors.append(error)


def in_small_parts(monkeypatch: pytest.MonkeyPatch, part: int, batch: int) -> None:
    monkeypatch.setitem(splits.READ_BY_TASKS, "filesystem", (part, 1))
    monkeypatch.setattr(splits, "BYTES_PER_EPOCH", batch)


def hundred_rules() -> str:
    conditions = [
        *(f"LOWER(image) LIKE '%{chr(97 + n)}%.exe'" for n in range(25)),
        *(f"REGEXP(command_line, '(?i)[{chr(97 + n)}-z]{{{n % 5 + 3}}}')" for n in range(25)),
        *(
            f"dst_port BETWEEN {n * 300} AND {n * 300 + 500} AND protocol = 'tcp'"
            for n in range(25)
        ),
        *(
            f"event_type <> 'network' AND (host LIKE '%{n % 10}' OR `user` IS NULL)"
            for n in range(25)
        ),
    ]
    inserts = [
        f"INSERT INTO alerts SELECT ts, 'rule-{n:02}', 'low', host, image FROM events WHERE {c};\n"
        for n, c in enumerate(conditions)
    ]
    return f"EXECUTE STATEMENT SET BEGIN\n{''.join(inserts)}END;"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}
