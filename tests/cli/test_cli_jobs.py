"""The commands over jobs: how errors look, which code they exit with, and what a pipe sees."""

from __future__ import annotations

import http.server
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sqlengine import connect
from sqlengine.cli import cli
from sqlengine.cli.outcomes import draw_outcome
from sqlengine.client import Client, Json
from tests.cli.conftest import Sql
from tests.service.harness import User, rule
from tests.support import ROOT

GOOD = rule("good", "amount > 5")
BAD = "INSERT INTO alerts\nSELECT 'bad', idd\nFROM events"
WRITTEN = "  writes to alerts (topic): exactly-once, changelogMode=[I]\n"
SHOWN = [
    "bad.sql:2:15: invalid statement: unknown column 'idd'",
    "  | SELECT 'bad', idd",
    "  |               ^^^",
    "  hint: did you mean 'id'?",
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "good.sql").write_text(GOOD)
    (tmp_path / "bad.sql").write_text(BAD)
    (tmp_path / "binary.sql").write_bytes(bytes(range(256)))
    return tmp_path


@pytest.mark.parametrize("command", ["submit", "validate"])
def test_an_error_has_file_line_column_caret_and_hint(
    served: Sql, files: Path, command: str
) -> None:
    done = served(command, "bad.sql")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines() == SHOWN
    done = served(command, "good.sql", "bad.sql")
    assert done.exit_code == 1
    word = "added" if command == "submit" else "valid"
    written = "" if command == "submit" else WRITTEN
    assert re.fullmatch(
        f"good: {word}, version \\d+\n{re.escape(written)}bad: refused\n", done.stdout
    )
    assert done.stderr.splitlines() == SHOWN
    body = json.loads(served("validate", "good.sql", "bad.sql", "--output", "json").stdout)
    assert [j["status"] for j in body["jobs"]] == ["valid", "refused"]
    assert [s["guarantee"] for s in body["jobs"][0]["sinks"]] == ["exactly-once"]


def test_submit_as_a_process_of_its_own(user: User, files: Path) -> None:
    def submit(*names: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "sqlengine.cli",
            "submit",
            "--server",
            user.client.server,
            *names,
        ]
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            command, cwd=files, env=environment, capture_output=True, text=True, check=False
        )

    done = submit("good.sql")
    assert (done.returncode, done.stdout[:21], done.stderr) == (0, "good: added, version ", "")
    assert user.fired(amount=6) == {"good"}
    done = submit("bad.sql")
    assert (done.returncode, done.stderr.splitlines()) == (1, SHOWN)


def test_names(served: Sql, files: Path) -> None:
    (files / "other").mkdir()
    (files / "other" / "good.sql").write_text(GOOD)
    (files / "my rule.sql").write_text(GOOD)
    done = served("submit", "good.sql", "other/good.sql")
    assert done.exit_code == 1
    assert "'good.sql' and 'other/good.sql' would both be the job 'good'" in done.stderr
    done = served("submit", "my rule.sql")
    assert done.exit_code == 1
    assert "'my rule' is not a job name" in done.stderr
    for name in ("../x", "", "x" * 300, "größe", "a?b"):
        assert served("submit", "good.sql", "--name", name).exit_code == 1
        assert served("jobs", name).exit_code == 1
        assert served("remove", name).exit_code == 1
    assert served("submit", "my rule.sql", "--name", "my-rule").exit_code == 0
    assert (
        served("submit", "-", "--name", "piped", stdin=GOOD).stdout == "piped: added, version 1\n"
    )
    done = served("submit", "-", "--name", "piped", stdin=BAD)
    assert done.stderr.splitlines() == [SHOWN[0].removeprefix("bad.sql:"), *SHOWN[1:]]


def test_values_for_variables(served: Sql, user: User, files: Path) -> None:
    (files / "var.sql").write_text(rule("var", "amount > ${LEAST}"))
    assert served("submit", "var.sql", "-D", "LEAST=10").exit_code == 0
    assert (user.fired(amount=10), user.fired(amount=11)) == (set(), {"var"})
    done = served("submit", "var.sql", "-D", "MOST=10")
    assert done.exit_code == 1
    assert "variable 'LEAST' has no value" in done.stderr
    (files / "shell.sql").write_text(rule("shell", "word LIKE '%${IFS}%'"))
    assert served("submit", "shell.sql").exit_code == 0
    assert user.fired("cat${IFS}x") == {"shell"}


def test_listing_and_showing(served: Sql, user: User, files: Path, data: Path) -> None:
    served("submit", "good.sql")
    (data / "jobs" / "broken.sql").write_text(BAD)
    listed = ""
    while "broken.sql" not in listed:
        done = served("jobs")
        listed = done.stderr
    assert re.search(r"(?m)^good +running +\d +cli good\.sql +\d+ +20", done.stdout)
    assert "unknown column 'idd'" in listed
    shown = served("jobs", "good").stdout
    assert GOOD in shown
    assert "state    running" in shown
    assert "INSERT INTO alerts" in served("history", "good").stdout
    assert "== operators ==" in served("explain", "good").stdout
    assert json.loads(served("explain", "good", "--output", "json").stdout)


def test_a_folder_is_many_jobs(served: Sql, user: User, files: Path) -> None:
    (files / "rules" / "night").mkdir(parents=True)
    (files / "rules" / ".git").mkdir()
    for name in ("a", "night/b", ".git/c"):
        (files / "rules" / f"{name}.sql").write_text(rule(name))
    assert served("submit", "rules").stdout == "a: added, version 1\nnight.b: added, version 1\n"
    assert user.fired() == {"a", "night/b"}
    (files / "rules" / "a.sql").write_text(BAD)
    for number in range(30):
        (files / "rules" / f"r{number}.sql").write_text(rule(f"r{number}"))
    done = served("submit", "rules")
    assert (done.exit_code, done.stdout) == (
        1,
        "a: refused\n32 jobs: 30 added, 1 refused, 1 unchanged\n",
    )
    assert done.stderr.splitlines() == [SHOWN[0].replace("bad.sql", "rules/a.sql"), *SHOWN[1:]]
    assert len(json.loads(served("validate", "rules", "--output", "json").stdout)["jobs"]) == 32
    (files / "empty").mkdir()
    assert "there is no .sql file in 'empty'" in served("submit", "empty").stderr
    assert served("submit", "rules", "--name", "one").exit_code == 2


def test_a_refusal_as_json(served: Sql, files: Path) -> None:
    for command in ("submit", "validate"):
        done = served(command, "bad.sql", "--output", "json")
        body = json.loads(done.stdout)
        assert (done.exit_code, body["name"], body["status"]) == (1, "bad", "refused")
        assert (body["error"]["line"], body["error"]["column"]) == (2, 15)


def test_a_job_of_any_origin_is_validated(served: Sql, files: Path) -> None:
    done = served("validate", "good.sql", "--name", "all")
    assert (done.exit_code, done.stdout) == (0, "all: valid, version 2\n" + WRITTEN)


def test_origin_and_file_of_each_version(served: Sql, files: Path, user: User) -> None:
    served("submit", "good.sql", "--name", "mixed")
    user.submit("mixed", rule("mixed", "amount = 3"))
    user.client.post(
        "/api/v1/jobs", {"jobs": {"mixed": rule("mixed")}, "files": {"mixed": "b/c.sql"}}
    )
    rows = [re.split("  +", line)[2] for line in served("history", "mixed").stdout.splitlines()]
    assert rows[-3:] == ["cli good.sql", "rest", "rest c.sql"]
    assert re.search(r"^mixed +running +3 +rest c\.sql +", served("jobs").stdout, re.MULTILINE)
    done = served("rollback", "mixed", "1")
    assert done.stdout.startswith("mixed: replaced, version 4")
    assert user.job("mixed")["origin"] == "cli"
    assert served("history", "mixed").stdout.splitlines()[-1].endswith("  as version 1")


def test_lists_in_a_pipe(served: Sql, files: Path) -> None:
    name = "x" * 190  # nothing is cut off
    served("submit", "good.sql", "--name", name)
    done = served("jobs")
    assert any(
        line.startswith(f"{name}  running  1        cli") for line in done.stdout.splitlines()
    )
    assert re.search(r"^\d+ jobs: \d+ running, 2 defined$", done.stderr.splitlines()[0])
    done = served("jobs", "--state", "failed")
    assert (done.stdout, done.stderr.splitlines()[0]) == ("", "no jobs")
    assert json.loads(served("jobs", "--state", "failed", "--output", "json").stdout)["jobs"] == []


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


def test_help_is_whole(sql: Sql) -> None:
    for path, command in commands(cli):
        assert [
            p.name for p in command.params if isinstance(p, click.Option) and not p.help
        ] == [], path
    for group in ((), ("topic",)):
        shown = sql(*group, "--help").stdout
        assert "..." not in shown.partition("Commands:")[2]  # a first sentence that did not fit
    assert "Exit codes: 0 done, 1 " in sql("--help").stdout


def test_what_the_server_refuses_exits_1(served: Sql, files: Path) -> None:
    for arguments, told in (
        (["start", "ghost"], "job 'ghost' does not exist"),
        (["stop", "ghost"], "job 'ghost' does not exist"),
        (["remove", "ghost"], "job 'ghost' does not exist"),
        (["history", "ghost"], "job 'ghost' does not exist"),
        (["jobs", "ghost"], "job 'ghost' does not exist"),
        (["explain", "ghost"], "job 'ghost' does not exist"),
        (["rollback", "all", "99"], "job 'all' has no version 99"),
        (["remove", "tables"], "is used by all"),
        (["submit", "binary.sql"], "'binary.sql' is not UTF-8"),
    ):
        done = served(*arguments)
        assert (done.exit_code, told in done.stderr) == (1, True), (arguments, done.output)


def test_no_server_exits_3(sql: Sql, files: Path) -> None:
    for arguments in (
        ["jobs"],
        ["submit", "good.sql"],
        ["topic", "list"],
        ["tail", "x"],
        ["explain", "x"],
    ):
        done = sql(*arguments)
        assert done.exit_code == 3
        assert "no server answers at http://127.0.0.1:9" in done.stderr
        assert "sql serve" in done.stderr


class _Stranger(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def stranger() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), _Stranger)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def rude() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-OpenSSH_9\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_other_servers_exit_3(sql: Sql, stranger: str, rude: str) -> None:
    for url in (stranger, rude):
        done = sql("jobs", "--server", url)
        assert done.exit_code == 3
        assert f"what answers at {url} is no sqlengine server" in done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "localhost:9",
        "ftp://x",
        "http://",
        "nonsense",
        "http://127.0.0.1:99999",
        "http://[::1",
        "127.0.0.1:port",
        "8083",
        ":8083",
        "::1:8083",
        "one two",
        "http:/x",
        "localhost:",
        f"{'x' * 64}.example.org",
    ],
)
def test_urls_that_are_none(sql: Sql, url: str) -> None:
    done = sql("jobs", "--server", url)
    assert done.exit_code in (1, 3), done.output
    assert url in done.stderr
    assert "hint:" in done.stderr


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "localhost:{}", "http://127.0.0.1:{}/"])
def test_a_server_by_host_and_port(
    served: Sql, user: User, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    address = form.format(user.client.server.rpartition(":")[2])
    assert served("jobs", "--server", address).exit_code == 0
    monkeypatch.setenv("SQLENGINE_SERVER", address)
    assert served("jobs").exit_code == 0
    with connect(address) as connection:
        assert "alerts" in connection.topics


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("[::1]:9000", "http://[::1]:9000"),
        ("[::1]", "http://[::1]:8083"),
        ("example.org", "http://example.org:8083"),
        ("example.org:80/engine/", "http://example.org:80/engine"),
        ("https://example.org", "https://example.org"),
    ],
)
def test_addresses_without_a_scheme(text: str, url: str) -> None:
    assert Client(text).server == url
    assert Client(url).server == url


def test_a_proxy_is_not_for_this_machine(served: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert served("jobs").exit_code == 0


def test_tokens(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for arguments, told in (
        (["jobs", "--token-file", "nowhere"], "the token file 'nowhere' cannot be read"),
        (["serve", "--token-file", "nowhere"], "the token file 'nowhere' cannot be read"),
        (["serve", "--token-file", "empty"], "the token file 'empty' holds no token"),
        (
            ["serve", "--host", "0.0.0.0", "--data", "d"],
            "refusing to listen on 0.0.0.0 without a token",
        ),
    ):
        done = sql(*arguments)
        assert (done.exit_code, told in done.stderr) == (1, True), done.output
    assert not (tmp_path / "d").exists()


def test_a_reader_that_goes_away(user: User, tmp_path: Path) -> None:
    user.topic("pipe")
    user.write("pipe", *(b"line" * 100 for _ in range(2000)))
    command = (
        f"{sys.executable} -m sqlengine.cli topic read pipe --server {user.client.server} | head -1"
    )
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("line" * 100 + "\n", "")


def test_of_many_jobs_that_use_a_definition_it_counts_those_that_fare_alike(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def outcome(n: int) -> Json:
        states = {0: ["kept"], 1: [], 2: ["kept", "reset"]}[2 if n == 30 else n % 2]
        state = [{"operator": "Over", "outcome": word, "reason": ""} for word in states]
        return {"name": f"j{n}", "status": "replanned", "version": 2, "state": state}

    draw_outcome(
        {
            "name": "base",
            "status": "valid",
            "version": 2,
            "dependents": [outcome(n) for n in range(40)],
        }
    )
    assert capsys.readouterr().out.splitlines() == [
        "base: valid, version 2",
        "  j30: replanned, state kept, state reset",
        "  40 jobs that use it: 20 replanned; 19 replanned, state kept; 1 replanned, state kept, state reset",
    ]


def test_history_tells_what_is_new_in_each_version(served: Sql) -> None:
    head = "-- @rule\n-- title: A rule\n"
    text = "CREATE TABLE hist (a INT) WITH ('connector' = 'topic', 'topic' = 'hist', 'format' = 'json')"
    served("submit", "-", "--name", "hist", stdin=head + text)
    served("submit", "-", "--name", "hist", stdin=head.replace("A rule", "Another") + text)
    first, second = served("history", "hist").stdout.splitlines()[-2:]
    assert "  CREATE TABLE hist (a INT)" in first
    assert second.endswith("  + -- title: Another")
    head = head.replace("A rule", "Another")
    served("submit", "-", "--name", "hist", stdin=head + text.replace("'json'", "'csv'"))
    assert served("history", "hist").stdout.rstrip().endswith("'hist', 'format' = 'csv')")


def test_a_rule_has_one_name_however_it_is_submitted(served: Sql, tmp_path: Path) -> None:
    (tmp_path / "rules" / "iot").mkdir(parents=True)
    (tmp_path / "rules" / "_tables.sql").write_text(
        "CREATE TABLE heats (a INT) WITH ('connector' = 'topic', 'topic' = 'heats', 'format' = 'json', 'topic.auto-create' = 'true')"
    )
    (tmp_path / "rules" / "iot" / "hot.sql").write_text("INSERT INTO heats SELECT a + 1 FROM heats")
    said = served("submit", "rules")
    assert "iot.hot: added, version 1" in said.stdout, said.stderr
    for same in ("rules/iot", "rules/iot/hot.sql"):
        assert "iot.hot: unchanged, version 1" in served("submit", same).stdout
