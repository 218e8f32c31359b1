"""Results of the gateway: tokens, long polling, states, changelogs, back-pressure, and many at once."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.gateway.client import Failed, Session, many
from tests.service.harness import User
from tests.support import eventually

EVENTS = "CREATE TABLE {0} (n BIGINT, w STRING) WITH ('connector' = 'topic', 'topic' = '{0}', 'format' = 'json')"


def sequence(rows: int) -> str:
    """A table with the numbers from 1 on."""
    return (
        f"CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}',"
        " 'rows-per-second' = '10000000',"
        f" 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{rows}')"
    )


def resident() -> int:
    """The resident memory of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def ready(session: Session, operation: str) -> None:
    eventually(lambda: session.page(operation, 0)["resultType"] != "NOT_READY", "a page")


def test_a_page_comes_again_with_its_token_and_no_other_does(session: Session) -> None:
    operation = session.begin("SELECT * FROM (VALUES (1), (2)) AS v(a)")
    ready(session, operation)
    first = session.page(operation, 0)
    assert session.page(operation, 0) == first
    assert "/result/1?" in first["nextResultUri"]
    last = session.page(operation, 1)
    assert last["resultType"] == "EOS"
    assert "nextResultUri" not in last
    assert session.page(operation, 1) == last
    for token in (0, 3):
        with pytest.raises(Failed):
            session.page(operation, token)


def test_an_empty_result_has_a_page(session: Session) -> None:
    operation = session.begin("SELECT a FROM (VALUES (1)) AS v(a) WHERE a > 1")
    pages = list(session.pages(operation))
    assert [p["resultType"] for p in pages] == ["PAYLOAD", "EOS"]
    assert pages[0]["results"]["data"] == []


def test_states(session: Session) -> None:
    def status(operation: str) -> str:
        found: str = session.call("GET", f"{session.place}/operations/{operation}/status")["status"]
        return found

    done, failed = session.begin("SELECT 1"), session.begin("SELECT nothing")
    eventually(lambda: status(done) == "FINISHED", "the end")
    eventually(lambda: status(failed) == "ERROR", "the error")
    session.run("CREATE TABLE endless (a INT) WITH ('connector' = 'datagen')")
    endless = session.begin("SELECT a FROM endless")
    eventually(lambda: status(endless) == "FINISHED", "rows")
    assert session.call("POST", f"{session.place}/operations/{endless}/cancel") == {
        "status": "CANCELED"
    }
    assert status(endless) == "CANCELED"
    with pytest.raises(Failed, match="CANCELED"):
        session.page(endless, 0)
    assert session.call("DELETE", f"{session.place}/operations/{endless}/close") == {
        "status": "CLOSED"
    }
    with pytest.raises(Failed):
        status(endless)


def test_a_select_gives_its_changelog_as_rows_come(user: User, session: Session) -> None:
    user.topic("words")
    session.run(EVENTS.format("words"))
    user.write("words", {"n": 1, "w": "a"})
    operation = session.begin("SELECT w, COUNT(*) AS c FROM words GROUP BY w")
    seen: list[tuple[str, list[object]]] = []
    for page in session.pages(operation):
        assert page["isQueryResult"] is True
        assert page["resultKind"] == "SUCCESS_WITH_CONTENT"
        assert len(page["jobID"]) == 32
        new = [(r["kind"], r["fields"]) for r in page["results"]["data"]]
        seen += new
        if new == [("INSERT", ["a", 1])]:
            user.write("words", {"n": 2, "w": "a"}, {"n": 3, "w": "b"})
        if ("INSERT", ["b", 1]) in seen:
            break
    assert seen == [
        ("INSERT", ["a", 1]),
        ("UPDATE_BEFORE", ["a", 1]),
        ("UPDATE_AFTER", ["a", 2]),
        ("INSERT", ["b", 1]),
    ]


def test_batch_mode_reads_topics_to_their_end(user: User, session: Session) -> None:
    user.topic("ended")
    session.run(EVENTS.format("ended"))
    user.write("ended", {"n": 1, "w": "a"}, {"n": 2, "w": "a"})
    session.run("SET 'execution.runtime-mode' = 'batch'")
    assert session.rows("SELECT w, SUM(n) FROM ended GROUP BY w") == [["a", 3]]


def test_an_empty_page_is_waited_for(user: User, session: Session) -> None:
    user.topic("quiet")
    session.run(EVENTS.format("quiet"))
    operation = session.begin("SELECT n FROM quiet")
    ready(session, operation)
    began = time.monotonic()
    page = session.page(operation, 0)
    assert page["resultType"] == "PAYLOAD"
    assert "/result/0?" in page["nextResultUri"]
    assert time.monotonic() - began > 0.9


def test_a_reader_that_pauses_holds_the_query_and_not_memory(user: User, session: Session) -> None:
    session.run(sequence(200_000))
    operation = session.begin("SELECT n FROM numbers")
    ready(session, operation)

    def read() -> int:
        queries = user.client.get("/api/v1/queries")["queries"]
        return int(queries[0]["rows_read"])  # type: ignore[index]

    eventually(lambda: read() >= 5000, "a full buffer")
    held = read()
    time.sleep(0.3)
    assert read() == held < 20_000
    rows = [r["fields"][0] for p in session.pages(operation) for r in p["results"]["data"]]
    assert rows == list(range(1, 200_001))


def test_a_timeout_ends_a_statement(session: Session) -> None:
    session.run("CREATE TABLE endless (a INT) WITH ('connector' = 'datagen')")
    operation = session.begin("SELECT a FROM endless WHERE a < 0 AND a > 0", executionTimeout=200)
    with pytest.raises(Failed, match=r"ended after 0\.2 s"):
        list(session.pages(operation))


def test_twenty_sessions_at_once(address: str) -> None:
    found: list[int] = []

    def ask(session: Session) -> None:
        session.run(sequence(3_000))
        found.append(len(session.rows("SELECT n FROM numbers")))

    with many(address, 20) as sessions:
        threads = [threading.Thread(target=ask, args=(session,)) for session in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [3_000] * 20


@pytest.mark.slow
def test_a_million_rows_do_not_grow(session: Session) -> None:
    session.run(sequence(1_000_000))
    operation = session.begin("SELECT n FROM numbers")
    count, least, most = 0, 1 << 60, 0
    for page in session.pages(operation, "PLAIN_TEXT"):
        count += len(page["results"]["data"])
        if count > 100_000:
            least, most = min(least, resident()), max(most, resident())
    assert count == 1_000_000
    assert most - least < 64 << 20
