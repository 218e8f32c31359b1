"""Topics that jobs name and that are missing: created by the server, or waited for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sqlengine.broker.auto_create import WEEK_MS, AutoCreate
from sqlengine.cli import cli
from sqlengine.service import Service
from tests.service.harness import User, running
from tests.support import eventually


def copy(source: str, target: str = "copies", options: str = "") -> str:
    return f"""
CREATE TEMPORARY TABLE source (id BIGINT) WITH ('connector' = 'topic', 'topic' = '{source}',
  'format' = 'json', 'scan.startup.mode' = 'earliest-offset'{options});
CREATE TEMPORARY TABLE target (id BIGINT) WITH ('connector' = 'topic', 'topic' = '{target}',
  'format' = 'json');
INSERT INTO target SELECT id FROM source;"""


@pytest.fixture(scope="module")
def creating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """A user of a server with the defaults of `sql serve`."""
    data = tmp_path_factory.mktemp("creating") / "data"
    auto_create = AutoCreate(sources=True, retention_ms=WEEK_MS)
    with running(data, auto_create=auto_create) as (_, user):
        yield user


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, User]]:
    """A server that creates no topics, and its user."""
    data = tmp_path_factory.mktemp("strict") / "data"
    with running(data, auto_create=AutoCreate(sinks=False)) as (service, user):
        yield service, user


def topic(user: User, name: str) -> Any:
    listed: Any = user.client.get("/api/v1/topics")["topics"]
    return next((t for t in listed if t["name"] == name), None)


def test_topics_of_sources_and_sinks_are_created_and_told(creating: User) -> None:
    would = creating.submit("c", copy("seen", "c1"), dry_run="true")["topics"]
    assert [(t["text"], t["created"]) for t in would] == [
        ("topic 'seen' with 1 shard, kept 7 days", False),
        ("topic 'c1' with 1 shard, kept 7 days", False),
    ]
    assert (topic(creating, "seen"), topic(creating, "c1")) == (None, None)
    done = creating.submit("c", copy("seen", "c1"))
    assert [t["text"] for t in done["topics"] if t["created"]] == [t["text"] for t in would]
    assert topic(creating, "seen")["retention_ms"] == WEEK_MS
    creating.write("seen", {"id": 1})
    eventually(lambda: creating.read("c1") == [{"id": 1}], "the row")
    assert "topics" not in creating.submit("c", copy("seen", "c1", " "))


def test_a_table_says_how_its_topic_is_created(creating: User) -> None:
    options = ", 'topic.auto-create.shards' = '3', 'topic.auto-create.retention' = '12 h'"
    done = creating.submit("d", copy("wide", "c2", options))
    assert done["topics"][0]["text"] == "topic 'wide' with 3 shards, kept 12 hours"
    assert topic(creating, "wide")["shards"] == 3
    refused = creating.refused(
        lambda: creating.submit("e", copy("never", "c3", ", 'topic.auto-create' = 'false'"))
    )
    assert "'topic.auto-create' = 'true'" in (refused.hint or "")
    assert topic(creating, "never") is None


def test_a_misspelt_topic_is_told(creating: User) -> None:
    creating.topic("logins")
    creating.write("logins", {"id": 1})
    done = creating.submit("f", copy("logns", "c4"))
    assert [t.get("similar") for t in done["topics"]] == ["logins", None]
    hint = creating.job("f")["hint"]
    assert hint == "nothing is in topic 'logns', and no job writes to it: did you mean 'logins'?"
    creating.submit("g", copy("logins", "logns"))
    eventually(lambda: creating.job("f")["hint"] is None, "rows in the topic")
    assert creating.job("g")["hint"] is None


def test_clients_create_nothing_by_writing(creating: User) -> None:
    assert creating.refused(lambda: creating.write("other", {"id": 1})).status == 404


def test_a_file_that_names_a_missing_topic_is_tried_again(strict: tuple[Service, User]) -> None:
    service, user = strict
    folder = service.config.jobs_folder
    user.topic("copies")
    (folder / "late.sql").write_text(copy("later"))

    def refusal() -> str:
        files: Any = user.client.get("/api/v1/jobs")["refused_files"]
        return "".join(f["error"]["title"] + str(f["error"].get("hint")) for f in files)

    eventually(lambda: "sql topic create later" in refusal(), refusal)
    user.topic("later")
    eventually(lambda: user.states().get("late") == "running", refusal)
    eventually(lambda: refusal() == "", refusal)
    user.write("later", {"id": 7})
    eventually(lambda: user.read("copies") == [{"id": 7}], "the row")


@pytest.mark.parametrize("what", ["module", "folder"])
def test_a_file_that_names_something_else_that_is_missing_is_tried_again(
    strict: tuple[Service, User], tmp_path: Path, what: str
) -> None:
    service, user = strict
    user.topic("copies")
    path = tmp_path / "in"
    text = {
        "module": "CREATE FUNCTION later_f AS 'later_module.f' LANGUAGE PYTHON;",
        "folder": f"""CREATE TEMPORARY TABLE lines (line STRING)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'raw');
CREATE TEMPORARY TABLE target (line STRING) WITH ('connector' = 'topic', 'topic' = 'copies',
  'format' = 'json');
INSERT INTO target SELECT line FROM lines;""",
    }[what]
    (service.config.jobs_folder / f"{what}.sql").write_text(text)

    def refused() -> bool:
        files: Any = user.client.get("/api/v1/jobs")["refused_files"]
        return any(what in f["file"] for f in files)

    eventually(refused, lambda: str(user.states()))
    if what == "module":
        service.config.functions_folder.mkdir(exist_ok=True)
        (service.config.functions_folder / "later_module.py").write_text(
            "from sqlengine import udf\n\n\n@udf\ndef f(x: int) -> int:\n    return x\n"
        )
    else:
        path.mkdir()
    eventually(lambda: what in user.states() and not refused(), lambda: str(user.jobs()))


def test_a_topic_that_several_jobs_name_is_told_once(creating: User, tmp_path: Path) -> None:
    files = [tmp_path / f"j{n}.sql" for n in range(3)]
    for number, file in enumerate(files):
        file.write_text(copy("common", f"out{number}"))
    arguments = ["submit", *map(str, files), "--server", creating.client.server]
    shown = CliRunner().invoke(cli, arguments).output
    assert shown.count("created topic 'common' ") == 1
    assert shown.count("created topic 'out") == 3


def test_keys_of_one_text_column_are_found_as_they_are_written(creating: User) -> None:
    """Beside keys that a client gave."""
    creating.topic("keyed")
    creating.submit(
        "keyed",
        "CREATE TEMPORARY TABLE keyed (name STRING) WITH ('connector' = 'topic', 'topic' = 'keyed',"
        " 'format' = 'json', 'key.fields' = 'name');"
        "INSERT INTO keyed VALUES ('alice'), ('bob'), ('alicé'), ('')",
    )
    eventually(lambda: len(creating.read("keyed")) == 4)
    creating.client.post("/api/v1/topics/keyed/records", b'{"name": "given"}', key="bob")

    def found(key: str) -> list[str]:
        records: Any = creating.client.get("/api/v1/topics/keyed/records", key=key)["records"]
        return [json.loads(r["value"])["name"] for r in records]

    wanted = {"alice": ["alice"], "bob": ["bob", "given"], "alicé": ["alicé"], "": [""], "a": []}
    assert {key: found(key) for key in wanted} == wanted
