"""Shadows as people see them: over the command line, HTTP, and the watched folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sqlengine.engine.shadows import canaries
from tests.cli.conftest import Sql
from tests.service.harness import TABLES, User, rule, running
from tests.support import eventually

HEAD = "-- @rule\n-- title: Loud\n-- status: shadow\n"


def fates(user: User, name: str) -> list[str | None]:
    """What has become of each version of a rule that was a shadow."""
    history: Any = user.client.get(f"/api/v1/jobs/{name}/history")
    return [version["fate"] for version in history["versions"]]


def test_a_rule_is_shadowed_compared_and_promoted(served: Sql, user: User, tmp_path: Path) -> None:
    file = tmp_path / "loud.sql"
    file.write_text(rule("loud", "amount > 5"))
    assert served("submit", file).stdout == "loud: added, version 1\n"
    file.write_text(HEAD + rule("loud", "amount > 3"))
    assert served("submit", file).stdout == "loud: shadowed, version 2\n"
    assert (user.fired(amount=4), user.fired(amount=6)) == (set(), {"loud"})
    listed = served("jobs").stdout
    assert "loud@shadow" in listed
    shown = served("diff", "loud").stdout.splitlines()
    assert shown[0].startswith("loud: version 2 as a shadow beside version 1, since 20")
    assert shown[1] == "  alerts: both gave 1 row, +1 -0"
    assert shown[2].startswith("    + 20")
    body = json.loads(served("diff", "loud", "--output", "json").stdout)
    (table,) = body["tables"]
    assert (body["version"], table["added"], table["left_out"]) == (2, 1, 0)
    assert table["added_samples"][0]["row"] == {"rule": "loud", "id": 1}
    assert served("promote", "loud").stdout == "loud: promoted, version 2\n"
    assert user.fired(amount=4) == {"loud"}
    history = served("history", "loud").stdout
    assert "promoted by cli" in history
    refused = served("promote", "all")
    assert (refused.exit_code, "job 'all' has no shadow" in refused.stderr) == (1, True)


@pytest.mark.parametrize("command", [("promote",), ("diff",), ("why", "{}")])
def test_a_job_that_is_not_there_is_named_with_what_is(
    served: Sql, user: User, command: tuple[str, ...]
) -> None:
    name, *event = command
    done = served(name, "al", *event)
    assert done.exit_code == 1
    assert "job 'al' does not exist" in done.stderr
    assert "did you mean 'all'?" in done.stderr
    done = served(name, "all@shadow", *event)
    assert (done.exit_code, "job 'all' has no shadow" in done.stderr) == (1, True), done.stderr


def test_a_shadow_is_withdrawn(served: Sql, user: User) -> None:
    user.submit("shy", rule("shy", "amount > 5"))
    user.submit("shy", HEAD + rule("shy", "amount > 3"))
    assert user.job("shy@shadow")["rule"]["status"] == "shadow"
    assert served("remove", "shy", "--shadow").stdout == "shy@shadow: removed\n"
    assert (user.states()["shy"], "shy@shadow" in user.states()) == ("running", False)
    assert fates(user, "shy") == [None, "withdrawn by cli"]


def test_a_file_brings_a_shadow_and_takes_it_away(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "tables.sql").write_text(TABLES)
    file = jobs / "loud.sql"
    file.write_text(HEAD + rule("loud", "amount > 3"))
    for start in range(2):
        with running(tmp_path / "data", jobs=jobs) as (_, user):
            for name in ("events", "alerts"):
                user.topic(name)
            eventually(lambda: user.states().get("loud@shadow") == "running", "the shadow")
            if start:
                file.unlink()
                eventually(lambda: "loud@shadow" not in user.states(), "its end")
            assert "loud" not in user.states()


def test_a_noisy_canary_is_rolled_back_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canaries.Canaries, "every_s", 0.1)
    with running(tmp_path / "data") as (_, user):
        user.prepare()
        user.submit("loud", rule("loud", "amount > 5"))
        canary = HEAD + "-- canary: 1h, max-rate 5/h\n"
        user.submit("loud", canary + rule("loud"))
        user.write("events", *(user.event(amount=1) for _ in range(6)))
        eventually(lambda: "loud@shadow" not in user.states(), "the roll-back")
        assert "6 rows in" in str(fates(user, "loud")[1])
        assert user.fired(amount=1) == set()


def test_why_is_asked_of_the_version_that_is_live(served: Sql, user: User) -> None:
    event = '{"id": 1, "amount": 4}'
    user.submit("asked", rule("asked", "amount > 5"))
    user.submit("asked", HEAD + rule("asked", "amount > 3"))
    assert "amount > 5" in served("why", "asked", event).stdout
    assert "amount > 3" in served("why", "asked@shadow", event).stdout
    served("promote", "asked")
    assert "amount > 3" in served("why", "asked", event).stdout
    user.submit("asked", HEAD + rule("asked", "amount > 2"))
    served("remove", "asked", "--shadow")
    assert "amount > 3" in served("why", "asked", event).stdout, "2 was withdrawn"
    user.submit("alone", HEAD + rule("alone", "amount > 7"))
    served("remove", "alone", "--shadow")
    assert "amount > 7" in served("why", "alone", event).stdout, "it never was live"


def test_two_folders_with_tables_are_told_apart(served: Sql, user: User, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        tables = TABLES.replace("events", f"ev_{name}").replace("alerts", f"al_{name}")
        (tmp_path / name / "_tables.sql").write_text(tables)
        text = f"INSERT INTO al_{name} SELECT '{name}', id FROM ev_{name}"
        (tmp_path / name / f"{name}s.sql").write_text(text)
        for topic in (f"ev_{name}", f"al_{name}"):
            user.topic(topic)
    assert served("submit", tmp_path / "one").exit_code == 0
    refused = served("submit", tmp_path / "two")
    said = refused.stdout + refused.stderr
    assert (refused.exit_code, "is used by ones" in said) == (1, True), said
    assert f"'{tmp_path / 'one' / '_tables.sql'}' is job '_tables' already" in said, said
    assert "put a '_tables.sql' into the folder above" in said
    assert served("remove", "ones", "_tables").exit_code == 0
    together = served("submit", tmp_path)
    assert "would both be the job '_tables'" in together.stderr
    assert "put a '_tables.sql' into the folder above both" in together.stderr
    (tmp_path / "_tables.sql").write_text(TABLES.replace("events", "ev").replace("alerts", "al"))
    done = served("submit", tmp_path)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "ones" not in user.states()
    assert {"one._tables", "two._tables", "two.twos"} <= user.states().keys()
