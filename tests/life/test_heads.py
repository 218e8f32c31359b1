"""The head of a rule: what it says is seen wherever the rule is, and what is wrong in it is named
at its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parser.errors import ParseError, Position
from parser.rule_head import CHOICES, LIMITS, LISTS, TEXTS, rule_head
from planner.rule_settings import Rule, rule_in, rule_settings
from tests.cli.conftest import Sql
from tests.service.harness import TABLES, User, running

HEAD = """-- Copyright of somebody

-- @rule
-- title: Encoded PowerShell
-- id: 0a1b
-- severity: high
-- owner: blue team
-- description: >
--   It hides
--   what it does.
-- tags: [attack.execution, attack.t1059.001]
-- references: https://example.com/a#b
-- attributes: {playbook: no, level: 3}
"""
WRITTEN = "INSERT INTO alerts SELECT {value}, id FROM events WHERE word = 'x'"
WRONG = {
    "-- titel: a": ("a rule has no field 'titel'", "did you mean 'title'?", (2, 4, 5)),
    "-- level: 3": ("a rule has no field 'level'", "below 'attributes'", (2, 4, 5)),
    "-- severity: hi": ("'hi' is no severity", "informational, low", (2, 14, 2)),
    "-- title: a: b": ("the head of the rule is no YAML", "into quotes", (2, 12, 1)),
    "-- title: a\n-- title: b": ("'title' is there twice", None, (3, 4, 5)),
    "-- title: [a]": ("'title' is one text", None, (2, 11, 3)),
    "-- tags: [a, [b]]": ("'tags' is a list of texts", "[one, two]", (2, 10, 8)),
    "-- attributes: a": ("'attributes' has keys, each with a text", "my_key", (2, 16, 1)),
    "-- attributes: {a: 1, a: 2}": ("'a' is there twice", None, (2, 23, 1)),
    "-- ? [a]\n-- : b": ("a field of a head has a name", None, (2, 6, 3)),
    f"-- maintenance: [{', '.join(['Sun 02:00-04:00'] * 101)}]": (
        "'maintenance' has at most 100 times",
        None,
        (2, 17, 1717),
    ),
    "-- a sentence": ("the head of a rule has fields", "each line", (2, 4, 10)),
    "-- tags: &a [x]\n-- tests: *a": ("the head of a rule has no aliases", None, (3, 11, 1)),
}


def rule_of(text: str) -> Rule | None:
    return rule_in(rule_settings(rule_head(text) or {}))


def test_the_fields_of_a_head_are_texts_lists_and_attributes() -> None:
    assert rule_of(HEAD + "SELECT 1") == Rule(
        title="Encoded PowerShell",
        id="0a1b",
        severity="high",
        owner="blue team",
        description="It hides what it does.",
        tags=("attack.execution", "attack.t1059.001"),
        references=("https://example.com/a#b",),
        attributes={"playbook": "no", "level": "3"},
    )


@pytest.mark.parametrize(
    "text", ["", "SELECT 1", "-- a comment\nSELECT 1", "SELECT 1\n-- @rule\n-- title: a"]
)
def test_a_text_has_no_head_unless_it_begins_with_one(text: str) -> None:
    assert rule_head(text) is None


@pytest.mark.parametrize("head", WRONG)
def test_what_is_wrong_in_a_head_is_named_at_its_place(head: str) -> None:
    message, hint, place = WRONG[head]
    with pytest.raises(ParseError) as caught:
        rule_head(f"-- @rule\n{head}\nSELECT 1")
    assert caught.value.message == message
    assert hint is None or hint in (caught.value.hint or "")
    assert caught.value.position == Position(*place)


@pytest.mark.parametrize("number", ["1" * 400, "1" * 5000], ids=len)
@pytest.mark.parametrize(
    "field",
    ["threshold: {n} in 1h", "suppress: {n}h", "limit: {n}/h", "limit: 1/{n}h", "canary: {n}h"],
)
def test_numbers_without_end_are_refused(field: str, number: str) -> None:
    with pytest.raises(ParseError, match=r"is no|lasts from"):
        rule_head(f"-- @rule\n-- {field.format(n=number)}\nSELECT 1")


def test_deep_and_large_heads_are_refused() -> None:
    for text in ("[" * 10_000, "x" * 100_000, "a: &a [1]\n-- b: *a"):
        with pytest.raises(ParseError):
            rule_head(f"-- @rule\n-- tags: {text}\n")


WORDS = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S"), include_characters=" "),
    max_size=20,
).map(str.strip)
_BY = st.sampled_from(["", " by host", " by host, `a rule`"])
FORMS = {
    "maintenance": st.sampled_from(["Sun 02:00-04:00", "2026-02-01 22:00 to 2026-02-02 04:00"]),
    "suppress": st.builds("{}h{}".format, st.integers(1, 99), _BY),
    "threshold": st.builds("{} in 10m{}".format, st.integers(1, 99), _BY),
    "limit": st.builds("{}/h{} into n".format, st.integers(1, 99), _BY),
}
HEADS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(TEXTS, WORDS),
        **{name: st.sampled_from(choices) for name, choices in CHOICES.items()},
        **{name: st.lists(FORMS.get(name, WORDS.filter(bool)), max_size=3) for name in LISTS},
        **{name: FORMS[name] for name in LIMITS},
        "attributes": st.dictionaries(WORDS.filter(bool), WORDS, max_size=3),
    },
)


@given(HEADS, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_head_is_read_as_it_was_written(head: dict[str, object], end: str, flow: bool) -> None:
    written = yaml.safe_dump(head, allow_unicode=True, default_flow_style=flow) if head else ""
    lines = ["-- @rule", *(f"-- {line}" for line in written.splitlines()), "SELECT 1"]
    found = rule_head(end.join(lines))
    assert found is not None
    as_written = {n: tuple(v) if isinstance(v, list) else v for n, v in head.items()}
    assert {name: field.value for name, field in found.items()} == as_written


def test_a_rule_can_say_what_its_head_says(sql: Sql, tmp_path: Path) -> None:
    query = "SELECT RULE_NAME() n, RULE_TITLE() t, RULE_SEVERITY() s, RULE_TAGS() g,"
    query += " RULE_ATTRIBUTE('playbook') p, RULE_ATTRIBUTE('none') q, RULE_ID() i,"
    query += " RULE_OWNER() o, RULE_DESCRIPTION() d;\nSET 'rule.title' = 'another';"
    (tmp_path / "rule.sql").write_text(HEAD + query + "\nSELECT RULE_TITLE() AS t;")
    done = sql("run", "rule.sql", "--output", "json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {
            "n": "script",
            "t": "Encoded PowerShell",
            "s": "high",
            "g": ["attack.execution", "attack.t1059.001"],
            "p": "no",
            "q": None,
            "i": "0a1b",
            "o": "blue team",
            "d": "It hides what it does.",
        },
        {"t": "another"},
    ]
    for call in ("RULE_TITLE(1)", "RULE_ATTRIBUTE(a)", "RULE_ATTRIBUTE()"):
        assert sql("run", "-e", f"SELECT {call} FROM (VALUES 1) t(a)").exit_code == 1
    assert "is no severity" in sql("run", "-e", "SET 'rule.severity' = 'hi'").stderr


def test_a_head_is_shown_with_its_job(served: Sql, user: User, tmp_path: Path) -> None:
    (tmp_path / "headed.sql").write_text(HEAD + WRITTEN.format(value="RULE_TITLE()"))
    (tmp_path / "bad.sql").write_text("-- @rule\n-- severity: hi\nSELECT 1")
    assert served("submit", "headed.sql").exit_code == 0
    assert user.fired("x") == {"Encoded PowerShell"}
    rule = user.job("headed")["rule"]
    assert (rule["severity"], rule["status"], rule["tags"][1]) == (
        "high",
        "live",
        "attack.t1059.001",
    )
    assert user.job("all")["rule"] is None
    listed = served("jobs").stdout
    assert "severity  title" in listed
    assert "high      Encoded PowerShell" in listed
    assert "bad.sql:2:14: syntax error: 'hi' is no severity" in served("submit", "bad.sql").stderr


def test_a_draft_is_checked_and_runs_once_it_is_live(user: User) -> None:
    def submit(status: str, value: str = "'drafted'") -> str:
        text = f"-- @rule\n-- status: {status}\n{WRITTEN.format(value=value)}"
        return str(user.submit("drafted", text)["status"])

    assert "unknown column" in str(user.refused(lambda: submit("draft", "nothing")))
    assert submit("draft") == "added"
    assert (user.job("drafted")["state"], user.fired("x")) == ("draft", set())
    refused = user.refused(lambda: user.client.post("/api/v1/jobs/drafted/start"))
    assert "does not start" in str(refused)
    assert "status: live" in (refused.hint or "")
    assert user.client.post("/api/v1/jobs/drafted/stop")["status"] == "unchanged"
    assert submit("live") == "replaced"
    assert user.fired("x") == {"drafted"}
    assert submit("retired") == "replaced"
    assert (user.job("drafted")["state"], user.fired("x")) == ("retired", set())


def test_a_draft_is_one_after_a_restart(tmp_path: Path) -> None:
    text = "-- @rule\n-- status: {}\n" + WRITTEN.format(value="RULE_NAME()")
    with running(tmp_path / "data") as (_, user):
        user.prepare()
        user.submit("drafted", text.format("draft"))
    with running(tmp_path / "data") as (_, user):
        assert user.states()["drafted"] == "draft"
        assert user.fired("x") == set()
        user.submit("drafted", text.format("live"))
        assert user.fired("x") == {"drafted"}


def test_the_tables_of_a_folder_stand_in_one_place(
    sql: Sql, user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "rules"
    (rules / "windows").mkdir(parents=True)
    (rules / "_tables.sql").write_text(TABLES.replace("events", "clicks"))
    (rules / "windows" / "one.sql").write_text("INSERT INTO alerts SELECT 'one', id FROM clicks")
    user.topic("clicks")
    explained = sql("explain", "rules/windows/one.sql")
    assert "clicks" in explained.stdout, explained.stderr
    monkeypatch.setenv("SQLENGINE_SERVER", user.client.server)
    done = sql("validate", "rules/windows/one.sql")
    assert (done.exit_code, "one: valid" in done.stdout) == (0, True), done.stderr
    done = sql("submit", "rules")
    assert "windows.one: added" in done.stdout, done.stderr
    assert set(user.states()) >= {"_tables", "windows.one"}
