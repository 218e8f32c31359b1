"""What a principal reaches through SQL: its own tables, views and tables of others, ad-hoc queries,
savepoints, and changes of what others use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from sqlengine.client import Refused
from sqlengine.queries.room import MAX_KEPT
from tests.access.conftest import (
    OUT,
    PRINCIPALS,
    TOKENS,
    Guarded,
    access_text,
    rows_of,
    table,
    temporary,
)
from tests.access.test_routes import ask
from tests.service.harness import User
from tests.support import eventually


@pytest.fixture
def alice(tables: Guarded) -> Iterator[User]:
    user = tables.user("alice")
    yield user
    for job in user.jobs():
        user.client.delete(f"/api/v1/jobs/{job['name']}")


MADE = ", 'topic.auto-create' = 'true', 'topic.auto-create.shards' = '1024'"
REFUSED = {
    "read topic 'secret'": [
        OUT + "INSERT INTO mine SELECT id, word FROM secrets",
        OUT + "INSERT INTO mine SELECT id, word FROM peek",
        OUT + "CREATE VIEW a_view AS SELECT * FROM peek; INSERT INTO mine SELECT id, word FROM a_view",
        "CREATE VIEW a_view AS SELECT * FROM peek;",
        OUT + temporary("own", "secret") + "INSERT INTO mine SELECT * FROM own",
        OUT + "INSERT INTO mine SELECT * FROM common /*+ OPTIONS('topic' = 'secret') */",
        OUT + "INSERT INTO mine SELECT c.id, c.word FROM common AS c JOIN secrets AS s ON c.id = s.id",
        OUT + "INSERT INTO mine SELECT id, word FROM common WHERE id IN (SELECT id FROM secrets)",
        OUT + "INSERT INTO mine SELECT id, word FROM common UNION ALL SELECT id, word FROM peek",
        OUT + "EXECUTE STATEMENT SET BEGIN INSERT INTO mine SELECT * FROM common;"
        " INSERT INTO mine SELECT * FROM secrets; END;",
        OUT + "INSERT INTO mine SELECT id, word FROM common"
        " UNION ALL SELECT id, word FROM secrets WHERE FALSE",
        OUT + "CREATE TEMPORARY TABLE t (word STRING) WITH ('connector' = 'blackhole');"
        " INSERT INTO t SELECT (SELECT MAX(word) FROM secrets) FROM common",
        OUT + "CREATE TEMPORARY TABLE p (id BIGINT, pt AS PROCTIME()) WITH ('connector' = 'topic',"
        " 'topic' = 'a.in', 'format' = 'json'); INSERT INTO mine SELECT p.id, s.word FROM p"
        " JOIN secrets FOR SYSTEM_TIME AS OF p.pt AS s ON s.id = p.id",
    ],
    "see topic 'secret'": [
        table("a_own", "secret"),
        "CREATE TABLE a_like (extra INT) LIKE secrets;",
    ],
    "write topic 'shared'": [
        ("CREATE TEMPORARY TABLE ev (id BIGINT, word STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH"
        " ('connector' = 'topic', 'topic' = 'a.in', 'format' = 'json');"
        " CREATE TEMPORARY TABLE late (id BIGINT, word STRING, ts TIMESTAMP(3)) WITH"
        " ('connector' = 'topic', 'topic' = 'shared', 'format' = 'json');"
        " CREATE TEMPORARY TABLE n (n BIGINT) WITH ('connector' = 'blackhole');"
        " SET 'job.late-rows.table' = 'late'; INSERT INTO n SELECT COUNT(*) FROM"
        " TABLE(TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end"),
        OUT + "INSERT INTO common SELECT id, word FROM common",
        OUT + "INSERT INTO mine /*+ OPTIONS('topic' = 'shared') */ SELECT id, word FROM common",
        temporary("own", "shared") + "INSERT INTO own SELECT * FROM common",
    ],
    "write topic 'later'": [
        OUT + temporary("own", "later", MADE) + "INSERT INTO mine SELECT * FROM own",
        OUT + "INSERT INTO mine SELECT * FROM common /*+ OPTIONS('topic' = 'later',"
        " 'topic.auto-create' = 'true') */",
        OUT + temporary("own", "later", MADE) + "INSERT INTO mine SELECT * FROM common"
        " UNION ALL SELECT * FROM own",
    ],
    "read topic '_jobs'": [
        OUT + temporary("log", "_jobs") + "INSERT INTO mine SELECT * FROM log",
    ],
    "write topic 'A.out'": [
        temporary("own", "A.out") + "INSERT INTO own SELECT * FROM common",
    ],
    "use connector 'filesystem'": [
        OUT + "CREATE TEMPORARY TABLE f (word STRING) WITH ('connector' = 'filesystem',"
        " 'path' = '/etc', 'format' = 'raw'); INSERT INTO mine SELECT 1, word FROM f",
    ],
    "use connector 'jdbc'": [
        ("CREATE TABLE a_db (id BIGINT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:/tmp/x',"
        " 'table-name' = 't');"),
    ],
    "load function 'other.f'": [
        "CREATE FUNCTION a_f AS 'other.f' LANGUAGE PYTHON;",
        "CREATE TEMPORARY FUNCTION a_f AS 'other.f' LANGUAGE PYTHON USING FILE 'words.py';",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "text"), [(asked, text) for asked, texts in REFUSED.items() for text in texts]
)
def test_a_job_cannot(alice: User, asked: str, text: str) -> None:
    """Neither with a change nor with its rehearsal; nothing of it is there afterwards."""
    for dry_run in ("true", "false"):
        refusal = alice.refused(partial(alice.submit, "a.x", text, dry_run=dry_run))
        assert refusal.status == 403, refusal
        assert f"may not {asked}" in str(refusal)
    assert alice.jobs() == []


def test_a_job_can(alice: User, tables: Guarded) -> None:
    """What is its principal's, also through tables and functions of others; the version has the
    name."""
    alice.submit("a.x", OUT + "INSERT INTO mine SELECT id, twice(word) FROM common")
    tables.user("root").write("shared", {"id": 1, "word": "ab"})
    eventually(lambda: {"id": 1, "word": "abab"} in alice.read("a.out"))
    assert alice.job("a.x")["by"] == "alice"
    (version,) = rows_of(alice.client.get("/api/v1/jobs/a.x/history"), "versions")
    assert version["by"] == "alice"


def test_who_may_only_read_a_topic_does_not_make_it(alice: User, tables: Guarded) -> None:
    """Neither with a job nor by its start; once it is there, it is read."""
    root = tables.user("root")
    root.topic("later")
    text = OUT + temporary("own", "later", MADE) + "INSERT INTO mine SELECT * FROM own"
    alice.submit("a.x", text)
    alice.client.post("/api/v1/jobs/a.x/stop")
    root.client.delete("/api/v1/topics/later")
    refusal = alice.refused(lambda: alice.client.post("/api/v1/jobs/a.x/start"))
    assert refusal.status == 403
    assert "the topic does not exist, and would be made" in str(refusal)
    topics = rows_of(root.client.get("/api/v1/topics"), "topics")
    assert "later" not in {t["name"] for t in topics}


def test_names_of_jobs(alice: User, tables: Guarded) -> None:
    text = OUT + "INSERT INTO mine SELECT * FROM common"
    for name in ("b.x", "A.x", "xa.x", "a", "defs"):
        assert alice.refused(partial(alice.submit, name, text)).status == 403
    many: dict[str, object] = {"jobs": {"a.x": text, "b.x": text}}
    assert alice.refused(lambda: alice.client.post("/api/v1/jobs", many)).status == 403
    assert alice.jobs() == []
    assert "defs" in tables.user("root").states()


QUERIES = {
    "read topic 'secret'": [
        "SELECT * FROM secrets",
        "SELECT * FROM peek",
        "SELECT COUNT(*) FROM peek",
        "SELECT * FROM common /*+ OPTIONS('topic' = 'secret') */",
        "CREATE TEMPORARY VIEW v AS SELECT * FROM peek",
    ],
    "see topic 'secret'": [temporary("own", "secret").strip().rstrip(";")],
    "read topic '_commands'": [
        "SELECT * FROM common /*+ OPTIONS('topic' = '_commands') */",
    ],
    "use connector 'filesystem'": [
        ("CREATE TEMPORARY TABLE f (word STRING, dt STRING) PARTITIONED BY (dt) WITH"
        " ('connector' = 'filesystem', 'path' = '/etc', 'format' = 'json')"),
    ],
    "use function 'other.f'": ["CREATE TEMPORARY FUNCTION f AS 'other.f' LANGUAGE PYTHON"],
    "change job 'defs'": ["STOP JOB 'defs'"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "text"), [(asked, text) for asked, texts in QUERIES.items() for text in texts]
)
def test_a_query_cannot(alice: User, asked: str, text: str) -> None:
    refusal = alice.refused(lambda: alice.client.post("/api/v1/queries", text.encode()))
    assert refusal.status == 403, refusal
    assert f"may not {asked}" in str(refusal)


def test_queries_and_sessions_are_their_principals_own(tables: Guarded) -> None:
    """A refused definition is not in the session either."""
    alice, bob = tables.user("alice"), tables.user("bob")
    session = alice.client.post("/api/v1/sessions")["session"]
    alice.refused(
        lambda: alice.client.post(
            "/api/v1/queries", b"CREATE TEMPORARY VIEW v AS SELECT * FROM peek", session=session
        )
    )
    refusal = alice.refused(
        lambda: alice.client.post("/api/v1/queries", b"SELECT * FROM v", session=session)
    )
    assert "v" in str(refusal)
    assert refusal.status == 400
    query = alice.client.post("/api/v1/queries", b"SELECT id FROM common", follow="true")["query"]
    assert [q["query"] for q in rows_of(alice.client.get("/api/v1/queries"), "queries")] == [query]
    assert bob.client.get("/api/v1/queries")["queries"] == []
    intrusions: list[Callable[[], object]] = [
        lambda: bob.client.get(f"/api/v1/queries/{query}"),
        lambda: bob.client.delete(f"/api/v1/queries/{query}"),
        lambda: bob.client.delete(f"/api/v1/sessions/{session}"),
        lambda: bob.client.post("/api/v1/queries", b"SELECT 1", session=session),
    ]
    for intrusion in intrusions:
        assert bob.refused(intrusion).status == 404
    alice.client.delete(f"/api/v1/queries/{query}")


def test_a_query_writes_nothing(tables: Guarded) -> None:
    """Late rows go to a table of a job, and not of a query: who may read would write."""
    alice, reader, root = (tables.user(n) for n in ("alice", "reader", "root"))
    timed = temporary("timed", "a.in").replace(
        "word STRING", "word STRING, ts AS TO_TIMESTAMP(word), WATERMARK FOR ts AS ts"
    )
    late = timed + temporary("late", "a.out").replace("word STRING", "word STRING, ts TIMESTAMP(3)")
    late += "SET 'job.late-rows.table' = 'late'; SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE timed,"
    late += " DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end"
    before = len(root.read("a.out"))
    words = ("2024-01-01 00:00:10", "2024-01-01 00:10:10", "2024-01-01 00:00:00")
    root.write("a.in", *({"id": n, "word": word} for n, word in enumerate(words)))
    for user in (alice, reader):
        ask = partial(user.client.post, "/api/v1/queries", late.encode(), follow="true")
        refusal = user.refused(ask)
        wanted = "'job.late-rows.table'" if user is alice else "may not write topic 'a.out'"
        assert wanted in str(refusal)
    assert len(root.read("a.out")) == before


def test_sessions_of_others_do_not_end_ones_own(tables: Guarded) -> None:
    bob, reader = tables.user("bob"), tables.user("reader")
    session = bob.client.post("/api/v1/sessions")["session"]
    for _ in range(MAX_KEPT + 5):
        reader.client.post("/api/v1/sessions")
    assert bob.client.post("/api/v1/queries", b"SELECT 1", session=session)


def test_nobody_makes_anothers_job_read_or_write_for_him(tables: Guarded) -> None:
    """bob changes a view that a job of alice's uses: it may not read what alice may not, whatever
    bob may; and alice's table cannot lead bob's job to a topic that is alice's alone."""
    alice, bob, root = (tables.user(n) for n in ("alice", "bob", "root"))
    bob.submit("b.defs", "CREATE VIEW b_view AS SELECT id, word FROM common;")
    alice.submit("a.reads", OUT + "INSERT INTO mine SELECT * FROM b_view")
    changed = table("b_in", "b.in") + "CREATE VIEW b_view AS SELECT id, word FROM b_in;"
    refusal = bob.refused(lambda: bob.submit("b.defs", changed))
    assert "principal 'alice' may not read topic 'b.in'" in str(refusal)
    root.submit(
        "a.reads", OUT + "INSERT INTO mine SELECT * FROM b_view"
    )  # unchanged: still alice's
    assert root.job("a.reads")["by"] == "alice"
    alter = b"ALTER VIEW b_view AS SELECT id, word FROM secrets"
    assert alice.refused(lambda: alice.client.post("/api/v1/statements", alter)).status == 403
    assert bob.refused(lambda: bob.client.post("/api/v1/statements", alter)).status == 403
    stop = b"STOP JOB 'b.defs'"
    assert alice.refused(lambda: alice.client.post("/api/v1/statements", stop)).status == 403
    (jobs,) = rows_of(alice.client.post("/api/v1/statements", b"SHOW JOBS"), "results")
    assert [row[0] for row in jobs["rows"]] == ["a.reads"]
    for user, job in ((alice, "a.reads"), (bob, "b.defs")):
        user.client.delete(f"/api/v1/jobs/{job}")


def test_rights_that_are_taken_away(tables: Guarded) -> None:
    """A running job goes on; stopped, it starts no more, for whoever asks; of a principal that is
    gone it starts for who could submit it."""
    alice, root = tables.user("alice"), tables.user("root")
    alice.submit("a.runs", OUT + "INSERT INTO mine SELECT * FROM common")
    alice.submit("a.stops", OUT + "INSERT INTO mine SELECT * FROM common WHERE id > 1")
    less = PRINCIPALS.replace('read = ["shared", ', "read = [")
    tables.file.write_text(access_text(less))
    sees = "/api/v1/topics/shared/records"
    eventually(lambda: ask(tables, "alice", "GET", sees)[0] == 403)
    start = "/api/v1/jobs/a.stops/start"
    alice.client.post("/api/v1/jobs/a.stops/stop")
    assert alice.states() == {"a.runs": "running", "a.stops": "stopped"}
    for user in (alice, root):
        refusal = user.refused(partial(user.client.post, start))
        assert "principal 'alice' may not read" in str(refusal)
    gone = access_text(
        less.replace("[principals.alice]", "[principals.carol]"),
        {**TOKENS, "carol": TOKENS["alice"]},
    )
    tables.file.write_text(gone)
    eventually(lambda: "carol" in str(ask(tables, "alice", "GET", sees)[1]))
    assert alice.refused(lambda: alice.client.post(start)).status == 403
    root.client.post(start)
    tables.file.write_text(access_text())
    eventually(lambda: ask(tables, "alice", "GET", sees)[0] == 200)
    assert alice.states() == {"a.runs": "running", "a.stops": "running"}
    for job in alice.states():
        alice.client.delete(f"/api/v1/jobs/{job}")


def test_a_rollback_is_a_submission(tables: Guarded) -> None:
    """An old version of the administrator's does not run for who may not run its text."""
    alice, root = tables.user("alice"), tables.user("root")
    root.submit("a.old", OUT + "INSERT INTO mine SELECT * FROM peek")
    alice.submit("a.old", OUT + "INSERT INTO mine SELECT * FROM common")
    refusal = alice.refused(lambda: alice.client.post("/api/v1/jobs/a.old/rollback", version=1))
    assert refusal.status == 403
    assert alice.job("a.old")["version"] == 2
    alice.client.delete("/api/v1/jobs/a.old")


def test_state_of_anothers_job(tables: Guarded) -> None:
    """A savepoint of another's job is neither seen, nor begun from, nor deleted."""
    alice, bob = tables.user("alice"), tables.user("bob")
    counts = (
        "CREATE TEMPORARY TABLE n (w STRING, n BIGINT) WITH ('connector' = 'blackhole');"
        " INSERT INTO n SELECT word, COUNT(*) FROM common GROUP BY word"
    )
    bob.submit("b.counts", counts)
    path = bob.client.post("/api/v1/jobs/b.counts/savepoints")["savepoint"]
    name = str(path).rsplit("/", 1)[-1]
    intrusions: list[Callable[[], object]] = [
        lambda: alice.submit("a.counts", counts, savepoint=path),
        lambda: alice.submit("a.counts", f"SET 'execution.savepoint.path' = '{path}';{counts}"),
        lambda: alice.client.get(f"/api/v1/savepoints/{name}"),
        lambda: alice.client.get("/api/v1/savepoints/x", at=path),
        lambda: alice.client.delete(f"/api/v1/savepoints/{name}"),
        lambda: alice.client.get("/api/v1/jobs/b.counts/state/1"),
    ]
    for intrusion in intrusions:
        assert alice.refused(intrusion).status == 403
    alice.submit("a.counts", counts)
    alice.client.post("/api/v1/jobs/a.counts/stop")
    start = "/api/v1/jobs/a.counts/start"
    assert alice.refused(lambda: alice.client.post(start, savepoint=path)).status == 403
    assert alice.client.get("/api/v1/savepoints")["savepoints"] == []
    assert len(rows_of(bob.client.get("/api/v1/savepoints"), "savepoints")) == 1
    alice.client.delete("/api/v1/jobs/a.counts")
    bob.client.delete("/api/v1/jobs/b.counts")


def test_refused_is_not_raised_for_the_administrator(tables: Guarded) -> None:
    root = tables.user("root")
    root.submit("r.all", temporary("sink", "a.out") + "INSERT INTO sink SELECT * FROM peek")
    assert root.job("r.all")["by"] == "root"
    root.client.delete("/api/v1/jobs/r.all")
    with pytest.raises(Refused):
        root.job("r.all")
