"""Correlations: sliding windows and orders, over a real run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlengine.sigma.conversion import convert_all
from sqlengine.sigma.mappings import load_mappings
from sqlengine.sigma.parsing import read
from sqlengine.sigma.ruleset import ruleset
from sqlengine.sigma.tables import defined_tables
from tests.sigma.correlating import TABLES, correlation, run


def correlating(name: str, member: str, times: int) -> str:
    """A correlation of a rule with itself."""
    rules = ", ".join([f"c{member}" if member != "base" else member] * times)
    return (
        f"title: c{name}\nname: c{name}\ncorrelation: {{type: temporal, rules: [{rules}],"
        " group-by: [User], timespan: 5m}\n"
    )


def event(
    number: int, kind: str, clock: str, user: str | None = "bob", **more: Any
) -> dict[str, Any]:
    return {"id": number, "kind": kind, "User": user, "ts": f"2024-01-01 {clock}", **more}


EVENTS = [
    event(1, "failed", "00:00:00", Host="a", n=1.0),
    event(2, "failed", "00:05:00", "BOB", Host="b", n=5.0),
    event(3, "failed", "00:06:00", None, Host="c", n=5.0),
    event(4, "failed", "00:07:00", "eve", Host="a", n=2.0),
    event(5, "failed", "00:10:00", Host="A", n=9.0),
    event(6, "login", "00:11:00", Account="bob"),
    event(7, "failed", "00:20:00.001", Host="z", n=3.0),
    event(8, "whoami", "00:21:00"),
    event(9, "login", "00:30:00", "eve", Account="eve"),
]
COUNT = "type: {}, rules: [failed], group-by: [User], timespan: 10m, condition: {}"
WINDOWS = [
    (COUNT.format("event_count", "{gte: 3}"), [5]),
    (COUNT.format("event_count", "{gt: 1}"), [2, 5]),
    (COUNT.format("event_count", "{eq: 1}"), [1, 4, 7]),
    (COUNT.format("value_count", "{field: Host, gte: 2}"), [2, 5]),
    (COUNT.format("value_count", "{field: Host, gte: 3}"), []),
    (COUNT.format("value_count", "{field: [Host, n], gte: 3}"), [5]),
    (COUNT.format("value_sum", "{field: n, gt: 10}"), [5]),
    (COUNT.format("value_avg", "{field: n, gte: 5}"), [5]),
    (COUNT.format("value_percentile", "{field: n, gt: 7, percentile: 90}"), [5]),
    (COUNT.format("value_median", "{field: n, gte: 5}"), [5]),
    ("type: event_count, rules: [failed], timespan: 6m, condition: {gte: 4}", [5]),
    ("type: event_count, rules: [failed, login], group-by: [User], timespan: 10m, condition: {gte: 3}", [5, 6]),
    ("type: temporal, rules: [failed, login], group-by: [User], timespan: 10m", [6, 7]),
    ("type: temporal, rules: [failed, login, whoami], group-by: [User], timespan: 1h, condition: {gte: 2}", [6, 7, 8, 9]),
    ("type: temporal, rules: [failed, login, whoami], group-by: [User], timespan: 1h, condition: failed and (login or whoami)", [6, 7, 8, 9]),
    ("type: temporal_ordered, rules: [failed, login], group-by: [User], timespan: 6m", [6]),
    ("type: temporal_ordered, rules: [login, failed], group-by: [User], timespan: 10m", [7]),
    ("type: temporal_ordered, rules: [failed, login, whoami], group-by: [User], timespan: 20m", [8]),
    ("type: temporal_ordered, rules: [login, failed, whoami], group-by: [User], timespan: 9m", []),
    ("type: temporal_ordered, rules: [failed, login], group-by: [who], timespan: 5m, aliases: {who: {failed: User, login: Account}}", [6]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "completed_by"), WINDOWS)
def test_alerts_come_with_the_event_that_completes(
    text: str, completed_by: list[int], tmp_path: Path
) -> None:
    alerts = run(tmp_path, correlation(f"{{{text}}}"), EVENTS)
    assert [a["id"] for a in alerts if a["rule_id"] == "C"] == completed_by


CHAINED = """
title: Many
name: many
correlation: {type: event_count, rules: [failed], group-by: [User], timespan: 10m, condition: {gte: 3}}
---
"""


def test_a_correlation_of_a_correlation(tmp_path: Path) -> None:
    text = "{type: temporal_ordered, rules: [many, login], group-by: [User], timespan: 5m}"
    rules = correlation(text).replace("title: C\n", CHAINED.lstrip() + "title: C\n")
    alerts = run(tmp_path, rules, EVENTS)
    found = [(a["rule_id"], a["id"], a["group_key"]) for a in alerts if a["rule_id"] == "C"]
    assert found == [("C", 6, "bob")]


def test_rules_of_a_correlation_give_alerts_where_it_says_so(tmp_path: Path) -> None:
    text = (
        "{type: event_count, generate: true, rules: [failed], timespan: 10m, condition: {gte: 9}}"
    )
    rules = correlation(text)
    alerts = run(tmp_path, rules, EVENTS)
    assert [a["id"] for a in alerts] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    (tmp_path / "quiet").mkdir()
    quiet = run(tmp_path / "quiet", rules.replace("generate: true", "generate: false"), EVENTS)
    assert [a["id"] for a in quiet] == [6, 8, 9]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("type: temporal, rules: [failed, nobody], timespan: 1m", "its rule 'nobody' is not there"),
        ("type: temporal, rules: [failed], group-by: [x], timespan: 1m", "has no column for x"),
        (COUNT.format("value_percentile", "{field: n, gt: 1}"), "does not say which"),
        (
            "type: temporal, rules: [failed], timespan: 1m, condition: not failed",
            "what does not come",
        ),
        (
            "type: temporal_ordered, rules: [failed, login], timespan: 1m, condition: {gte: 1}",
            "for all of its rules",
        ),
        ("type: temporal, rules: [C], timespan: 1m", "comes back to itself"),
    ],
)
def test_what_cannot_be_converted_says_why(text: str, reason: str) -> None:
    found = ruleset(read(correlation(f"{{{text}}}"), "rules.yml"))
    tables = defined_tables(TABLES.format(folder="/tmp"))
    (refused,) = convert_all(found, load_mappings(["sigma"]), tables).refused
    assert reason in str(refused.error)


RULE = (
    "title: a\nname: base\nlogsource: {product: logs}\ndetection: {s: {User: x}, condition: %s}\n"
)


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        ([RULE % ("not " * 3000 + "s")], "it is nested too deeply"),
        ([correlating("a", "a", 50)], "comes back to itself"),
        (
            [RULE % "s", *(correlating(str(n), str(n - 1) if n else "base", 20) for n in range(9))],
            "it is made of more than 1,000 correlations",
        ),
    ],
    ids=["nested", "cycle", "tree"],
)
def test_small_texts_that_would_be_endless(documents: list[str], reason: str) -> None:
    found = ruleset(read("---\n".join(documents), "a.yml"))
    done = convert_all(found, load_mappings(["sigma"]), defined_tables(TABLES, "t.sql")).done
    assert reason in str(done[-1].error)
