"""Dead letters: whose they are, where the row and the expression stand, and their replay, exactly
once."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.cli import cli
from sqlengine.executors.epochs import EpochRecord, Replay, ReplayedRecord, TopicEpochLog
from sqlengine.executors.replays import statements_of
from tests.service.harness import Process, User, rule, running
from tests.support import eventually

TABLE = (
    "CREATE TABLE wide (id BIGINT, n INT) WITH ('connector' = 'topic', 'topic' = 'wide', 'format' ="
    " 'json');\n"
)
WIDER = TABLE.replace("n INT", "n STRING")
COPY = """CREATE TABLE copies (id BIGINT, n STRING) WITH ('connector' = 'topic', 'topic' = 'copies', 'format' = 'json');
INSERT INTO copies SELECT id, CAST(n AS STRING) FROM wide"""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with running(tmp_path / "data") as (_, found):
        found.prepare()
        yield found


def letters(user: User, job: str | None = None, **query: object) -> list[dict[str, Any]]:
    url = "/api/v1/dead-letters" if job is None else f"/api/v1/jobs/{job}/dead-letters"
    found: Any = user.client.get(url, **query)["letters"]
    return list(found)


def replay(user: User, job: str, body: object = b"", **query: object) -> Any:
    return user.client.post(f"/api/v1/jobs/{job}/dead-letters/replay", body, **query)  # type: ignore[arg-type]


def alerts(user: User, name: str) -> list[int]:
    return [a["id"] for a in user.read("alerts") if a["rule"] == name]


def test_a_letter_names_statement_expression_record_and_reason(user: User) -> None:
    user.submit("divide", "-- what follows divides\n" + rule("divide", "100 / amount > 5"))
    event = user.event("x", 0)
    offset = user.write("events", event)
    (letter,) = eventually(lambda: letters(user, "divide"))
    assert (letter["job"], letter["version"], letter["line"]) == ("divide", 1, 2)
    assert (
        letter["sql"].split("\n")[1][letter["column"] - 1 :].startswith("/ amount")
        or "100 / amount" in letter["sql"]
    )
    assert (letter["stored"], letter["shard"], letter["offset"]) == ("events", "0", offset)
    assert letter["table"].endswith(".events")
    assert "zero" in letter["reason"]
    assert json.loads(letter["payload"])["id"] == event["id"]
    assert letter["replayed"] == []


def test_jobs_that_share_an_expression_have_a_letter_each(user: User) -> None:
    """Each with its place in its own text, also after the first of them is gone."""
    for name, text in (("one", ""), ("two", "\n\n")):
        user.submit(name, text + f"INSERT INTO alerts SELECT '{name}', 10 / amount FROM events")
    offset = user.write("events", user.event("x", 0))
    eventually(lambda: letters(user, "one") and letters(user, "two"))
    assert (
        [x["offset"] for x in letters(user, "one")]
        == [x["offset"] for x in letters(user, "two")]
        == [offset]
    )
    assert [letters(user, n)[0]["line"] for n in ("one", "two")] == [1, 3]
    user.client.delete("/api/v1/jobs/one")
    user.write("events", user.event("x", 0))
    assert eventually(lambda: letters(user, "two")[1:])[0]["job"] == "two"
    assert len(letters(user)) == 3


def test_a_failed_row_arrives_once_after_the_job_was_put_right(user: User) -> None:
    user.submit("divide", rule("divide", "100 / amount >= 0"))
    user.submit("other", rule("other", "100 / amount >= 0"))
    events = [user.event("x", n) for n in (1, 0, 2, 0)]
    user.write("events", *events)
    bad = [e["id"] for e in events if e["amount"] == 0]
    eventually(lambda: len(letters(user, "divide")) == len(letters(user, "other")) == 2)
    user.submit("divide", rule("divide", "amount = 0 OR 100 / amount >= 0"))
    first = replay(user, "divide", limit=1)
    assert (len(first["replayed"]), first["refused"]) == (1, [])
    assert len(replay(user, "divide")["replayed"]) == 1
    assert replay(user, "divide")["replayed"] == []
    user.fired("x", 1)
    found = alerts(user, "divide")
    assert Counter(found) == Counter([*(e["id"] for e in events), found[-1]])
    assert not set(bad) & set(alerts(user, "other"))
    assert [x["replayed"] for x in letters(user, "divide")] == [["divide"]] * 2
    assert [x["replayed"] for x in letters(user, "other")] == [[]] * 2


def test_a_malformed_record_is_read_again_by_the_table_as_it_is_now(user: User) -> None:
    """Only by the job that asks."""
    user.topic("wide")
    user.topic("copies")
    user.submit("wide", TABLE)
    user.submit("copy", COPY)
    user.write("wide", b'{"id": 1, "n": 1}', b'{"id": 2, "n": "many"}')
    (letter,) = eventually(lambda: letters(user, "copy"))
    assert (letter["job"], letter["subject"], letter["offset"]) == ("", "wide", 1)
    user.client.post("/api/v1/jobs", {"jobs": {"wide": WIDER, "copy": COPY + " "}})
    assert replay(user, "copy")["replayed"] == [letter["id"]]
    assert replay(user, "copy")["replayed"] == []
    eventually(lambda: len(user.read("copies")) == 2)
    assert [(r["id"], str(r["n"])) for r in user.read("copies")] == [(1, "1"), (2, "many")]
    assert letters(user, table="wide")[0]["replayed"] == ["copy"]


def test_a_row_that_fails_again_is_another_letter(user: User) -> None:
    user.submit("divide", rule("divide", "100 / amount > 5"))
    user.write("events", user.event("x", 0))
    eventually(lambda: letters(user, "divide"))
    done = replay(user, "divide")
    assert len(done["replayed"]) == 1
    first, second = eventually(
        lambda: letters(user, "divide") if len(letters(user, "divide")) > 1 else None
    )
    assert done["failed"] == [second["id"]]
    assert (first["replayed"], second["replayed"]) == (["divide"], [])
    assert first["offset"] == second["offset"]


def test_only_the_statement_that_lost_the_row_gets_it(user: User) -> None:
    user.topic("copies")
    both = (
        TABLE
        + COPY
        + ";\n"
        + rule("both", "100 / {} >= 0").replace("FROM events", "FROM wide").replace("{}", "n")
    )
    user.topic("wide")
    user.submit("both", both)
    user.write("wide", b'{"id": 7, "n": 0}')
    eventually(lambda: letters(user, "both") and user.read("copies"))
    user.submit("both", both.replace("100 / n >= 0", "n = 0 OR 100 / n >= 0"))
    assert len(replay(user, "both")["replayed"]) == 1
    assert eventually(lambda: alerts(user, "both")) == [7]
    assert [r["id"] for r in user.read("copies")] == [7]


def test_what_cannot_be_replayed_exactly_is_refused(user: User) -> None:
    text = (
        "INSERT INTO counts SELECT COUNT(*), MIN(10 / id) FROM TABLE(TUMBLE(TABLE timed,"
        " DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end"
    )
    user.submit("window", text)
    user.write("timed", b'{"id": 0, "ts": "2024-01-01 00:00:01"}', b'{"id": 1, "ts": "x"}')
    eventually(lambda: len(letters(user, "window")) == 2)
    done = replay(user, "window")
    assert done["replayed"] == []
    assert {r["reason"].partition(",")[0] for r in done["refused"]} == {"the statement keeps state"}
    assert "does not exist" in user.refused(lambda: replay(user, "nobody")).message
    user.client.post("/api/v1/jobs/window/stop")
    assert "does not run" in user.refused(lambda: replay(user, "window")).message


def test_a_job_that_has_read_the_record_again_by_itself_does_not_get_it(user: User) -> None:
    user.submit("divide", rule("divide", "100 / amount >= 0"))
    user.write("events", user.event("x", 0))
    eventually(lambda: letters(user, "divide"))
    table = (
        "CREATE TEMPORARY TABLE again (id BIGINT, amount INT) WITH ('connector' = 'topic', 'topic'"
        " = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');"
    )
    user.client.delete("/api/v1/jobs/divide")
    user.submit(
        "divide",
        table
        + "INSERT INTO alerts SELECT 'divide', id FROM again WHERE amount = 0 OR 100 / amount >= 0",
    )
    eventually(lambda: alerts(user, "divide"))
    (refused,) = replay(user, "divide")["refused"]
    assert refused["reason"]
    assert len(alerts(user, "divide")) == 1


def test_pages(user: User) -> None:
    user.write("events", *[b"nonsense"] * 5)
    eventually(lambda: len(letters(user)) == 5)
    first: Any = user.client.get("/api/v1/dead-letters", after=-1, limit=2)
    assert [x["id"] for x in first["letters"]] == [0, 1]
    assert [x["id"] for x in letters(user, after=first["next"])] == [2, 3, 4]
    assert [x["id"] for x in letters(user, limit=2)] == [3, 4]
    assert letters(user, since=2**50) == []
    assert letters(user, table="other") == []
    assert "whole number" in user.refused(lambda: letters(user, limit="x")).message


def test_the_command_line(user: User) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(cli, [*arguments, "--server", user.client.server])

    user.submit("divide", rule("divide", "100 / amount >= 0"))
    user.write("events", user.event("x", 0), b"nonsense")
    eventually(lambda: len(letters(user, "divide")) == 2)
    shown = run("dead-letters", "divide").output
    assert "job divide, version 1" in shown
    assert "WHERE 100 / amount >= 0" in shown
    assert "^" in shown
    assert "table events" in shown
    assert "record 1 of shard 0 of 'events': nonsense" in shown
    assert (
        len(json.loads(run("dead-letters", "--since", "1 h", "--output", "json").output)["letters"])
        == 2
    )
    again = run("dead-letters", "divide", "--replay")
    told = "2 rows failed again: letters 2, 3 ('sql dead-letters divide')"
    assert again.exit_code == 1
    assert told in again.output
    user.submit("divide", rule("divide", "amount = 0"))
    done = run("dead-letters", "divide", "--replay", "--id", str(letters(user, "divide")[-1]["id"]))
    assert (done.exit_code, done.output.startswith("divide: 1 letter replayed in epoch ")) == (
        0,
        True,
    )
    assert "replayed for divide" in run("dead-letters", "divide").output
    assert run("dead-letters", "--replay").exit_code == 2
    assert run("dead-letters", "--since", "soon").exit_code == 2


def test_a_row_from_the_future_names_its_table(user: User) -> None:
    text = (
        "CREATE TABLE pings (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ("
        "'connector' = 'topic', 'topic' = 'wide', 'format' = 'json', 'scan.watermark.max-future' = '1 h');"
        "CREATE TABLE seen (ts TIMESTAMP(3)) WITH ('connector' = 'topic', 'topic' = 'copies', 'format' = 'json');"
        "INSERT INTO seen SELECT ts FROM pings"
    )
    user.topic("wide")
    user.topic("copies")
    user.submit("pings", text)
    user.write("wide", {"ts": "2999-01-01 00:00:00"})
    eventually(lambda: letters(user))
    shown = CliRunner().invoke(cli, ["dead-letters", "--server", user.client.server]).output
    assert ", table pings\n" in shown
    assert "detail: in WATERMARK FOR ts AS (ts - 5000); record 0 of shard 0 of 'wide'" in shown


def test_a_replay_is_repeated_by_a_recovery_and_not_made_twice(tmp_path: Path) -> None:
    with Process(tmp_path / "data") as life:
        user = life.user()
        user.prepare()
        user.submit("divide", rule("divide", "100 / amount >= 0"))
        user.write("events", user.event("x", 0))
        eventually(lambda: letters(user, "divide"))
        user.submit("divide", rule("divide", "amount = 0"))
        assert len(replay(user, "divide")["replayed"]) == 1
        assert life.end(signal.SIGKILL) == -signal.SIGKILL
    with Process(tmp_path / "data") as life:
        user = life.user()
        assert replay(user, "divide")["replayed"] == []
        assert eventually(lambda: alerts(user, "divide")) == [1]
        user.write("events", {"id": 9, "word": "x", "amount": 0})
        eventually(lambda: alerts(user, "divide")[1:])
        assert alerts(user, "divide") == [1, 9]
        assert [x["replayed"] for x in letters(user, "divide")] == [["divide"]]


def test_a_crash_behind_the_record_of_a_replay(tmp_path: Path) -> None:
    """All that is there of the replay is its epoch's record: the next start makes the rest of it,
    once."""
    data = tmp_path / "data"
    with running(data) as (service, user):
        user.prepare()
        user.submit("divide", rule("divide", "100 / amount >= 0"))
        event = user.event("x", 0)
        user.write("events", event)
        (letter,) = eventually(lambda: letters(user, "divide"))
        user.submit("divide", rule("divide", "amount = 0"))
        (sink,) = statements_of(service.engine.graphs.of("divide").runner.graph, "divide")
    record = json.dumps(event).encode()
    again = ReplayedRecord(
        letter["id"], letter["source"], letter["shard"], letter["offset"], record, (sink.place,)
    )
    broker = EmbeddedBroker(data, fsync="none", clock=lambda: 0)
    log = TopicEpochLog(broker, letter["graph"])
    *_, (_, last) = log.read(0)
    log.append(
        EpochRecord(
            last.graph,
            last.epoch + 1,
            last.version,
            last.proctime,
            1,
            replay=Replay("divide", 2, (again,)),
        )
    )
    broker.close()
    for _ in range(2):
        with running(data) as (_, user):
            assert replay(user, "divide")["replayed"] == []
            assert eventually(partial(alerts, user, "divide")) == [event["id"]]
            assert letters(user, "divide")[0]["replayed"] == ["divide"]
