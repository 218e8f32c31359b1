"""Rules of Sigma in the watched folder of a real server, and by `sql sigma submit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sqlengine.cli import cli
from tests.service.harness import User
from tests.service.test_folder_service import refused_files, wait_for
from tests.support import eventually

TABLES = """CREATE TABLE security (id BIGINT, EventID BIGINT, Account STRING)
WITH ('connector' = 'topic', 'topic' = 'security', 'format' = 'json');
CREATE TABLE sigma_alerts (rule_id STRING, id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'sigma_alerts', 'format' = 'json');
"""
MAPPING = """
sources:
- {product: windows, service: security, table: security}
fields: {User: Account}
alerts: {table: sigma_alerts}
"""
RULE = """title: Logon of $NAME
id: 5f1abf38-0000-4000-8000-00000000000$ID
logsource: {product: windows, service: security}
detection:
  selection: {EventID: 4624, User|contains: $NAME}
  condition: selection
level: low
"""
FILTER = """title: No tests
logsource: {product: windows, service: security}
filter: {rules: any, selection: {User|startswith: test_}, condition: not selection}
"""


def rule(name: str, number: int = 1) -> str:
    return RULE.replace("$NAME", name).replace("$ID", str(number))


@pytest.fixture
def folder(data: Path, user: User) -> Path:
    """The folder with tables and a mapping, which are in place."""
    for topic in ("security", "sigma_alerts"):
        user.topic(topic)
    folder = data / "jobs"
    (folder / "_sigma.yaml").write_text(MAPPING)
    (folder / "_tables.sql").write_text(TABLES)
    eventually(lambda: "_tables" in user.states(), "the tables")
    return folder


def alerted(user: User, number: int, account: str) -> list[str]:
    """The rules, by the last digit of their ids, that give an alert for a logon."""
    user.write("security", {"id": number, "EventID": 4624, "Account": account})
    user.write("security", {"id": -number, "EventID": 4624, "Account": "END"})

    def found() -> list[dict[str, Any]] | None:
        alerts = user.read("sigma_alerts")
        return alerts if any(a["id"] == -number for a in alerts) else None

    return sorted(a["rule_id"][-1] for a in eventually(found) if a["id"] == number)


def test_files_of_rules(user: User, folder: Path) -> None:
    (folder / "end.yml").write_text(rule("END", 9))
    (folder / "team").mkdir()
    (folder / "team" / "logon.yml").write_text(rule("bob"))
    wait_for(user, team__logon="running", end="running")
    assert alerted(user, 1, "BOB") == ["1"]
    (folder / "team" / "logon.yml").write_text(rule("bob") + "---\n" + rule("eve", 2))
    wait_for(user, team__logon=None, team__logon__1="running", team__logon__2="running")
    assert alerted(user, 2, "test_eve_bob") == ["1", "2"]
    version = user.job("team.logon.1")["version"]
    (folder / "filter.yml").write_text(FILTER)
    eventually(lambda: user.job("team.logon.1")["version"] > version, "a filtered rule")
    eventually(lambda: "test" in user.job("end")["sql"], "all of them")
    assert alerted(user, 3, "test_eve_bob") == []
    (folder / "team" / "logon.yml").unlink()
    wait_for(user, team__logon__1=None, team__logon__2=None, end="running")


def test_what_is_wrong_is_told_and_the_job_stays(user: User, folder: Path) -> None:
    path = folder / "logon.yml"
    path.write_text(rule("bob"))
    (folder / "logon.test.yaml").write_text("[a test of it]")
    wait_for(user, logon="running")
    path.write_text(rule("bob").replace("EventID:", "Nothing:"))
    found = eventually(lambda: refused_files(user), "a refused file")
    assert "no column for Nothing" in found["logon.yml"]["message"]
    assert "add the column" in found["logon.yml"]["hint"]
    path.write_text("title: x\n  y: [")
    eventually(lambda: "it is no YAML" in str(refused_files(user)), "another reason")
    (folder / "_sigma.yaml").write_text("sauces: []")
    eventually(lambda: "sauces" in str(refused_files(user).get("_sigma.yaml")), "the mapping's")
    assert user.states()["logon"] == "running"
    (folder / "_sigma.yaml").write_text(MAPPING.replace("User: Account", "Nothing: EventID"))
    path.write_text(rule("bob").replace("User|", "Account|").replace("EventID:", "Nothing:"))
    eventually(lambda: not refused_files(user), "no refused file")
    assert user.states()["logon"] == "running"
    path.unlink()
    wait_for(user, logon=None)


def test_submit(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLENGINE_SERVER", user.client.server)
    for topic in ("security", "sigma_alerts"):
        user.topic(topic)
    (tmp_path / "_tables.sql").write_text(TABLES)
    (tmp_path / "_m.yaml").write_text(MAPPING)
    (tmp_path / "good.yml").write_text(rule("END", 9))
    (tmp_path / "bad.yml").write_text(rule("END").replace("EventID:", "Nothing:"))
    arguments = ["sigma", "submit", str(tmp_path), "--mapping", str(tmp_path / "_m.yaml")]
    done = CliRunner().invoke(cli, [*arguments, "--output", "json"])
    assert done.exit_code == 1
    assert "bad.yml: not converted" in done.stderr
    jobs = {j["name"]: j["status"] for j in json.loads(done.stdout)["jobs"]}
    assert jobs == {"_tables": "added", "good": "added"}
    assert alerted(user, 11, "x") == []
    for name in ("good", "_tables"):
        user.client.delete(f"/api/v1/jobs/{name}")
