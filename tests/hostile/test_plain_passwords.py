"""Passwords that are written plainly: the connector has them, and nobody else."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sqlengine.broker.remote.client import connect
from sqlengine.cli import main
from sqlengine.client import Refused
from sqlengine.connectors.plain_secrets import masked, plain_values
from sqlengine.connectors.registry import connector_names, get_connector
from sqlengine.connectors.secret_names import is_secret
from tests.service.harness import TABLES, User, running
from tests.support import eventually

PRIVATE = "secrets"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("CREATE TABLE t (a INT) WITH ('password' = 'p''1')", "WITH ('password' = '******')"),
        ("CREATE TABLE t (a INT) WITH ('password' = '${secret:P}')", "('password' = '${secret:P}')"),
        ("ALTER TABLE t SET ('ssl.keystore.password' = 'x y')", "SET ('ssl.keystore.password' = '******')"),
        ("SELECT 1 FROM t /*+ OPTIONS('a.token'='x') */", "/*+ OPTIONS('a.token'='******') */"),
        (
            "CREATE TABLE t (a INT) WITH ('url' = 'jdbc:mysql://u:x@h/d?password=x&z=1')",
            "('url' = 'jdbc:mysql://u:******@h/d?password=******&z=1')",
        ),
        (
            "CREATE TABLE t (a INT) WITH ('properties.sasl.jaas.config' = 'password=\"x\";')",
            "('properties.sasl.jaas.config' = '******')",
        ),
        ("-- don't: 'password' = 'x'\nSELECT 1; SET 'a' = 'b'", "'password' = '******'"),
        ("CREATE TABLE t (a INT) WITH ('password' = U&'\\0078x')", "('password' = '******')"),
        ("CREATE TABLE t (a INT) WITH ('password' = E'\\'x')", "('password' = '******')"),
        ("CREATE TABLE t (a INT) WITH ('password' = 'never closed", "('password' = '******'"),
        # What is no option stays as it is.
        ("SELECT 1 FROM t WHERE 'password' = 'x'", "WHERE 'password' = 'x'"),
        ("CREATE TABLE t (a INT) WITH ('key.fields' = 'x')", "('key.fields' = 'x')"),
    ],
)  # fmt: skip
def test_what_is_shown_of_a_text(text: str, shown: str) -> None:
    assert masked(text).endswith(shown) or shown in masked(text)


class Life:
    """A server, a database and passwords that can be recognised."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.database = folder / "app.db"
        self.folder = folder
        self.passwords: list[str] = []
        with sqlite3.connect(self.database) as database:
            database.execute("CREATE TABLE rows_of_job (id BIGINT)")

    def password(self) -> str:
        self.passwords.append(f"pw-{secrets.token_hex(8)}")
        return self.passwords[-1]

    def text(self, password: str, more: str = "", where: str = "TRUE") -> str:
        return f"""SET 'job.unknown-options' = 'ignore';
        -- was 'password' = '{password}'
        CREATE TABLE db (id BIGINT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{self.database}',
        'table-name' = 'rows_of_job', 'password' = '{password}'{more});
        INSERT INTO db SELECT id FROM events WHERE {where}"""

    def rows(self) -> list[int]:
        with sqlite3.connect(self.database) as database:
            return [row[0] for row in database.execute("SELECT id FROM rows_of_job ORDER BY id")]

    def running(self, **options: Any) -> Any:
        return running(self.data, files=(self.folder,), **options)

    def search(self) -> None:
        """No password in any file but those of the private store."""
        for folder, _, names in os.walk(self.data):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and path.relative_to(self.data).parts[0] != PRIVATE:
                    self.check(path.read_bytes(), str(path))

    def check(self, told: bytes | str, where: str) -> None:
        data = told.encode() if isinstance(told, str) else told
        for password in self.passwords:
            assert password.encode() not in data, f"{password} in {where}"


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


def answers(user: User) -> Iterator[tuple[str, str]]:
    """Yields what every GET route says, of all jobs, topics and the like that there are."""
    spec: Any = user.client.get("/api/v1/openapi.json")
    jobs = [j["name"] for j in user.jobs()] or ["none"]
    topics: Any = user.client.get("/api/v1/topics")
    names = {"name": jobs, "job": jobs, "topic": [t["name"] for t in topics["topics"]]}
    for path, methods in spec["paths"].items():
        if "get" not in methods:
            continue
        parameter = path.partition("{")[2].partition("}")[0]
        values = names["topic"] if "/topics/" in path else names.get(parameter, ["none"])
        for value in values if parameter else [""]:
            yield (url := path.replace(f"{{{parameter}}}", value)), told_by(user, url)


def told_by(user: User, url: str) -> str:
    try:
        return user.client.get_text(url)
    except Refused as error:
        return f"{error} {error.body}"


def everywhere(life: Life, user: User) -> None:
    seen = set()
    for url, told in answers(user):
        life.check(told, url)
        seen.add(url)
    assert {"/api/v1/jobs/keeps", "/api/v1/jobs/keeps/history"} <= seen
    life.search()


def test_a_whole_life(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    """Submitted, replaced, refused, explained, saved, restarted, rolled back, removed; with another
    job beside."""
    first, second = life.password(), life.password()
    url = f", 'proxy' = 'http://u:{life.password()}@h', 'properties.ssl.key.password' = '{second}'"
    with life.running() as (_, user):
        user.prepare()
        done = user.submit("keeps", life.text(first))
        assert any("'password' are written plainly" in w for w in done["warnings"])
        user.write("events", user.event())
        eventually(lambda: life.rows() == [1], "the row in the database")
        assert user.submit("keeps", life.text(first))["status"] == "unchanged"
        assert "'password' = '******'" in user.job("keeps")["sql"]
        assert user.submit("keeps", life.text(second, url))["status"] == "replaced"
        for wrong in ("id + ", "nothing > 1", f"id = '{second}' AND 'password' '{second}'"):
            error = user.refused(lambda w=wrong: user.submit("keeps", life.text(second, url, w)))
            life.check(f"{error} {error.body}", "the refusal")
        life.check(json.dumps(user.command(op="validate", name="x", sql="x")), "an answer")
        life.check(json.dumps(user.command(op="history", name="keeps")), "an answer")
        told: Any = user.client.post("/api/v1/jobs/keeps/stop", b"", savepoint="true")
        assert told["savepoint"]
        user.client.post("/api/v1/jobs/keeps/start", b"")
        shown: Any = user.client.post("/api/v1/queries", b"SHOW CREATE TABLE db")
        assert "'password' = '******'" in json.dumps(shown)
        hinted = f"SELECT * FROM nothing /*+ OPTIONS('password'='{second}') */"
        error = user.refused(lambda: user.client.post("/api/v1/queries", hinted.encode()))
        life.check(f"{error} {error.body} {json.dumps(shown)}", "the answers to queries")
        everywhere(life, user)
    with life.running() as (_, user):
        assert user.submit("keeps", life.text(second, url))["status"] == "unchanged"
        user.write("events", {"id": 2, "word": "", "amount": 0})
        eventually(lambda: life.rows() == [1, 2], "the row after the restart")
        user.client.post("/api/v1/jobs/keeps/rollback", b"", version=1)
        user.write("events", {"id": 3, "word": "", "amount": 0})
        eventually(lambda: life.rows() == [1, 2, 3], "the row after the rollback")
        everywhere(life, user)
        user.client.delete("/api/v1/jobs/keeps")
        eventually(lambda: len(user.read("alerts")) == 3, "the job beside")
        life.search()
    life.check(caplog.text, "the log")
    store = life.data / PRIVATE
    assert store.stat().st_mode & 0o777 == 0o700
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in store.iterdir())


def test_the_command_topic(life: Life) -> None:
    """A command is executed with its password, and kept without it."""
    password = life.password()
    with life.running() as (_, user):
        user.prepare()
        text = life.text(password)
        assert user.command(op="submit", name="keeps", sql=text)["status"] == "added"
        again = {"op": "submit", "name": "keeps", "sql": text, "sealed": "0" * 32}
        assert user.command(**again)["status"] == "unchanged"
        order = {"id": "r1", "op": "submit", "name": "keeps", "sql": life.text(life.password())}
        with closing(connect(user.client.server)) as remote:
            remote.append("_commands", 0, [json.dumps(order).encode()], timestamp_ms=0)
        told = lambda: [a for a in user.read("_command_results") if a["id"] == "r1"]  # noqa: E731
        assert eventually(told, "the answer")[0]["status"] == "replaced"
        user.write("events", user.event())
        eventually(life.rows, "the row in the database")
        assert not list((life.data / PRIVATE / "commands").glob("?" * 32))
        everywhere(life, user)


def test_a_mask_keeps_what_the_job_had(life: Life) -> None:
    first, second = life.password(), life.password()
    with life.running() as (_, user):
        user.prepare()
        user.submit("keeps", life.text(first))
        shown = user.job("keeps")["sql"]
        assert user.submit("keeps", shown)["status"] == "unchanged"
        assert user.submit("keeps", shown.replace("TRUE", "id > 0"))["status"] == "replaced"
        user.write("events", user.event())
        eventually(lambda: life.rows() == [1], "the row in the database")
        assert user.submit("keeps", shown.replace("******", second))["status"] == "replaced"
        error = user.refused(lambda: user.submit("other", shown.replace(" db", " db2")))
        assert "option 'password' of table 'db2' has '******'" in str(error)
        everywhere(life, user)


def evil(life: Life) -> str:
    """Another database, of somebody who would like to have the password."""
    path = life.folder / "evil.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE IF NOT EXISTS rows_of_job (id BIGINT)")
    return f"jdbc:sqlite:{path}"


def test_nobody_gets_a_password_that_he_does_not_know(life: Life) -> None:
    """Neither by a mask, nor by LIKE, a hint, ALTER or the mark itself: it goes where it was given
    for, or must be written again."""
    password = life.password()
    with life.running() as (service, user):
        user.prepare()
        user.submit("keeps", life.text(password))
        shown, url = user.job("keeps")["sql"], evil(life)
        mark = service.engine.history("keeps")[-1].sql.partition("${sealed:")[2][:32]
        marked = f"'print-identifier' = '${{sealed:{mark}}}'"
        insert = "INSERT INTO d SELECT id FROM events"
        like = f"LIKE db (OVERWRITING OPTIONS); {insert}"
        alter = f"ALTER TABLE db SET ('url' = '{url}'"
        tries = [
            shown.replace(f"jdbc:sqlite:{life.database}", url),
            f"CREATE TABLE d WITH ('url' = '{url}') {like}",
            f"INSERT INTO db /*+ OPTIONS('url' = '{url}') */ SELECT id FROM events",
            f"CREATE TABLE d (id BIGINT) WITH ('connector' = 'print', {marked}); {insert}",
        ]
        for number, text in enumerate(tries):
            name = "keeps" if number == 0 else f"t{number}"
            error = user.refused(lambda n=name, t=text: user.submit(n, t))
            assert "was given for another place" in str(error), text
        statements = user.client.post
        error = user.refused(lambda: statements("/api/v1/statements", f"{alter})".encode()))
        assert "was given for another place" in str(error)
        # Who knows it may say where it goes; options that do not say where are free.
        assert user.submit("more", f"CREATE TABLE d WITH ('sink.max-retries' = '1') {like}")
        statements("/api/v1/statements", f"{alter}, 'password' = '{password}')".encode())
        everywhere(life, user)


def runs(user: User, version: int) -> bool:
    return user.states().get("keeps") == "running" and user.job("keeps")["version"] == version


def has_rows(life: Life, ids: list[int]) -> bool:
    return life.rows() == ids


def test_the_watched_folder(life: Life) -> None:
    """The same file is no new version, also after a restart; a new password is one."""
    folder = life.data / "jobs"
    folder.mkdir(parents=True)
    password = life.password()
    (folder / "keeps.sql").write_text(life.text(password))
    (folder / "others.sql").write_text(TABLES)
    for life_number in range(2):
        with life.running(jobs=folder) as (_, user):
            user.topic("events")
            eventually(partial(runs, user, version=1), "the job of the file")
            user.write("events", {"id": life_number, "word": "", "amount": 0})
            eventually(partial(has_rows, life, [0, 1][: life_number + 1]), "the rows")
            assert user.job("keeps")["version"] == 1
            if life_number:
                (folder / "keeps.sql").write_text(life.text(life.password()))
                eventually(partial(runs, user, version=2), "the new version")
    (folder / "keeps.sql").unlink()
    life.search()


@pytest.mark.slow
def test_a_data_folder_of_before(life: Life) -> None:
    """Passwords that stand in the job log of an older version stay there, and are masked."""
    password = life.password()
    with life.running() as (service, user):
        user.prepare()
        user.submit("keeps", life.text(password))
        log = service.engine.log
        written = replace(log.version("keeps", 1), sql=life.text(password))
        service.engine.broker.append(
            "_jobs", 0, [msgspec.json.encode(written)], keys=[b"version:keeps@1"], timestamp_ms=1
        )
    shutil.rmtree(life.data / PRIVATE)
    with life.running() as (_, user):
        assert user.submit("keeps", life.text(password))["status"] == "unchanged"
        assert "'password' = '******'" in user.job("keeps")["sql"]
        shown = user.job("keeps")["sql"]
        assert user.submit("keeps", shown)["status"] == "unchanged"
        # Another job may define the same table.
        same = life.text(password).partition("INSERT")[0]
        assert user.submit("same", f"{same} INSERT INTO db SELECT id + 100 FROM events")
        user.write("events", user.event())
        eventually(lambda: life.rows() == [1, 101], "the rows of both")
        for url, told in answers(user):
            if "/topics/_jobs/" not in url:
                life.check(told, url)


def test_places_of_errors_are_those_of_the_text(life: Life) -> None:
    with life.running() as (_, user):
        user.prepare()
        text = life.text(life.password(), ", 'nosuch' = 'y'").partition("\n")[2]
        body = user.refused(lambda: user.submit("wrong", text)).body
        line = text.splitlines()[int(str(body["line"])) - 1]
        assert line[int(str(body["column"])) - 1 :].startswith("'nosuch'")


def test_a_warning_names_each_place_and_its_remedy(life: Life) -> None:
    """A URL takes no reference."""
    text = (
        "CREATE TABLE m (id BIGINT) WITH ('connector' = 'jdbc', 'table-name' = 't',\n"
        f"'password' = '{life.password()}',\n'url' = 'jdbc:mysql://app:{life.password()}@h/db')"
    )
    with life.running() as (_, user):
        (warning,) = user.submit("defs", text)["warnings"]
    assert warning == (
        "2:14: 'password', 3:9: 'url' are written plainly; '${secret:NAME}' refers to one that is"
        " kept elsewhere; leave it out of 'url', and write 'username' and 'password' ="
        " '${secret:NAME}'"
    )


def test_what_the_command_line_tells(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    """`sql secrets check` names options, of files and of jobs; the line of an error is masked."""
    file = life.folder / "keeps.sql"
    file.write_text(life.text(life.password()).replace("SELECT id", "SELECT oh"))

    def told(command: list[str]) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(command)
        said = "".join(capsys.readouterr())
        life.check(said, str(command))
        return int(str(ended.value.code)), said

    code, said = told(["secrets", "check", str(file)])
    assert (code, "4:52: 'password' of table 'db' is written plainly" in said) == (1, True), said
    one_line = life.folder / "line.sql"
    one_line.write_text(" ".join(file.read_text().split("\n")[2:]).strip())
    code, said = told(["run", str(one_line)])
    assert (code, "unknown table 'events'" in said) == (1, True)
    with life.running() as (service, user):
        user.prepare()
        server = ["--server", f"http://127.0.0.1:{service.port}"]
        assert told(["secrets", "check", *server])[0] == 0
        for refused in (file, one_line):
            code, said = told(["submit", str(refused), *server])
            assert (code, "'oh'" in said) == (1, True)
            line, caret = (t for t in said.splitlines() if t.startswith("  | "))
            assert line[caret.index("^") :].startswith("oh FROM events")
        user.submit("keeps", file.read_text().replace("oh", "id"))
        code, said = told(["secrets", "check", *server])
        assert (code, "keeps:4:52: 'password' of table 'db'" in said) == (1, True), said


def test_a_job_that_waits_for_a_table(life: Life) -> None:
    """Its password is given once, and goes where its table is when the other one has come."""
    folder = life.data / "jobs"
    folder.mkdir(parents=True)
    with life.running(jobs=folder) as (_, user):
        user.topic("events")
        (folder / "keeps.sql").write_text(life.text(life.password()))
        eventually(lambda: user.states().get("keeps") == "waiting", "the job of the file")
        user.submit("tables", TABLES)
        eventually(lambda: user.states()["keeps"] == "running", "the job that has waited")
        user.write("events", user.event())
        eventually(lambda: life.rows() == [1], "the row in the database")
        (folder / "keeps.sql").unlink()
        life.search()


def test_options_of_all_connectors() -> None:
    """What is called like a secret is declared to be one, or not to be."""
    declared = {
        (connector.name, name): option.secret
        for connector in map(get_connector, connector_names())
        if connector is not None
        for name, option in connector.options.items()
        if option.secret or is_secret(name, {})
    }
    assert declared[("jdbc", "password")], "that of `Life`"
    assert [name for name, secret in declared.items() if not secret] == [("rocketmq", "accessKey")]
    assert declared[("rocketmq", "accessKey")] is False


PARTS = [
    "'",
    "`",
    "/*",
    "--",
    "WITH /*",
    "WITH ('",
    "'a''",
    "://a:",
    "E'\\",
    "'=",
    "TABLE a.",
    "a.",
]


@pytest.mark.parametrize("part", PARTS)
def test_texts_that_take_long_to_scan(part: str) -> None:
    text = f"{part * 50_000} WITH ('a' = 'b'"
    began = time.thread_time()
    assert "******" not in masked(text)
    assert plain_values(text) == []
    assert time.thread_time() - began < 5


def test_references_that_are_not_closed() -> None:
    """They are no references, and are read once: one call that no other thread gets into."""
    began = time.thread_time()
    text = f"WITH ('password' = '{'${secret:' * 100_000}')"
    assert masked(text) == "WITH ('password' = '******')"
    assert len(plain_values(text)) == 1
    assert time.thread_time() - began < 5


@pytest.mark.slow
def test_a_backup_without_the_store(life: Life) -> None:
    """The job says which password it needs; another one runs beside."""
    with life.running() as (_, user):
        user.prepare()
        user.submit("keeps", life.text(life.password()))
    shutil.rmtree(life.data / PRIVATE)
    with life.running() as (_, user):
        assert user.fired() == set()  # by the job beside
        why = "the secret in option 'password' of table 'db' is not known here"
        eventually(lambda: why in (user.job("keeps")["reason"] or ""), "the reason")
        everywhere(life, user)
