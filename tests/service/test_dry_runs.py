"""A dry run says what the submit would say, and leaves everything as it is."""

from __future__ import annotations

from functools import partial

import pytest

from parser.errors import Position
from sqlengine.client import Client
from tests.service.harness import User, rule

TABLE = (
    "CREATE TABLE told ({columns}) WITH ('connector' = 'topic', 'topic' = 'told', 'format' ="
    " 'json')"
)
OPTIONS = {
    "unknown connector": (
        "'connector' = 'topik', 'topic' = 'x', 'format' = 'json'",
        "unknown connector 'topik' of table 't'",
        "did you mean 'topic'?",
    ),
    "no connector": ("'topic' = 'x'", "table 't' has no connector", "'connector' = 'topic'"),
    "unknown option": (
        "'connector' = 'topic', 'topc' = 'x', 'topic' = 'x', 'format' = 'json'",
        "unknown option 'topc'",
        "did you mean 'topic'?",
    ),
    "missing option": (
        "'connector' = 'topic', 'format' = 'json'",
        "table 't' needs the option 'topic'",
        "",
    ),
    "unknown format": (
        "'connector' = 'topic', 'topic' = 'x', 'format' = 'jsn'",
        "unknown format 'jsn'",
        "'json'",
    ),
    "option of the format": (
        (
            "'connector' = 'topic', 'topic' = 'x', 'format' = 'json', 'json.ignore-parse-error' ="
            " 'true'"
        ),
        "unknown option 'json.ignore-parse-error' of table 't'",
        "did you mean 'json.ignore-parse-errors'?",
    ),
    "bad value": (
        "'connector' = 'topic', 'topic' = 'x', 'format' = 'json', 'scan.startup.mode' = 'early'",
        "'scan.startup.mode'",
        "",
    ),
}

# The keys at which the caret stands; where one is missing, it stands at the statement.
WRONG_KEYS = {
    "unknown connector": "'connector'",
    "unknown option": "'topc'",
    "unknown format": "'format'",
    "option of the format": "'json.ignore-parse-error'",
    "bad value": "'scan.startup.mode'",
}


def told(user: User, name: str, sql: str) -> tuple[object, ...]:
    """What both say."""
    before = user.jobs()
    both = [
        user.refused(partial(user.submit, name, sql, **query))
        for query in ({"dry_run": "true"}, {})
    ]
    first, second = [(e.status, e.message, e.detail, e.hint, e.position) for e in both]
    assert first == second
    assert [(j["name"], j["version"], j["state"]) for j in user.jobs()] == [
        (j["name"], j["version"], j["state"]) for j in before
    ]
    return first


def test_a_job_of_another_origin_is_validated(user: User) -> None:
    user.submit("owned", rule("owned"))
    cli = User(Client(user.client.server))  # which says that it is the command line
    done = cli.submit("owned", rule("changed"), dry_run="true")
    told_by_topic = user.command(op="validate", name="owned", sql=rule("changed"))
    assert [(d["status"], d["version"]) for d in (done, told_by_topic)] == [("valid", 2)] * 2
    assert (user.job("owned")["origin"], user.fired()) == ("rest", {"owned"})


def test_definitions_in_use(user: User) -> None:
    user.submit("definition", TABLE.format(columns="id BIGINT"))
    user.submit("user-a", "INSERT INTO told SELECT id FROM events")
    changed = TABLE.format(columns="id STRING")
    assert told(user, "definition", changed)[:2] == (409, "'told' is used by user-a")
    assert told(user, "other", changed)[:2] == (409, "'told' is defined by definition")
    assert told(user, "definition", rule("x"))[:2] == (409, "'told' is used by user-a")


def test_jobs_that_need_each_other(user: User) -> None:
    jobs = {
        "uses": "INSERT INTO told SELECT id FROM events",
        "defines": TABLE.format(columns="id BIGINT"),
    }
    alone = user.refused(lambda: user.submit("uses", jobs["uses"], dry_run="true"))
    assert "unknown table 'told'" in alone.message
    for query, words in (({"dry_run": "true"}, ["valid", "valid"]), ({}, ["added", "added"])):
        answer = user.client.post("/api/v1/jobs", {"jobs": jobs}, **query)
        assert [(j["status"], j["version"]) for j in answer["jobs"]] == [(w, 1) for w in words]  # type: ignore[attr-defined]


def test_a_text_that_stands_already(user: User) -> None:
    user.submit("stands", rule("stands"))
    answer = user.submit("stands", rule("stands"), dry_run="true")
    assert (answer["status"], answer["version"]) == ("valid", 1)


@pytest.mark.parametrize("what", OPTIONS)
def test_options_of_a_table_that_nobody_uses(user: User, what: str) -> None:
    options, message, hint = OPTIONS[what]
    sql = f"CREATE TABLE t (id BIGINT)\nWITH ({options})"
    error = told(user, "options", sql)
    assert error[0] == 400
    assert message in str(error[1])
    assert hint in str(error[3])
    wrong = WRONG_KEYS.get(what)
    line, column = (2, sql.split("\n")[1].index(wrong) + 1) if wrong else (1, 14)
    position = error[4]
    assert isinstance(position, Position)
    assert (position.line, position.column) == (line, column)
