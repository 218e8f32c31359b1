"""`sql why --alert`: the events behind an alert."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sqlengine.cli.rules.collected import planned
from sqlengine.cli.rules.records import broker_of, job_texts_at
from sqlengine.trial.bench import open_bench
from sqlengine.trial.epochs_read import Origin, origin_of
from sqlengine.trial.lineage import Limits, Search
from sqlengine.trial.recorded import Place
from sqlengine.trial.reproducing import reproductions
from tests.cli.conftest import Sql
from tests.service.harness import User, running
from tests.support import eventually

TABLES = """CREATE TABLE logins (host STRING, who STRING, ok BOOLEAN, ts TIMESTAMP(3),
  now AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = '{name}_logins', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE resets (host STRING, who STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = '{name}_resets', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE owners (host STRING, owner STRING, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = '{name}_owners', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE found (host STRING, {columns})
WITH ('connector' = 'topic', 'topic' = '{name}_found', 'format' = 'json'{options});
INSERT INTO found {query}"""
UPSERT = ", 'upsert' = 'true'"


def login(second: int, host: str, who: str = "x", *, ok: bool = False) -> dict[str, object]:
    ts = f"2026-01-01 00:{second // 60:02}:{second % 60:02}"
    return {"host": host, "who": who, "ok": ok, "ts": ts}


@dataclass(frozen=True)
class Case:
    """A rule, the records of its topics, in the order in which they are written, an alert of it,
    and the records behind that one."""

    query: str
    logins: list[dict[str, object]]
    alert: dict[str, object]
    behind: list[str]
    columns: str = "n BIGINT"
    resets: tuple[dict[str, object], ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    options: str = ""
    head: str = ""

    def text(self, name: str) -> str:
        """The text of its job."""
        given = {"columns": self.columns, "query": self.query, "options": self.options}
        return self.head + TABLES.format(name=name, **given)


WINDOW = "SELECT host, COUNT(*) FROM TABLE({}) WHERE NOT ok GROUP BY host, window_start, window_end HAVING COUNT(*) >= 3"
MANY = [
    login(1, "a"),
    login(2, "b"),
    login(3, "a", ok=True),
    login(4, "a"),
    login(50, "a"),
    login(75, "a"),
    login(400, "c"),
]
CASES = {
    "tumble": Case(
        WINDOW.format("TUMBLE(TABLE logins, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"),
        MANY,
        {"host": "a", "n": 3},
        ["logins@0", "logins@3", "logins@4"],
    ),
    "hop": Case(
        WINDOW.format(
            "HOP(TABLE logins, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '2' MINUTE)"
        ),
        MANY,
        {"host": "a", "n": 4},
        ["logins@0", "logins@3", "logins@4", "logins@5"],
    ),
    "session": Case(
        WINDOW.format(
            "SESSION(TABLE logins PARTITION BY host, DESCRIPTOR(ts), INTERVAL '48' SECOND)"
        ),
        MANY,
        {"host": "a", "n": 4},
        ["logins@0", "logins@3", "logins@4", "logins@5"],
    ),
    "having": Case(
        "SELECT host, COUNT(*) FROM logins WHERE NOT ok GROUP BY host HAVING COUNT(*) > 1",
        MANY,
        {"host": "a", "n": 4},
        ["logins@0", "logins@3", "logins@4", "logins@5"],
        "n BIGINT, PRIMARY KEY (host) NOT ENFORCED",
        options=UPSERT,
    ),
    "interval": Case(
        """SELECT l.host, r.who FROM logins l JOIN resets r ON l.host = r.host
AND r.ts BETWEEN l.ts - INTERVAL '10' SECOND AND l.ts""",
        MANY,
        {"host": "a", "who": "root"},
        ["resets@1", "logins@4"],
        "who STRING",
        resets=(login(20, "a", "root"), login(45, "a", "root"), login(46, "b", "root")),
    ),
    "join": Case(
        "SELECT l.host, r.who FROM logins l JOIN resets r ON l.host = r.host AND l.who <> r.who",
        [login(1, "a"), login(2, "b", "y"), login(3, "b", "root")],
        {"host": "b", "who": "root"},
        ["resets@1", "logins@1"],
        "who STRING",
        resets=(login(2, "a", "x"), login(3, "b", "root")),
    ),
    "lookup": Case(
        """SELECT l.host, o.owner FROM logins l JOIN owners FOR SYSTEM_TIME AS OF l.now AS o
ON l.host = o.host WHERE l.ok""",
        [login(1, "b", ok=True), login(2, "a"), login(3, "a", ok=True)],
        {"host": "a", "owner": "ann"},
        ["owners@0", "logins@2"],
        "owner STRING",
        owners=(("a", "ann"), ("b", "bob")),
    ),
    "pattern": Case(
        """SELECT * FROM logins MATCH_RECOGNIZE (PARTITION BY host ORDER BY ts
MEASURES COUNT(F.who) AS n PATTERN (F{2,} S) DEFINE F AS NOT ok, S AS ok)""",
        [
            login(1, "a"),
            login(2, "b"),
            login(3, "a"),
            login(4, "b", ok=True),
            login(5, "a", ok=True),
            login(50, "c"),
        ],
        {"host": "a", "n": 2},
        ["logins@0", "logins@2", "logins@4"],
    ),
    "first": Case(
        """SELECT host, who FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY now) AS n FROM logins
WHERE NOT ok) WHERE n = 1""",
        MANY,
        {"host": "a", "who": "x"},
        ["logins@0"],
        "who STRING",
    ),
    "over": Case(
        """SELECT host, n FROM (SELECT host, COUNT(*) OVER (PARTITION BY host ORDER BY ts
RANGE BETWEEN INTERVAL '50' SECOND PRECEDING AND CURRENT ROW) AS n FROM logins) WHERE n > 2""",
        MANY,
        {"host": "a", "n": 4},
        ["logins@0", "logins@2", "logins@3", "logins@4"],
    ),
    "closing": Case(
        """SELECT host, suppressed FROM TABLE(SUPPRESSION(TABLE logins PARTITION BY host, DESCRIPTOR(ts),
INTERVAL '1' MINUTE, 1)) WHERE suppressed > 0""",
        MANY,
        {"host": "a", "n": 3},
        ["logins@0", "logins@2", "logins@3", "logins@4"],
    ),
    "closing_head": Case(
        "(host, ts) SELECT host, ts FROM logins WHERE NOT ok",
        MANY,
        {"host": "a", "ts": "2026-01-01 00:00:50", "n": 2},
        ["logins@0", "logins@3", "logins@4"],
        "ts TIMESTAMP(3), n BIGINT",
        head="-- @rule\n-- suppress: 1m by host, then count into n\n",
    ),
}


def started(user: User, name: str, case: Case) -> int:
    """Runs a rule over the records of its case; the offset of its alert."""
    for topic in ("logins", "resets", "found"):
        user.topic(f"{name}_{topic}")
    if case.options:
        user.client.delete(f"/api/v1/topics/{name}_found")
    user.client.post("/api/v1/topics", {"name": f"{name}_owners", "compacted": True})
    user.submit(name, case.text(name))
    for host, owner in case.owners:
        user.client.post(
            f"/api/v1/topics/{name}_owners/records",
            json.dumps({"host": host, "owner": owner}).encode(),
            key=json.dumps({"host": host}, separators=(",", ":")),
        )
    if case.resets:
        user.write(f"{name}_resets", *case.resets, login(500, "z"))
    for record in (*case.logins, login(600, "z")):
        user.write(f"{name}_logins", record)
    return alert_of(user, name, case)


def alert_of(user: User, name: str, case: Case) -> int:
    """The offset of the alert of a case, once it is there."""

    def found() -> list[int]:
        body: Any = user.client.get(f"/api/v1/topics/{name}_found/records", offset=0, limit=100)
        values = [(r["offset"], r["value"]) for r in body["records"] if r["value"] is not None]
        rows = [(at, json.loads(value)) for at, value in values]
        return [at + 1 for at, row in rows if case.alert.items() <= row.items()]

    return eventually(found, f"the alert {case.alert} of '{name}'")[0] - 1


@pytest.mark.parametrize("name", CASES)
def test_the_events_behind_an_alert(
    served: Sql, user: User, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However many other jobs there are, that over its topic is asked.
    monkeypatch.setattr("sqlengine.cli.rules.lineage._MOST_JOBS", 1)
    case = CASES[name]
    at = started(user, name, case)
    done = served("why", "--alert", f"{name}_found@{at}", "--output", "json")
    assert done.exit_code == 0, done.stderr
    body: dict[str, Any] = json.loads(done.stdout)
    found = [f"{e['topic'].removeprefix(name + '_')}@{e['offset']}" for e in body["events"]]
    assert (found, body["minimal"], body["rule"]) == (case.behind, True, name)
    assert body["alert"] == case.alert


def test_a_rule_as_a_file_and_for_people(served: Sql, user: User, tmp_path: Path) -> None:
    at = started(user, "people", CASES["having"])
    (tmp_path / "people.sql").write_text(str(user.job("people")["sql"]))
    done = served("why", "people.sql", "--alert", f"people_found@{at}")
    first, second = done.stdout.splitlines()[:2]
    assert first == f'people_found@{at} {{"host": "a", "n": 4}}'
    assert second.startswith("rule people, 4 of ")
    assert '{"host": "a", "who": "x", "ok": false, "ts": "2026-01-01 00:00:01"}' in done.stdout
    few = served("why", "--rule", "people", "--alert", f"people_found@{at}", "--limit", 2)
    assert few.exit_code == 1
    assert "only 2 records were read (--limit)" in few.stderr


def test_columns_that_change_each_time_are_not_compared(served: Sql, user: User) -> None:
    case = replace(
        CASES["having"],
        query="SELECT host, COUNT(*), NOW() FROM logins WHERE NOT ok GROUP BY host",
        columns="n BIGINT, seen TIMESTAMP_LTZ(3), PRIMARY KEY (host) NOT ENFORCED",
    )
    at = started(user, "clock", case)
    done = served("why", "--alert", f"clock_found@{at}")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 6), done.stderr
    assert "not compared: seen" in done.stderr


def test_the_clock_is_that_of_the_epochs(served: Sql, user: User) -> None:
    case = replace(
        CASES["tumble"],
        query="""SELECT host, COUNT(*), window_end FROM TABLE(TUMBLE(TABLE logins, DESCRIPTOR(now), INTERVAL '1' SECOND))
WHERE NOT ok GROUP BY host, window_start, window_end HAVING COUNT(*) >= 3""",
        columns="n BIGINT, ended TIMESTAMP(3)",
        logins=[],
    )
    user.topic("proctime_logins")
    user.write("proctime_logins", login(1, "a"), login(2, "b"), login(1, "a"), login(1, "a"))
    at = started(user, "proctime", case)
    done = served("why", "--alert", f"proctime_found@{at}")
    assert done.exit_code == 0, done.stderr
    places = [line.split()[0] for line in done.stdout.splitlines()[2:]]
    assert places == [f"proctime_logins@{offset}" for offset in (0, 2, 3)]


def test_without_the_log_times_of_records_count(served: Sql, user: User) -> None:
    at = started(user, "timed_alone", CASES["tumble"])
    texts, above, since = job_texts_at(user.client, "timed_alone", None)
    place = Place("timed_alone_found", 0, at)
    with broker_of(user.client) as broker, planned(texts, above) as rule, open_bench() as bench:
        assert rule is not None
        time = origin_of(broker, place).time
        (made,) = reproductions(bench, rule, place, time, broker)
        found = Search(broker, made, Origin(time), since, Limits()).run()
    assert [event.place.offset for event in found.events] == [0, 3, 4]


def test_a_search_that_has_no_time_left_says_so(served: Sql, user: User) -> None:
    at = started(user, "hurried", CASES["tumble"])
    done = served("why", "--alert", f"hurried_found@{at}", "--seconds", 0.001)
    assert done.exit_code == 0, done.stderr
    assert "some of these events may not be needed (--seconds)" in done.stderr


def test_records_that_are_in_no_topic_cannot_be_read_again(served: Sql, user: User) -> None:
    user.topic("made_found")
    user.submit(
        "made",
        """CREATE TABLE made (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '5');
CREATE TABLE found (n BIGINT) WITH ('connector' = 'topic', 'topic' = 'made_found', 'format' = 'json');
INSERT INTO found SELECT n FROM made""",
    )
    eventually(lambda: user.read("made_found"), "a row")
    done = served("why", "--alert", "made_found@0")
    assert done.exit_code == 1
    assert "the records of table 'made' cannot be read again" in done.stderr
    assert "connector 'datagen'" in done.stderr


def test_what_is_no_alert_is_named(served: Sql, user: User) -> None:
    at = started(user, "other", CASES["tumble"])
    user.write("other_found", {"host": "q", "n": 3})
    for arguments, said in (
        (("--alert", "other_found@x"), "is no event"),
        (("--alert", "other_found@99"), "is out of range"),
        (("--alert", "other_none@0"), "does not exist"),
        (("--alert", "other_logins@0"), "is no alert of a job"),
        (("--alert", f"other_found@{at + 1}"), "does not give this alert again"),
        (("all", "--alert", f"other_found@{at}"), "is no alert of rule 'all'"),
        (("other", "{}", "--alert", f"other_found@{at}"), "goes with a rule alone"),
        (("other",), "give a rule and an event"),
    ):
        done = served("why", *arguments)
        assert done.exit_code, arguments
        assert said in done.stderr, done.stderr


def test_a_record_that_somebody_else_has_written_is_no_alert(served: Sql, user: User) -> None:
    started(user, "forged", CASES["tumble"])
    for record in (b"[1]", b'{"host": ' + b"[" * 5000):
        at = user.write("forged_found", record)
        done = served("why", "--alert", f"forged_found@{at}")
        assert done.exit_code == 1
        assert f"record forged_found@{at} is no row" in done.stderr


def test_what_retention_has_taken_is_said(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    with running(tmp_path / "data", volumes=(volume,)) as (_, user):
        monkeypatch.setenv("SQLENGINE_SERVER", user.client.server)
        user.topic("gone_logins")
        user.write("gone_logins", *MANY[:2])
        # What comes now is in a segment of its own.
        user.client.post("/api/v1/topics/gone_logins/move", {"shard": 0, "folder": str(volume)})
        at = started(user, "gone", replace(CASES["tumble"], logins=MANY[2:]))
        with broker_of(user.client) as broker:
            broker.trim("gone_logins", 0, 2)
        done = sql("why", "--alert", f"gone_found@{at}")
    assert done.exit_code == 1
    assert "the records of 'gone_logins' before offset 2 are gone" in done.stderr


def test_shards_have_watermarks_of_their_own(served: Sql, user: User) -> None:
    user.topic("shards_logins", 2)
    user.write("shards_logins", login(130, "a"), login(131, "a"), shard=0)
    user.write("shards_logins", login(1, "a"), login(2, "b"), login(3, "a"), shard=1)
    user.write("shards_logins", login(50, "a"), login(600, "z"), shard=1)
    at = started(user, "shards", replace(CASES["tumble"], logins=[]))
    done = served("why", "--alert", f"shards_found@{at}")
    assert done.exit_code == 0, done.stderr
    places = [line.split()[0] for line in done.stdout.splitlines()[2:]]
    assert places == [f"shards_logins:1@{offset}" for offset in (0, 2, 3)]
    then = served("why", "shards", "shards_logins:1@3").stdout.splitlines()
    assert "  TRUE   (COUNT(*) >= 3)   [COUNT(*) = 3]" in then


def test_a_table_that_has_changed_meanwhile(served: Sql, user: User) -> None:
    case = replace(
        CASES["lookup"],
        query="""SELECT host, COUNT(DISTINCT owner) FROM (
SELECT l.host, o.owner FROM logins l JOIN owners FOR SYSTEM_TIME AS OF l.now AS o ON l.host = o.host)
GROUP BY host HAVING COUNT(DISTINCT owner) > 1""",
        columns="n BIGINT, PRIMARY KEY (host) NOT ENFORCED",
        options=UPSERT,
        alert={"host": "a", "n": 2},
    )
    for topic in ("logins", "resets"):
        user.topic(f"between_{topic}")
    user.client.post("/api/v1/topics", {"name": "between_owners", "compacted": True})
    user.submit("between", case.text("between"))
    for owner in ("ann", "bob"):
        body = json.dumps({"host": "a", "owner": owner}).encode()
        user.client.post("/api/v1/topics/between_owners/records", body, key='{"host":"a"}')
        eventually(lambda: user.job("between")["tables"][0]["behind"] == 0, "it has read the owner")
        user.write("between_logins", login(1, "a"))
        eventually(
            lambda: all(t["behind"] == 0 for t in user.job("between")["tables"]), "it has read all"
        )
    at = alert_of(user, "between", case)
    done = served("why", "--alert", f"between_found@{at}")
    assert done.exit_code == 0, done.stderr
    places = sorted(line.split()[0] for line in done.stdout.splitlines()[2:])
    assert places == [f"between_{p}" for p in ("logins@0", "logins@1", "owners@0", "owners@1")]


def test_a_table_that_has_changed_since_is_said(served: Sql, user: User) -> None:
    at = started(user, "moved", CASES["lookup"])
    owner = json.dumps({"host": "a", "owner": "new"}).encode()
    user.client.post("/api/v1/topics/moved_owners/records", owner, key='{"host":"a"}')
    user.client.post("/api/v1/topics/moved_owners/compact")
    done = served("why", "--alert", f"moved_found@{at}")
    assert done.exit_code == 1
    assert "table 'owners' has changed since" in done.stderr
