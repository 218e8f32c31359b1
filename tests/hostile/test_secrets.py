"""Secrets in options of tables: the connector has the value, and nobody else."""

from __future__ import annotations

import gc
import json
import os
import sys
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from parser.errors import PlanError, ServiceError, SqlError
from parser.types import BIGINT, Schema
from sqlengine.batch import from_pydict
from sqlengine.connectors.registry import open_sink
from sqlengine.system.hidden import MASK, hand_out, hidden, hidden_in_sql, hide, hide_handed_out
from sqlengine.system.secret_command import secret_command
from sqlengine.system.secrets import Secrets
from tests.connectors.tables import environment, table
from tests.service.harness import User, running
from tests.support import eventually

VALUE = "s3cret-value-9f2c"
IDS = Schema.of(id=BIGINT)
PRINTS = """CREATE TABLE shown (id BIGINT) WITH ('connector' = 'print', 'print-identifier' = '{}');
INSERT INTO shown SELECT id FROM events"""


def printed(options: dict[str, str], secrets: Secrets) -> list[str]:
    """What `print` writes for one row, with what its option refers to."""
    lines: list[str] = []
    made = table({"connector": "print", **options}, IDS)
    sink = open_sink(made, replace(environment(lines=lines), secrets=secrets))
    sink.write(from_pydict(IDS, {"id": [1]}))
    sink.commit(1)
    return lines


@pytest.mark.parametrize("place", ["variable", "file", "folder"])
def test_where_values_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    source: Path | None = tmp_path / "secrets"
    if place == "variable":
        source = None
        monkeypatch.setenv("SQLENGINE_SECRET_A.b-1", VALUE)
    elif place == "file" and source:
        source.touch(0o600)
        source.write_text(f"# comment\nOTHER=x\nA.b-1={VALUE}\n")
    elif source:
        source.mkdir()
        (source / "A.b-1").write_text(VALUE + "\n")
    (line,) = printed({"print-identifier": "<${secret:A.b-1}>"}, Secrets(source))
    assert line.startswith(f"<{VALUE}>")
    with pytest.raises(PlanError, match=r"secret 'B' is not there, for option 'print-identifier'"):
        printed({"print-identifier": "${secret:B}"}, Secrets(source))


def command(script: Path, text: str) -> Secrets:
    """A command that prints what a script in Python does, which has the name as its argument."""
    script.write_text(text)
    return Secrets(None, secret_command(f"{sys.executable} '{script}' --name={{name}}"))


def test_a_command_gives_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is an argument, and no text of a shell; it is asked once for a while."""
    asked = tmp_path / "asked"
    text = f"import sys; open({str(asked)!r}, 'a').write('.'); name = sys.argv[1]"
    secrets = command(tmp_path / "it", f"{text}\nprint('{VALUE}') if 'A' in name else sys.exit(3)")
    for _ in range(2):
        (line,) = printed({"print-identifier": "<${secret:A}>"}, secrets)
        assert line.startswith(f"<{VALUE}>")
    assert asked.read_text() == "."
    with pytest.raises(PlanError, match="secret 'B' is not there") as error:
        printed({"print-identifier": "${secret:B}"}, secrets)
    assert error.value.detail == "the command for secrets fails for it"
    monkeypatch.setenv("SQLENGINE_SECRET_B", VALUE)
    assert printed({"print-identifier": "<${secret:B}>"}, secrets)[0].startswith(f"<{VALUE}>")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import time; print('x', flush=True); time.sleep(60)", "takes longer than"),
        ("import os; os.closerange(1, 3); import time; time.sleep(60)", "takes longer than"),
        ("while True: print('x' * 10000)", "prints more than"),
        ("import sys; sys.stdout.buffer.write(bytes([255]))", "is not UTF-8"),
    ],
)
def test_commands_that_go_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    monkeypatch.setattr("sqlengine.system.secret_command.DEADLINE_S", 1.0)
    with pytest.raises(ServiceError, match="gives no secret 'A'") as error:
        printed({"print-identifier": "${secret:A}"}, command(tmp_path / "it", text))
    assert why in str(error.value.detail)
    for bad in ("", "pass show", "{name}", "pass 'show {name}"):
        with pytest.raises(ServiceError, match="the command for secrets is none"):
            secret_command(bad)


@pytest.mark.parametrize("name", ["../x", "..", "", "a/b", "a\0b"])
def test_names_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "x").write_text(VALUE)
    (tmp_path / "in").mkdir()
    with pytest.raises(PlanError, match="is no name of a secret"):
        printed({"print-identifier": f"${{secret:{name}}}"}, Secrets(tmp_path / "in"))


def test_a_file_that_others_may_read(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text(f"A={VALUE}")
    (tmp_path / "secrets").chmod(0o640)
    with pytest.raises(ServiceError, match="may be read or written by others"):
        Secrets(tmp_path / "secrets").check()


def test_an_error_does_not_tell_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connector names the option's value, which is a secret."""
    monkeypatch.setenv("SQLENGINE_SECRET_A", VALUE)
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "json"}
    made = table({**options, "json.timestamp-format.standard": "${secret:A}"}, IDS)
    with pytest.raises(SqlError) as error:
        open_sink(made, environment())
    assert VALUE not in f"{error.value}{error.value.hint}{error.value.detail}"
    with pytest.raises(PlanError, match="takes no secret"):
        open_sink(table({**options, "path": "/x/${secret:A}"}, IDS), environment())


def test_an_option_that_takes_no_secret(tmp_path: Path) -> None:
    """It is refused where its table is defined, with what to write instead, and where it stands."""
    text = (
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'jdbc', 'table-name' = 't',\n"
        "'url' = 'jdbc:mysql://app:${secret:PW}@h/db')"
    )
    with running(tmp_path / "data") as (_, user):
        error = user.refused(lambda: user.submit("defs", text))
    assert "'url' of table 't' says where the table is, and takes no secret" in error.message
    assert "'username' and 'password' = '${secret:NAME}'" in str(error.body["hint"])
    assert error.body["line"] == 2


def test_a_server_shows_references(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Value and reference, everywhere in a server and its folder; a job beside is exact."""
    data = tmp_path / "data"
    with running(data) as (_, user):
        user.prepare()
        error = user.refused(lambda: user.submit("shows", PRINTS.format("${secret:TOKEN}")))
        assert "secret 'TOKEN' is not there" in str(error)
        monkeypatch.setenv("SQLENGINE_SECRET_TOKEN", VALUE)
        user.submit("shows", PRINTS.format("${secret:TOKEN}"))
        user.write("events", user.event("x"))
        out = ""

        def shown() -> bool:
            nonlocal out
            out += capfd.readouterr().out
            return f"{VALUE}> +I[1]" in out

        eventually(shown, "the row with the value")
        eventually(lambda: [a["id"] for a in user.read("alerts")] == [1], "the job beside")
        told = everything(user)
        assert "${secret:TOKEN}" in told
        assert VALUE not in told
    assert VALUE not in caplog.text
    for folder, _, names in os.walk(data):
        for name in names:
            assert VALUE.encode() not in Path(folder, name).read_bytes(), name


def everything(user: User) -> str:
    """What REST tells of the job."""
    get = user.client.get
    told = [json.dumps(get(f"/api/v1/jobs/shows{p}")) for p in ("", "/history")]
    told.append(user.client.get_text("/api/v1/jobs/shows/explain"))
    return "\n".join([*told, json.dumps(get("/api/v1/jobs")), user.client.get_text("/metrics")])


def test_a_secret_that_is_a_word_hides_no_names() -> None:
    """A text of SQL that is shown can be run again; what a server says is hidden anywhere."""
    hand_out("first")
    text = "INSERT INTO first_logins SELECT 'https://u:first@host' FROM t"
    assert hidden_in_sql(text) == text.replace(":first@", ":******@")
    assert hidden("the server says 00first") == "the server says 00******"


def test_a_secret_of_a_letter_hides_no_words() -> None:
    error = hide(PlanError("this text has 'x'", hint="see all texts"), ["x"])
    assert (error.message, error.hint) == (f"this text has '{MASK}'", "see all texts")


def test_many_secrets_push_out_none_that_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever defines many, or has long texts shown, learns no other's; what nobody uses is
    dropped in time. One that is made of two counts as well."""
    monkeypatch.setenv("SQLENGINE_SECRET_A", VALUE)
    options = {"connector": "webhook", "url": "http://localhost:1/", "format": "json"}
    made = table({**options, "username": "u", "password": "${secret:A}"}, IDS)
    sink = open_sink(made, environment())
    pair = b64encode(f"u:{VALUE}".encode()).decode()
    for n in range(10_100):
        hand_out(f"another-{n}")
    said = f"host said {VALUE}, {pair}"
    for text in (said, said.ljust(20_000)):
        assert hidden(text).strip() == f"host said {MASK}, {MASK}"
        assert hidden_in_sql(text).strip() == f"host said {MASK}, {MASK}"
    assert hide_handed_out(PlanError(said)).message == f"host said {MASK}, {MASK}"
    assert hidden("another-0 another-10099") == f"another-0 {MASK}"
    sink.close()
    del sink
    gc.collect()
    for n in range(10_100):
        hand_out(f"another-{n}")
    assert hidden(said) == said


def test_a_table_with_very_many_secrets_is_refused() -> None:
    options = {f"header.h{n}": f"${{secret:A{n}}}" for n in range(101)}
    with pytest.raises(PlanError, match="table 't' has 101 secrets, at most 100 are taken"):
        Secrets().fill(options, "t")


CLOSED = {
    "mqtt": "'connector' = 'mqtt', 'server' = 'tcp://127.0.0.1:1', 'topic' = 't', 'client-id' = '{}', 'format' = 'json'",
    "postgres": "'connector' = 'postgres-cdc', 'hostname' = '127.0.0.1', 'port' = '1', 'username' = '{0}',"
    " 'password' = '{0}', 'database-name' = '{0}', 'table-name' = 't', 'slot.name' = 's'",
    "mysql": "'connector' = 'mysql-cdc', 'hostname' = '{0}', 'port' = '1', 'username' = '{0}', 'password' = '{0}',"
    " 'database-name' = 'd', 'table-name' = 't'",
}


def test_a_connection_is_named_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a table takes messages or changes is a label of metrics, and is kept on disk."""
    monkeypatch.setenv("SQLENGINE_SECRET_A", VALUE)
    data = tmp_path / "data"
    with running(data) as (_, user):
        for name, options in CLOSED.items():
            given = options.format("${secret:A}")
            key = "" if name == "mqtt" else ", PRIMARY KEY (id) NOT ENFORCED"
            user.submit(
                name,
                f"CREATE TABLE {name}_in (id BIGINT{key}) WITH ({given});"
                f"CREATE TABLE {name}_out (id BIGINT) WITH ('connector' = 'blackhole');"
                f"INSERT INTO {name}_out SELECT id FROM {name}_in",
            )
        told = user.client.get_text("/metrics") + json.dumps(user.client.get("/api/v1/metrics"))
        assert "as '${secret:A}'" in told
        assert "127.0.0.1:1/${secret:A} slot 's'" in told
        assert VALUE not in told
    for folder, _, names in os.walk(data):
        for name in names:
            assert VALUE.encode() not in Path(folder, name).read_bytes(), name
