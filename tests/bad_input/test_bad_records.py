"""Records that are not what their table says: each is one dead letter with its place, and the
records beside it go on."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import User, rule
from tests.support import eventually

NOT_ROWS = {
    "cut off": b'{"id": 7, "word": "x',
    "no json": b"GET / HTTP/1.1",
    "a string": b'"id"',
    "a number": b"17",
    "null": b"null",
    "two objects": b'{"id": 7} {"id": 8}',
    "wrong type": b'{"id": "seven", "word": "x", "amount": 1}',
    "an object for a number": b'{"id": {"a": 1}, "word": "x"}',
    "too large for BIGINT": b'{"id": 99999999999999999999999}',
    "too large for INT": b'{"id": 7, "amount": 3000000000}',
    "invalid UTF-8": b'{"id": 7, "word": "\xff\xfe"}',
    "NUL bytes only": b"\x00" * 20,
    "deep nesting": b'{"id": 7, "word": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}
ODD_ROWS = {
    "fields are missing": ({}, {"id": None, "word": None, "amount": None}),
    "fields too many": (
        {"id": 1001, "more": [1, {"x": 2}]},
        {"id": 1001, "word": None, "amount": None},
    ),
    "an escaped NUL": (
        {"id": 1002, "word": "a\x00b"},
        {"id": 1002, "word": "a\x00b", "amount": None},
    ),
    "an emoji": (
        {"id": 1003, "word": "\U0001f600"},
        {"id": 1003, "word": "\U0001f600", "amount": None},
    ),
    "a line separator": (
        {"id": 1004, "word": "a\u2028b"},
        {"id": 1004, "word": "a\u2028b", "amount": None},
    ),
    "text that is a number": ({"id": "1005", "word": 5}, {"id": 1005, "word": "5", "amount": None}),
}
COPY = """
CREATE TABLE copies (id BIGINT, word STRING, amount INT)
WITH ('connector' = 'topic', 'topic' = 'copies', 'format' = 'json');
INSERT INTO copies SELECT id, word, amount FROM events"""


def letters_at(user: User, offset: int) -> list[dict[str, Any]]:
    """The letters for that record of `events`. Another event makes sure that no more will come."""
    user.fired()
    user.fired()
    return [letter for letter in user.letters() if letter["place"] == f"0@{offset}"]


@pytest.mark.parametrize("record", NOT_ROWS.values(), ids=NOT_ROWS)
def test_one_letter_for_a_bad_record_whatever_the_number_of_jobs(user: User, record: bytes) -> None:
    for name in ("a", "b", "c"):
        user.submit(name, rule(name, "amount IS NULL OR word = 'good'"))
    before, after = user.event("good"), user.event("good")
    first = user.write("events", json.dumps(before).encode(), record, json.dumps(after).encode())
    assert user.alerts(before["id"]) == user.alerts(after["id"]) == {"a", "b", "c"}
    letters = letters_at(user, first + 1)
    assert [(x["subject"], x["job"]) for x in letters] == [("events", "")]
    assert letters[0]["reason"]
    assert letters[0]["payload"] == record.decode("utf-8", "replace")[: 64 * 1024]
    assert abs(letters[0]["time"] - time.time() * 1000) < 600_000
    assert letters_at(user, first) == letters_at(user, first + 2) == []


def test_one_letter_for_each_table_that_reads_the_topic(user: User) -> None:
    user.submit(
        "second",
        "CREATE TABLE events2 (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'events', 'format'"
        " = 'json');INSERT INTO alerts SELECT 'second', id FROM events2",
    )
    offset = user.write("events", b"nonsense")
    assert sorted(x["subject"] for x in letters_at(user, offset)) == ["events", "events2"]


@pytest.mark.parametrize(("given", "row"), ODD_ROWS.values(), ids=ODD_ROWS)
def test_odd_records_that_are_rows(
    user: User, given: dict[str, object], row: dict[str, object]
) -> None:
    user.topic("copies")
    user.submit("copy", COPY)
    offset = user.write("events", given)
    assert eventually(lambda: [r for r in user.read("copies") if r["id"] == row["id"]]) == [row]
    assert letters_at(user, offset) == []


def test_records_of_ten_megabytes(user: User) -> None:
    user.submit("long", rule("long", "word LIKE '%needle'"))
    big = "x" * 10_000_000
    assert user.fired(big + "needle") == {"long"}
    offset = user.write("events", f'{{"id": "{big}"}}'.encode(), {"id": 0})
    (letter,) = letters_at(user, offset)
    assert len(letter["payload"]) == 64 * 1024
    assert user.fired("needle") == {"long"}


def test_a_thousand_bad_records_among_good_ones(user: User) -> None:
    before = user.metric("sqlengine_dead_letters_total")
    events = [user.event("x") for _ in range(1000)]
    first = user.write(
        "events", *(r for e in events for r in (b"nonsense", json.dumps(e).encode(), b""))
    )
    for event in (events[0], events[-1]):
        assert user.alerts(event["id"]) == set()
    user.fired()
    wanted = [f"0@{first + 2 * n}" for n in range(1000)]
    eventually(lambda: [x["place"] for x in user.letters()[-1000:]] == wanted)
    assert user.metric("sqlengine_dead_letters_total") == before + 1000


def test_errors_of_a_job_are_letters_that_name_it(user: User) -> None:
    user.submit("divide", rule("divide", "100 / amount > 5"))
    user.submit("other", rule("other", "amount = 0"))
    user.event()
    assert user.fired(amount=10) == {"divide"}
    assert user.fired(amount=0) == {"other"}
    assert user.fired(amount=10) == {"divide"}
    mine = [x for x in user.letters() if x["job"] == "divide"]
    assert len(mine) == 1
    assert "amount" in mine[0]["subject"]
    assert "zero" in mine[0]["reason"]
    assert json.loads(mine[0]["payload"])["amount"] == 0
    assert user.job("divide")["state"] == "running"


def test_a_job_may_ask_to_fail_and_fails_alone(user: User) -> None:
    user.submit("strict", "SET 'job.on-error' = 'fail';\n" + rule("strict", "100 / amount > 5"))
    user.submit("lenient", rule("lenient", "100 / amount > 5"))
    assert user.fired(amount=10) == {"strict", "lenient"}
    assert user.fired(amount=0) == set()
    eventually(lambda: user.job("strict")["state"] == "failed")
    reason = user.job("strict")["reason"]
    assert "zero" in reason
    assert user.fired(amount=10) == {"lenient"}
    assert [x["job"] for x in user.letters() if x["job"] in ("strict", "lenient")] == ["lenient"]
    assert user.client.post("/api/v1/jobs/strict/start")["status"] == "started"
    # What came meanwhile is read by the job alone.
    eventually(lambda: user.job("strict")["graph"] == user.job("lenient")["graph"])
    assert user.fired(amount=10) == {"strict", "lenient"}


def test_a_sink_that_refuses_rows_fails_only_its_jobs(user: User, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        database.execute("CREATE TABLE words (word TEXT CHECK (word <> 'refused'))")
    options = (
        f"'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{tmp_path}/app.db', 'table-name' = 'words',"
        " 'sink.on-error' = 'fail'"
    )
    user.submit("words", f"CREATE TABLE words (word STRING) WITH ({options})")
    for name in ("words-a", "words-b"):
        user.submit(name, "INSERT INTO words SELECT word FROM events WHERE amount = 1")
    user.submit("fine", rule("fine"))
    assert user.fired("good", 1) == {"fine"}
    eventually(lambda: read_words(tmp_path) == ["good", "good"])
    assert user.fired("refused", 1) == {"fine"}
    eventually(lambda: {user.job(n)["state"] for n in ("words-a", "words-b")} == {"restarting"})
    assert "CHECK constraint failed" in user.job("words-a")["reason"]
    assert "refused table 'words'" in user.job("words-a")["reason"]
    assert user.fired("after", 1) == {"fine"}
    assert user.client.get("/readyz")["status"] == "ready"
    # The row is refused again with each attempt, and each leaves the table free for the next.
    eventually(lambda: user.job("words-a")["restarts"] > 2)
    assert "CHECK constraint failed" in user.job("words-a")["reason"]
    assert user.client.post("/api/v1/jobs/words-a/start?from=latest")["status"] == "started"
    assert user.fired("again", 1) == {"fine"}
    eventually(lambda: "again" in read_words(tmp_path))
    assert "refused" not in read_words(tmp_path)
    assert user.client.post("/api/v1/jobs/words-b/stop")["status"] == "stopped"


def read_words(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "app.db")) as database:
        return sorted(word for (word,) in database.execute("SELECT word FROM words"))


def test_a_row_that_a_format_cannot_write_costs_that_row(user: User, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    options = f"'connector' = 'filesystem', 'path' = '{folder}', 'format' = 'raw'"
    user.submit("files", f"CREATE TABLE files (word STRING) WITH ({options})")
    user.submit("file", "INSERT INTO files SELECT word FROM events WHERE amount = 1")
    user.submit("fine", rule("fine"))
    for word in ("good", "a\nb", "after"):
        assert user.fired(word, 1) == {"fine"}
    lines = eventually(lambda: x if "after" in (x := read_lines(folder)) else None)
    assert lines == ["good", "after"]
    assert user.job("file")["state"] == "running"
    (letter,) = (x for x in user.letters() if x["job"] == "file")
    assert "holds a line break" in letter["reason"]
    assert "files" in letter["subject"]


def test_an_output_file_that_somebody_deletes(user: User, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    table = (
        f"CREATE TABLE gone (word STRING) WITH ('connector' = 'filesystem', 'path' = '{folder}',"
        " 'format' = 'csv');"
    )
    user.submit("gone", table + "INSERT INTO gone SELECT word FROM events")
    user.fired("before")
    for path in folder.iterdir():
        path.unlink()
    user.fired("after")
    user.fired("last")
    # The job begins another file; which of the two files is listed first is not said.
    eventually(lambda: sorted(read_lines(folder)) == ["after", "last"])
    assert (user.job("gone")["state"], user.job("gone")["restarts"]) == ("running", 1)


def read_lines(folder: Path) -> list[str]:
    files = [p for p in folder.iterdir() if not p.name.startswith(".")]
    return [line for p in files for line in p.read_text().splitlines()]


def test_a_folder_that_cannot_be_written_is_refused_at_submit(user: User, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nothing")):
        table = (
            f"CREATE TABLE bad (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}',"
            " 'format' = 'csv');"
        )
        error = user.refused(
            partial(user.submit, "bad", table + "INSERT INTO bad SELECT id FROM events")
        )
        assert str(path) in str(error)
        assert error.status in (400, 500), error
        assert "internal" not in str(error)
    assert user.fired() == set()
