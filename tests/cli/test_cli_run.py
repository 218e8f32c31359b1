"""`sql run` and `sql explain FILE`: what people see, and what programs read."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest

from sqlengine.session.live_table import LiveTable, Screen
from sqlengine.session.printers import TableRows
from tests.cli.conftest import Sql
from tests.support import ROOT

ROWS = '{"id": 1, "word": "one", "price": 1.50}\n{"id": 2, "word": null, "price": 2}\n'
TABLE = """CREATE TABLE t (id INT, word STRING, price DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "t.json").write_text(ROWS)
    path = tmp_path / "script.sql"
    table = TABLE.format(path=tmp_path / "t.json")
    path.write_text(table + "SELECT * FROM t;\nSELECT id AS n FROM t WHERE id > ${LEAST};\n")
    return path


def test_tables_for_people(sql: Sql, script: Path) -> None:
    done = sql("run", script, "-D", "LEAST=1")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "id  word  price",
        "1   one   1.50",
        "2   NULL  2.00",
        "n",
        "2",
    ]
    assert done.stderr == "2 rows\n1 row\n"


def test_json_for_programs(sql: Sql, script: Path) -> None:
    done = sql("run", script, "-D", "LEAST=1", "--output", "json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"id": 1, "word": "one", "price": "1.50"},
        {"id": 2, "word": None, "price": "2.00"},
        {"n": 2},
    ]


def test_a_table_that_is_away_ends_a_statement_and_its_rows(sql: Sql, script: Path) -> None:
    away = "'connector' = 'mqtt', 'server' = 'tcp://127.0.0.1:1', 'topic' = 'x', 'format' = 'json'"
    table = f"CREATE TABLE away (id INT) WITH ({away});\nINSERT INTO away SELECT id FROM t;"
    script.write_text(TABLE.format(path=script.parent / "t.json") + table)
    done = sql("run", script)
    assert done.exit_code == 1
    assert "table 'away' cannot be written now" in done.stderr
    assert "rows of it are missing" in done.stderr
    assert "its rows are kept" not in done.stderr


@pytest.mark.parametrize("size", [1, 2, 4096])
def test_events_with_the_number_of_the_statement(sql: Sql, script: Path, size: int) -> None:
    done = sql(
        "run",
        "-",
        "-D",
        "LEAST=1",
        "--output",
        "events",
        "--batch-size",
        size,
        stdin=script.read_bytes(),
    )
    assert done.exit_code == 0, done.output
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {
            "stmt": 1,
            "kind": "schema",
            "columns": [["id", "INT"], ["word", "STRING"], ["price", "DECIMAL(10, 2)"]],
        },
        {"stmt": 1, "kind": "row", "op": "+I", "row": [1, "one", "1.50"]},
        {"stmt": 1, "kind": "row", "op": "+I", "row": [2, None, "2.00"]},
        {"stmt": 2, "kind": "schema", "columns": [["n", "INT"]]},
        {"stmt": 2, "kind": "row", "op": "+I", "row": [2]},
    ]


def test_a_failing_statement_is_shown_with_its_place_and_the_others_run(
    sql: Sql, tmp_path: Path
) -> None:
    path = tmp_path / "bad.sql"
    path.write_text(
        "SELECT 1 AS a;\n\nSELECT\n  wrod\nFROM (VALUES ('x')) AS t(word);\nSELECT 2 AS b;\n"
    )
    done = sql("run", path, "--output", "json")
    assert done.exit_code == 1
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"a": 1}, {"b": 2}]
    assert done.stderr.splitlines() == [
        f"{path}:4:3: invalid statement: unknown column 'wrod'",
        "  |   wrod",
        "  |   ^^^^",
        "  hint: did you mean 'word'?",
    ]
    events = [
        json.loads(line) for line in sql("run", path, "--output", "events").stdout.splitlines()
    ]
    (error,) = [e for e in events if e["kind"] == "error"]
    assert (error["stmt"], error["hint"]) == (1, "did you mean 'word'?")


def test_a_variable_without_a_value(sql: Sql, script: Path) -> None:
    done = sql("run", script)
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        f"{script}:4:34: syntax error: variable 'LEAST' has no value",
        "  | SELECT id AS n FROM t WHERE id > ${LEAST};",
        "  |                                  ^^^^^^^^",
        "  hint: pass -D LEAST=VALUE",
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run"], "Missing argument"),
        (["run", "nowhere.sql"], "does not exist"),
        (["run", "."], "is a directory"),
        (["run", "-", "-D", "X"], "is not NAME=VALUE"),
        (["run", "-", "-D", "=1"], "is not NAME=VALUE"),
        (["run", "-", "--batch-size", "0"], "0 is not in the range"),
        (["run", "-", "--output", "xml"], "is not one of"),
        (["nothing"], "No such command"),
        (["serve", "--port", "70000"], "70000 is not in the range"),
        (["submit", "-"], "standard input needs --name"),
        (["topic", "list", "--data", "x", "--server", "http://127.0.0.1:1"], "give one of them"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_wrong_usage_exits_2(sql: Sql, arguments: list[str], told: str) -> None:
    done = sql(*arguments)
    assert done.exit_code == 2
    assert told in done.stderr


def test_scripts_that_are_no_text(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "binary.sql").write_bytes(b"\x7fELF\xff\xfe\x00")
    done = sql("run", "binary.sql")
    assert done.exit_code == 1
    assert "'binary.sql' is not UTF-8" in done.stderr
    assert sql("run", "-", stdin=b"\xff").exit_code == 1
    (tmp_path / "empty.sql").write_text("")
    assert sql("run", "empty.sql").exit_code == 0
    (tmp_path / "mark.sql").write_bytes(b"\xef\xbb\xbfSELECT 1 AS a;")
    assert sql("run", "mark.sql", "--output", "json").stdout == '{"a": 1}\n'


def test_a_row_that_fails_ends_a_script(sql: Sql, tmp_path: Path) -> None:
    done = sql("run", "-", stdin="SELECT 1 / x AS q FROM (VALUES (1), (0)) AS t(x); SELECT 1 AS a;")
    assert done.exit_code == 1
    assert "zero" in done.stderr
    assert "'job.on-error' = 'dead-letter'" in done.stderr


def test_rows_set_aside_are_told(sql: Sql, tmp_path: Path) -> None:
    """A row far in the future, and one without a time."""
    lines = ('{"ts": "2024-05-01 10:00:01"}', '{"ts": "2924-05-01 10:00:02"}', '{"ts": null}')
    (tmp_path / "events.json").write_text("\n".join(lines))
    script = f"""SET 'job.on-error' = 'dead-letter';
        CREATE TABLE events (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem',
          'path' = '{tmp_path}/events.json', 'format' = 'json', 'scan.watermark.max-future' = '1 h');
        SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end;"""
    done = sql("run", "-", "--output", "json", stdin=script)
    assert (done.exit_code, done.stdout) == (0, '{"n": 1}\n')
    assert done.stderr.startswith(
        "2 rows in error set aside; the first: row time ts = 2924-05-01T10:00:02 is more than 1 h ahead"
    )
    assert '{"ts": "2924-05-01 10:00:02"}' in done.stderr


def test_topics_of_a_script_stay_in_a_data_folder(sql: Sql, tmp_path: Path) -> None:
    table = "CREATE TABLE k (id INT) WITH ('connector' = 'topic', 'topic' = 'k', 'format' = 'json',"
    table += "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');"
    done = sql("run", "-", "--data", "d", stdin=table + "INSERT INTO k VALUES (1), (2);")
    assert done.exit_code == 0, done.output
    done = sql("run", "-", "--data", "d", "--output", "json", stdin=table + "SELECT id FROM k;")
    assert done.stdout == '{"id": 1}\n{"id": 2}\n'
    assert sql("topic", "read", "k", "--data", "d").stdout == '{"id":1}\n{"id":2}\n'


EXPLAINED = """CREATE TABLE e (id INT, word STRING) WITH ('connector' = 'datagen');
CREATE TABLE o (id INT) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT id FROM e WHERE word = 'x' AND ${MORE};
"""


def test_explain_a_file(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "my plan.sql").write_text(EXPLAINED)
    done = sql("explain", "my plan.sql", "-D", "MORE=id > 3")
    assert done.exit_code == 0, done.output
    titles = [line for line in done.stdout.splitlines() if line.startswith("== ")]
    assert titles[0] == "== bind =="
    assert titles[-1] == "== operators =="
    assert "id > 3" in done.stdout
    body = json.loads(sql("explain", "my plan.sql", "-D", "MORE=TRUE", "--output", "json").stdout)
    assert body


def test_explain_what_cannot_be_planned(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text("INSERT INTO o SELECT 1")
    done = sql("explain", "x.sql")
    assert done.exit_code == 1
    assert "x.sql:1:" in done.stderr
    assert "unknown table 'o'" in done.stderr
    (tmp_path / "folder").mkdir()
    assert (
        sql("explain", "folder").exit_code == 3
    )  # no file: the name of a job, and there is no server


ENDLESS = """CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '20',
'fields.n.min' = '1', 'fields.n.max' = '3');
"""


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `sql run` with these arguments as a process of its own."""
    processes = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlengine.cli", "run", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("output", ["table", "json", "events"])
def test_rows_of_an_endless_query_are_printed_as_they_come(
    started: Callable[..., subprocess.Popen[str]], output: str
) -> None:
    process = started("-e", ENDLESS + "SELECT n FROM g; SELECT 'next'", "--output", output)
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    seen = [next(line for line in lines if str(n) in line) for n in (1, 2, 3)]
    assert len(seen) == 3
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 0, err
    foot = r"\d+ rows\n" if output == "table" else ""
    assert re.fullmatch(foot + r"interrupted after \d+ rows?\n", err)
    assert "next" not in out


def test_ctrl_c_before_the_end_is_no_success(
    started: Callable[..., subprocess.Popen[str]],
) -> None:
    """Else `sql run … && …` goes on with a part of the rows."""
    ends = ENDLESS.replace("'fields.n.min'", "'number-of-rows' = '99999', 'fields.n.min'")
    process = started("-e", ends + "SELECT n FROM g", "--output", "json")
    assert process.stdout is not None
    next(iter(process.stdout.readline, ""))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert "interrupted after" in err


def test_ctrl_c_while_rows_are_inserted(started: Callable[..., subprocess.Popen[str]]) -> None:
    insert = "CREATE TABLE p (n BIGINT) WITH ('connector' = 'print'); INSERT INTO p SELECT n FROM g"
    process = started("-e", "SELECT wrong", "-e", ENDLESS + insert)
    assert process.stdout is not None
    next(iter(process.stdout.readline, ""))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 1  # a statement has failed before
    assert re.search(r"^interrupted after \d+ rows?$", err, re.MULTILINE)
    assert "Traceback" not in err


def test_a_reader_of_an_endless_query_that_goes_away() -> None:
    command = (
        f'{sys.executable} -m sqlengine.cli run -e "{ENDLESS}" -e "SELECT n FROM g" --output json'
        " | head -2"
    )
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ('{"n": 1}\n{"n": 2}\n', "")


def test_statements_of_the_command_line(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "tables.sql").write_text("CREATE VIEW v AS SELECT ${N} AS n;")
    arguments = ["-D", "N=5", "--output", "json"]
    done = sql(
        "run",
        "-e",
        "SELECT ${N} AS a; SELECT 2 AS b -- the last",
        "-e",
        "SELECT 3 AS c;",
        *arguments,
    )
    assert done.stdout == '{"a": 5}\n{"b": 2}\n{"c": 3}\n', done.output
    done = sql("run", "tables.sql", "-e", "SELECT n + 1 AS n FROM v", *arguments)
    assert done.stdout == '{"n": 6}\n', done.output
    events = sql("run", "-e", "SELECT 1 AS a", "-e", "SELECT 2 AS b", "--output", "events").stdout
    assert [json.loads(line)["stmt"] for line in events.splitlines()] == [0, 0, 1, 1]


def test_errors_of_the_command_line_have_their_place(sql: Sql) -> None:
    done = sql("run", "-e", "SELECT 1 AS a", "-e", "SELECT 2 AS b; SELECT wrod", "--output", "json")
    assert done.exit_code == 1
    assert done.stdout == '{"a": 1}\n{"b": 2}\n'
    assert done.stderr.splitlines()[:3] == [
        "1:23: invalid statement: unknown column 'wrod'",
        "  | SELECT 2 AS b; SELECT wrod",
        "  |                       ^^^^",
    ]
    assert "'N' has no value" in sql("run", "-e", "SELECT ${N}").stderr


def test_a_query_that_fails_draws_no_table(sql: Sql) -> None:
    done = sql("run", "-", stdin="SELECT 1 / x AS q FROM (VALUES (0)) AS t(x);")
    assert done.exit_code == 1
    assert done.stdout == ""
    done = sql("run", "-", stdin="SELECT x FROM (VALUES (1)) AS t(x) WHERE x > 1;")
    assert (done.stdout, done.stderr) == ("x\n", "0 rows\n")


def test_a_table_whose_rows_come_in_parts(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("".join(f'{{"name": "{n}"}}\n' for n in ("a", "longer", "a")))
    table = "CREATE TABLE t (name STRING) WITH ('connector' = 'filesystem', 'path' = 't.json', 'format' = 'json')"
    query = "SELECT name, COUNT(*) AS n FROM t GROUP BY name"
    done = sql("run", "-e", table, "-e", query, "--batch-size", 1)
    assert done.stdout.splitlines() == [
        "name  n",
        "a     1",
        "longer  1",
        "op  name  n",
        "-U  a     1",
        "+U  a     2",
    ]
    assert done.stderr == "4 rows\n"


def test_a_terminal_sees_changes_below_the_rows_before() -> None:
    out = StringIO()
    rows = TableRows(out, screen=Screen(80))
    rows.begin([("name", "STRING"), ("n", "BIGINT")], changes=False)
    for op, values in (("+I", ["a", 1]), ("+I", ["longer", 1]), ("-U", ["a", 1]), ("+U", ["a", 2])):
        rows.rows([(op, values)])
    rows.end()
    assert out.getvalue().splitlines() == [
        "┏━━━━━━┳━━━┓",
        "┃ name ┃ n ┃",
        "┡━━━━━━╇━━━┩",
        "│ a    │ 1 │",
        "│ longer │ 1 │",
        "└────────┴───┘",
        "┏━━━━┳━━━━━━┳━━━┓",
        "┃ op ┃ name ┃ n ┃",
        "┡━━━━╇━━━━━━╇━━━┩",
        "│ -U │ a    │ 1 │",
        "│ +U │ a    │ 2 │",
        "└────┴──────┴───┘",
    ]


def test_a_row_in_a_pipe_is_a_line_with_nothing_cut_off(sql: Sql) -> None:
    word = "w" * 300
    query = f"SELECT '{word}' AS a, 'x\ny' AS b, '{word}' AS c"
    done = sql("run", "-e", query)
    assert done.stdout.splitlines()[1] == f"{word}  x\\ny  {word}"
    assert len(done.stdout.splitlines()) == 2


def test_a_table_that_is_wider_than_the_screen() -> None:
    out = StringIO()
    table = LiveTable(out, ["name", "text"], Screen(30))
    table.rows([["one", "x" * 40]])
    table.rows([["日本", "two\nlines\tand \x07"]])
    table.end()
    assert out.getvalue().splitlines() == [
        "┏━━━━━━┳━━━━━━━━━━━━━━━━━━━━━┓",
        "┃ name ┃ text                ┃",
        "┡━━━━━━╇━━━━━━━━━━━━━━━━━━━━━┩",
        "│ one  │ xxxxxxxxxxxxxxxxxxx │",
        "│      │ xxxxxxxxxxxxxxxxxxx │",
        "│      │ xx                  │",
        "│ 日本 │ two                 │",
        "│      │ lines   and \\x07    │",
        "└──────┴─────────────────────┘",
    ]


def test_a_terminal_without_lines_and_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(TextIOWrapper):
        def isatty(self) -> bool:
            return True

    def drawn(encoding: str) -> str:
        data = BytesIO()
        table = LiveTable(Terminal(data, encoding, write_through=True), ["n"])
        table.rows([["a \x1b[31mred"]])
        table.end()
        return data.getvalue().decode(encoding)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert drawn("utf-8").splitlines()[1] == "\x1b[1m┃ n             ┃\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert drawn("ascii").splitlines() == [
        "+---------------+",
        "| n             |",
        "+---------------+",
        "| a \\x1b[31mred |",
        "+---------------+",
    ]
