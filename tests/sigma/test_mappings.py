"""Mappings: those of the package, one's own, and what a table has to hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from parser.errors import ServiceError
from sqlengine.sigma.conversion import convert_all
from sqlengine.sigma.mappings import load_mappings, mapping_names
from sqlengine.sigma.parsing import read
from sqlengine.sigma.ruleset import ruleset
from sqlengine.sigma.tables import defined_tables

WITH = "WITH ('connector' = 'topic', 'topic' = 't', 'format' = 'json');\n"
ALERTS = f"CREATE TABLE alerts (rule_id STRING) {WITH}"


def rule(source: str, selection: str) -> str:
    return f"title: R\nlogsource: {{{source}}}\ndetection: {{s: {selection}, condition: s}}"


def converted(text: str, mapping: str, tables: str, folder: Path | None = None) -> str:
    """The WHERE of a rule and its table, or why there is none."""
    found = ruleset(read(text, "r.yml"))
    (done,) = convert_all(
        found, load_mappings([mapping], folder), defined_tables(ALERTS + tables)
    ).done
    return str(done.error) if done.error else done.sql.partition("\nFROM ")[2].rstrip(";\n")


PROCESS = rule("category: process_creation, product: windows", "{CommandLine|contains: x}")
FOUND = [
    ("sigma", PROCESS, "process_creation (CommandLine STRING)", "LOWER(`CommandLine`) LIKE '%x%'"),
    ("sigma", PROCESS, "windows_process_creation (CommandLine STRING)", "LOWER(`CommandLine`) LIKE '%x%'"),
    ("sysmon", PROCESS, "sysmon (EventID INT, CommandLine STRING)", "`EventID` = 1 AND LOWER(`CommandLine`) LIKE '%x%'"),
    ("sysmon", PROCESS, "sysmon (EventID STRING, EventData MAP<STRING, STRING>)", "LOWER(`EventID`) = '1' AND LOWER(`EventData`['CommandLine']) LIKE '%x%'"),
    ("windows", PROCESS, "windows (EventID INT, Channel STRING, EventData STRING)",
     "(LOWER(`Channel`) = 'microsoft-windows-sysmon/operational' AND `EventID` = 1) AND LOWER(JSON_VALUE(`EventData`, '$[\"CommandLine\"]')) LIKE '%x%'"),
    ("audit", rule("category: process_creation, product: windows", "{Image: x}"), "security (EventID INT, NewProcessName STRING)",
     "`EventID` = 4688 AND LOWER(`NewProcessName`) = 'x'"),
    ("linux", rule("product: linux, service: sshd", "[fail]"), "syslog (program STRING, message STRING, host STRING)",
     "LOWER(`program`) = 'sshd' AND LOWER(`message`) LIKE '%fail%'"),
    ("cloud", rule("product: aws, service: cloudtrail", "{eventName: x, requestParameters.a: y}"), "cloudtrail (eventName STRING, event STRING)",
     "LOWER(`eventName`) = 'x' AND LOWER(JSON_VALUE(`event`, '$[\"requestParameters\"][\"a\"]')) = 'y'"),
    ("ecs", PROCESS, "ecs (winlog ROW<channel STRING>, `event` ROW<code STRING>, process ROW<command_line STRING>)",
     "(LOWER(`winlog`.`channel`) = 'microsoft-windows-sysmon/operational' AND LOWER(`event`.`code`) = '1') AND LOWER(`process`.`command_line`) LIKE '%x%'"),
    ("ecs", rule("product: windows, service: security", "{TargetUserName: x}"), "ecs (`winlog.channel` STRING, winlog ROW<event_data MAP<STRING, STRING>>)",
     "LOWER(`winlog.channel`) = 'security' AND LOWER(`winlog`.`event_data`['TargetUserName']) = 'x'"),
    ("ocsf", PROCESS, "process_activity (activity_id INT, process ROW<cmd_line STRING>)", "`activity_id` = 1 AND LOWER(`process`.`cmd_line`) LIKE '%x%'"),
]  # fmt: skip


@pytest.mark.parametrize(("mapping", "text", "table", "expected"), FOUND)
def test_mappings_of_the_package(mapping: str, text: str, table: str, expected: str) -> None:
    name = table.partition(" (")[0]
    found = converted(text, mapping, f"CREATE TABLE {table} {WITH}")
    assert found == f"`{name}`\nWHERE {expected}"


def test_every_mapping_of_the_package_is_read() -> None:
    assert mapping_names() == sorted("sigma sysmon windows audit linux cloud ecs ocsf".split())
    for name in mapping_names():
        assert load_mappings([name]).sources


OWN = """
extends: sysmon
sources:
- {product: own, table: logs, where: "kind = 'login'", fields: {User: who}}
fields: {CommandLine: cmd}
placeholders: {Admins: [root, 'adm_*'], Known: {sql: "{field} IN ('a', 'b')"}}
missing: null
alerts: {columns: {rule_id: "UPPER({id})"}}
"""


def test_a_mapping_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    tables = f"CREATE TABLE logs (who STRING, kind STRING) {WITH}"
    tables += f"CREATE TABLE sysmon (EventID INT, cmd STRING) {WITH}"

    def found(text: str) -> str:
        return converted(text, "own.yaml", tables, tmp_path).partition("WHERE ")[2]

    assert found(PROCESS) == "`EventID` = 1 AND LOWER(`cmd`) LIKE '%x%'"
    own = "(kind = 'login') AND "
    asked = rule("product: own", "{User|expand: '%Admins%'}")
    assert (
        found(asked) == f"{own}(LOWER(`who`) = 'root' OR LOWER(`who`) LIKE 'adm\\_%' ESCAPE '\\')"
    )
    asked = rule("product: own", "{User|expand: '%Known%'}")
    assert found(asked) == f"{own}(`who` IN ('a', 'b'))"
    asked = rule("product: own", "{User|expand|endswith: '@%Admins%'}")
    assert "LIKE '%@root' OR" in found(asked)
    assert found(rule("product: own", "{Nothing: 1}")) == f"{own}LOWER(CAST(NULL AS STRING)) = '1'"


REFUSED = [
    (rule("product: p", "{F|expand: '%nobody%'}"), "placeholder %nobody% has no values"),
    (rule("product: p", "{F: 1, H: 2, G: 3}"), "table 'p' has no column for H, G"),
    (rule("product: q", "{F: 1}"), "table 'q' of log source product q is not defined"),
    (rule("definition: x, category: ''", "{F: 1}"), "log source"),
    (rule("product: p", "{F|re: '(?<=a+)b'}"), "REGEXP cannot be asked"),
    (rule("product: p", "{n|minute: 1}"), "and no time"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_cannot_be_converted_says_why(text: str, reason: str) -> None:
    assert reason in converted(text, "sigma", f"CREATE TABLE p (F STRING, n INT) {WITH}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sources: {}", "wrong"),
        ("sorces: []", "'sorces'; known are"),
        ("sources: [{product: x}]", "a source without 'table'"),
        ("sources: [{table: x, match: {F|foo: 1}}]", "Unknown modifier"),
        ("missing: perhaps", "null or refuse"),
        ("extends: nothing", "cannot be read"),
        ("extends: bad.yaml", "extends itself"),
        ("a: [", "no YAML"),
        ("- a", "no map"),
    ],
)
def test_a_wrong_mapping_says_why(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ServiceError) as caught:
        load_mappings(["bad.yaml"], tmp_path)
    assert reason in str(caught.value)
