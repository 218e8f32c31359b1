"""Rules that are wrong, huge or vicious; the others go on."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import pytest

from tests.service.harness import User, rule
from tests.support import eventually

# RE2 does not take it, and Hyperscan only without the look-behind. With backtracking, each further
# `a` of a value of nothing but `a` takes longer by half.
EVIL = "^(a|aa)+b?(?<!a)$"
READ = "; INSERT INTO alerts SELECT 'x', id FROM k"
USE = "; INSERT INTO k SELECT id FROM events"
BROKEN = {
    "SELECT": ("INSERT INTO alerts SELECT", "1:"),
    "an unknown function": (rule("x", "SHOUT(word) = 'A'"), "1:53: "),
    "an unknown table": ("INSERT INTO alerts SELECT 'x', id FROM evnts", "did you mean 'events'"),
    "types that do not fit": (rule("x", "word > amount AND amount LIKE 'a%'"), "1:"),
    "an unclosed string": ("INSERT INTO alerts SELECT 'x, id FROM events", "1:27: "),
    "too few columns": ("INSERT INTO alerts SELECT id FROM events", "1:"),
    "a pattern that cannot compile": (rule("x", "REGEXP(word, 'a(')"), "a("),
    "a topic that is missing": (
        "CREATE TABLE k (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'event', 'format' ="
        " 'json')" + READ,
        "topic 'event' of table 'k' does not exist",
    ),
    "an unknown connector": (
        "CREATE TABLE k (id BIGINT) WITH ('connector' = 'kafak')" + USE,
        "kafak",
    ),
    "an unknown option": (
        "CREATE TABLE k (id BIGINT) WITH ('connector' = 'topic', 'topik' = 'x', 'format' = 'json')"
        + USE,
        "topik",
    ),
    "writing to a system topic": (
        "CREATE TABLE k (id BIGINT) WITH ('connector' = 'topic', 'topic' = '_jobs', 'format' ="
        " 'json')" + USE,
        "topic '_jobs' of table 'k' belongs to the system",
    ),
    "a zero byte": (rule("x", "word = '\x00") + "nonsense", "1:"),
}


@pytest.mark.parametrize(("sql", "told"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rule_says_what_is_wrong(user: User, sql: str, told: str) -> None:
    user.submit("good", rule("good"))
    for query in ({}, {"dry_run": "true"}):
        error = user.refused(partial(user.submit, "x", sql, **query))
        assert error.status in (400, 422), error
        assert told in f"{error} {error.hint}", f"{error} {error.hint}"
        assert "Traceback" not in str(error)
    assert "x" not in user.states()
    assert user.fired() == {"good"}


def test_a_rule_of_1100_operands(user: User) -> None:
    words = [f"w{n}" for n in range(1100)]
    user.submit("wide", rule("wide", " OR ".join(f"LOWER(word) LIKE '%{w}z%'" for w in words)))
    user.submit(
        "deep",
        rule("deep", "NOT (" + " AND NOT (".join(f"amount <> {n}" for n in range(25)) + ")" * 25),
    )
    assert user.fired("a W1099Z b") == {"wide"}
    assert user.fired("a w1099 b") == set()
    user.submit("wide", rule("wide", " OR ".join(f"word = '{w}'" for w in words)))
    assert user.fired("w1099") == {"wide"}


def test_a_catastrophic_pattern_is_given_up_and_the_others_go_on(user: User) -> None:
    user.submit("evil", rule("evil", f"REGEXP(word, '{EVIL}')"))
    user.submit("tame", rule("tame", "REGEXP(word, '(a+)+$')"))
    user.submit("good", rule("good", "word LIKE 'a%'"))
    assert user.fired("aab") == {"evil", "good"}
    begin = time.process_time()
    assert user.fired("a" * 50_000 + "!") == {"good"}
    for word in ("a" * 50, "a" * 51):
        assert user.fired(word) == {"tame", "good"}
    assert user.fired("aab") == {"evil", "good"}
    assert time.process_time() - begin < 5
    letters = eventually(lambda: [x for x in user.letters() if x["job"] == "evil"])
    assert len(letters) == 2
    assert "regular expression" in letters[0]["reason"]
    assert letters[0]["payload"].startswith('{"')
    assert {user.job(n)["state"] for n in ("evil", "tame", "good")} == {"running"}


def test_many_values_for_a_catastrophic_pattern_do_not_hold_up_the_others(user: User) -> None:
    """It is given up after a few of them: its job fails, none of its events is lost, and the others
    go on."""
    user.submit("evil", rule("evil", f"REGEXP(word, '{EVIL}')"))
    user.submit("good", rule("good", "word LIKE 'a%'"))
    events = [user.event("a" * (40 + n)) for n in range(200)]
    begin = time.process_time()
    user.write("events", *events)
    user.fired("quick")
    assert time.process_time() - begin < 5  # with 0.1 s for each it would be 20
    failed = eventually(lambda: (j := user.job("evil"))["state"] == "failed" and j)
    assert "was given up" in failed["reason"]
    letters = {json.loads(x["payload"])["id"] for x in user.letters() if x["job"] == "evil"}
    assert letters >= {e["id"] for e in events}
    assert user.fired("aab") == {"good"}
    user.client.post("/api/v1/jobs/evil/start")
    # In a graph of its own at first, since the others have read on: its rows come apart from theirs.
    event = user.event("aab")
    user.write("events", event)
    eventually(lambda: user.alerts(event["id"]) == {"evil", "good"}, "an alert of each")


def test_a_pattern_that_needs_no_second_try_takes_any_text(user: User) -> None:
    """Nested repeats alone take time that grows with the text and no faster, whatever it ends
    in."""
    user.submit("nested", rule("nested", "REGEXP(word, '^((a+)+|(a|aa)*b)+$')"))
    begin = time.process_time()
    for end, wanted in (("!", set()), ("!\r\n", set()), ("b\n", {"nested"})):
        assert user.fired("a" * 5_000 + end) == wanted
    assert time.process_time() - begin < 2
    assert "nested" not in {x["job"] for x in user.letters()}


def test_hundreds_of_rules_of_which_one_is_broken(user: User) -> None:
    jobs = {f"r{n}": rule(f"r{n}", f"amount = {n}") for n in range(60)}
    jobs["r30"] = rule("r30", "REGEXP(word, '(')")
    jobs["r31"] = rule("r31", "amount = ")
    body: Any = user.client.post("/api/v1/jobs", {"jobs": jobs})
    refused = {j["name"] for j in body["jobs"] if j["status"] == "refused"}
    assert refused == {"r30", "r31"}
    assert (user.fired(amount=29), user.fired(amount=30), user.fired(amount=31)) == (
        {"r29"},
        set(),
        set(),
    )


def test_a_duration_of_any_length_is_one(user: User) -> None:
    long = "99999999999999999 d"
    user.submit(
        "long",
        f"SET 'table.exec.state.ttl' = '{long}'; SET 'job.step-timeout' = '{long}';"
        "CREATE TEMPORARY TABLE e (id BIGINT, ts AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR ts AS ts)"
        " WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json',"
        f" 'scan.watermark.idle-timeout' = '{long}', 'scan.watermark.max-future' = '{long}');"
        "INSERT INTO alerts SELECT 'long', id FROM (SELECT DISTINCT id FROM e)",
    )
    user.submit("good", rule("good"))
    assert user.fired() == {"long", "good"}
