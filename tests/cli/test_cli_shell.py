"""`sql shell`: with lines of standard input, on a real terminal, here and on a server."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sqlengine.cli.shell.completion import Names, candidates
from sqlengine.cli.shell.reading import is_complete, piped_entries
from tests.cli.conftest import Sql
from tests.service.harness import User
from tests.support import PATIENCE_S, ROOT

NUMBERS = """CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '3');
"""
ENDLESS = """CREATE TABLE endless (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '50',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '100000000');
"""


def test_statements_and_commands_of_standard_input(sql: Sql) -> None:
    done = sql(
        "shell",
        stdin=NUMBERS
        + "\\d\nSELECT n\n-- not the end ;\nFROM numbers WHERE n > 1; SELECT COUNT(*) AS c FROM numbers;\n"
        "\\format json\nSELECT 'a;b' AS x;\n\\format csv\n\\df UPPER\n\\timing on\nSELECT 1 AS last",
    )
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:5] == ["table name", "numbers", "n", "2", "3"]
    assert lines[5:11] == ["op  c", "+I  1", "-U  1", "+U  2", "-U  2", "+U  3"]
    assert lines[11] == '{"x": "a;b"}'
    assert lines[-2:] == ["last", "1"]
    assert re.search(r"^\d+ ms$", done.stderr, re.MULTILINE)


def test_help_as_in_flink(sql: Sql) -> None:
    done = sql("shell", stdin="help\nHELP;\nSELECT 2 AS c;\nquit\n")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("tables and views, or the columns of one") == 2
    assert done.stdout.endswith("c\n2\n")


def test_errors_have_a_caret_and_the_rest_runs(sql: Sql) -> None:
    done = sql(
        "shell", stdin="SELECT 1 AS a; SELECT b;\n\\nonsense\n\\dj\n\\format xml\nSELECT 2 AS c;"
    )
    assert (done.exit_code, done.stdout) == (1, "a\n1\nc\n2\n")
    assert "  | SELECT b\n  |        ^\n" in done.stderr
    assert "there is no command \\nonsense" in done.stderr
    assert "there are no jobs in this process" in done.stderr
    assert "\\format takes one of table, json, csv" in done.stderr


def test_rows_go_to_a_file_and_statements_come_from_one(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "numbers.sql").write_text(NUMBERS)
    text = "\\i numbers.sql\n\\format csv\n\\o rows.csv\nSELECT * FROM numbers;\n\\o\nSELECT 7 AS x;\n\\q\nSELECT 8;"
    done = sql("shell", stdin=text)
    assert (done.exit_code, done.stdout) == (0, "x\n7\n")
    assert (tmp_path / "rows.csv").read_text() == "n\n1\n2\n3\n"


def test_the_editor_gets_the_last_statement(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/1/2/' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setenv("EDITOR", str(editor))
    assert sql("shell", stdin="SELECT 1 AS a;\n\\e\n").stdout == "a\n1\nSELECT 2 AS a;\na\n2\n"


def test_a_session_on_a_server(served: Sql, user: User) -> None:
    user.topic("typed")
    user.submit(
        "typed",
        "CREATE TABLE typed (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'typed', 'format' = 'json')",
    )
    user.write("typed", {"id": 1}, {"id": 2})
    text = """\\d typed
CREATE TEMPORARY VIEW twice AS SELECT id * 2 AS d FROM typed;
SELECT * FROM twice;
SELECT COUNT(*) AS n FROM typed;
\\dj
INSERT INTO typed SELECT 3;
"""
    done = served("shell", "--server", user.client.server, stdin=text)
    assert done.exit_code == 1
    assert "d\n2\n4\nn\n2\n" in done.stdout
    assert re.search(r"^all +all +RUNNING", done.stdout, re.MULTILINE)
    assert "INSERT cannot be run ad hoc" in done.stderr
    assert served("shell", "--server", user.client.server, "--data", "x").exit_code == 2


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 1; -- after", True),
        ("SELECT 1 -- ;", False),
        ("SELECT 1; SELECT 2", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END;", True),
        ("\\d x", True),
        ("", True),
        ("quit", True),
    ],
)
def test_an_entry_ends_with_a_semicolon_that_is_one(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_entries_of_lines() -> None:
    lines = ["SELECT\n", "1; \n", "\\d\n", "SELECT 2"]
    assert list(piped_entries(lines)) == ["SELECT\n1; \n", "\\d\n", "SELECT 2"]


NAMES = Names({"events": ("id", "host"), "hosts": ("name",)}, ("UPPER", "MY_UDF"), ("alerts",))


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("SEL", ["SELECT"]),
        ("SELECT * FROM ev", ["events"]),
        ("SELECT * FROM ", ["events", "hosts"]),
        ("SELECT e.h", []),
        ("SELECT * FROM events AS e WHERE e.h", ["host"]),
        ("SELECT * FROM events WHERE ho", ["host", "HOP", "hosts"]),
        ("SELECT my", ["MY_UDF"]),
        ("STOP JOB 'al", ["alerts"]),
        ("\\ti", ["\\timing"]),
        ("\\d ho", ["hosts"]),
    ],
)
def test_completion_knows_what_may_follow(text: str, first: list[str]) -> None:
    found = [c.text for c in candidates(text, NAMES, ["\\d", "\\timing"])]
    assert found[: len(first)] == first
    if not first:
        assert found == []


class Terminal:
    """A shell on a pseudo-terminal, and what its user sees."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, pattern: str) -> str:
        """Reads until the pattern is seen; returns what came, without control sequences."""
        deadline = time.monotonic() + 20
        while not (match := re.search(pattern, self.seen)):
            assert time.monotonic() < deadline, f"{pattern!r} was not seen in {self.seen!r}"
            if select.select([self._master], [], [], 0.1)[0]:
                data = os.read(self._master, 65536).decode(errors="replace")
                self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r", "", data)
        text, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return text


@contextmanager
def terminal(folder: Path, *arguments: str) -> Iterator[Terminal]:
    master, slave = os.openpty()
    begin = (
        "import os, fcntl, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        f" from sqlengine.cli import main; main(['shell', *{arguments!r}])"
    )
    environment = {
        **os.environ,
        "TERM": "xterm",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "XDG_STATE_HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", begin],
        cwd=ROOT,
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    try:
        yield Terminal(master)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_a_terminal_has_lines_completion_ctrl_c_and_history(tmp_path: Path) -> None:
    with terminal(tmp_path) as shell:
        shell.until(r"statements run on this process.*\n")
        shell.until("sql>")
        shell.type(ENDLESS.replace("\n", "\r"))
        shell.until("OK\n")
        shell.until("sql>")
        shell.type("SELECT\rn FROM endl\t")
        shell.until("ess")
        shell.type(" WHERE n > 0;\r")
        shell.until(r"│ 3 +│")
        shell.type("\x03")
        shell.until("interrupted")
        shell.until("sql>")
        shell.type("SELECT x\x03")
        shell.until("sql>")
        shell.type("SELECT 41 + 1 AS answer;\r")
        assert "answer" in shell.until(r"│ 42 +│")
        shell.until("sql>")
        shell.type("\x04")
    history = (tmp_path / "sqlengine" / "history").read_text()
    assert "+n FROM endless WHERE n > 0;" in history
    with terminal(tmp_path) as shell:
        shell.until("sql>")
        shell.type("\x1b[A\r")
        shell.until(r"│ 42 +│")
        shell.type("\\q\r")


def test_ctrl_c_on_a_terminal_ends_a_query_of_a_server(server: User, tmp_path: Path) -> None:
    server.topic("typed2")
    server.submit(
        "typed2",
        "CREATE TABLE typed2 (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'typed2', 'format' = 'json')",
    )
    with terminal(tmp_path, "--server", server.client.server) as shell:
        shell.until("sql>")
        shell.type("\\follow\rSELECT id FROM typed2;\r")
        shell.until("is on")
        server.write("typed2", {"id": 77})
        shell.until(r"│ 77 +│")
        assert len(_queries(server)) == 1
        shell.type("\x03")
        shell.until("interrupted")
        assert _queries(server) == []
        shell.type("\\q\r")
    server.client.delete("/api/v1/jobs/typed2")


def _queries(server: User) -> list[object]:
    found = server.client.get("/api/v1/queries")["queries"]
    assert isinstance(found, list)
    return found
