"""`sql test` beside files that editors, other machines and haste have made."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Sql

TABLES = """CREATE TABLE processes (host STRING, command STRING)
WITH ('connector' = 'topic', 'topic' = 'processes', 'format' = 'json');
CREATE TABLE alerts (rule STRING, host STRING) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
"""
RULE = "INSERT INTO alerts SELECT RULE_NAME(), host FROM processes WHERE command = 'x'"
FIRES = "- {name: fires, events: [{host: a, command: x}], alerts: [{host: a}]}\n"


@pytest.fixture
def rules(tmp_path: Path, sql: Sql) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "_tables.sql").write_text(TABLES)
    (folder / "a.sql").write_text(RULE)
    (folder / "a.test.yaml").write_text(FIRES)
    return folder


def test_what_came_is_recorded_as_windows_writes_files(sql: Sql, rules: Path) -> None:
    before = (
        "cases:\r\n  - name: ä\r\n    events: [{host: w, command: x}]\r\n    alerts: [{host: b}]\r\n"
        "  - name: new\r\n    events:\r\n      - {host: v, command: x}\r\n"
    )
    after = (
        "cases:\r\n  - name: ä\r\n    events: [{host: w, command: x}]\r\n    alerts:\r\n"
        '      - {"host": "w"}\r\n'
        "  - name: new\r\n    events:\r\n      - {host: v, command: x}\r\n    alerts:\r\n"
        '      - {"rule": "a", "host": "v"}\r\n'
    )
    file = rules / "a.test.yaml"
    file.write_bytes(before.encode("utf-8-sig"))
    done = sql("test", "rules", "--update")
    assert done.exit_code == 0, done.output
    assert file.read_bytes() == after.encode("utf-8-sig")


def test_events_of_other_tools(sql: Sql, rules: Path) -> None:
    line = json.dumps({"host": "ä", "command": "x"}) + "\r\n"
    (rules / "e.jsonl").write_bytes(line.encode("utf-8-sig"))
    (rules / "a.test.yaml").write_text("- {events: {file: e.jsonl}, alerts: [{host: ä}]}")
    assert sql("test", "rules").exit_code == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.parquet", b"PAR1\x15\xff\xd2", "events are lines of JSON in UTF-8, also as .gz"),
        ("e.csv", b"host,command\na,x\n", "events are lines of JSON in UTF-8, also as .gz"),
        ("e.jsonl.gz", gzip.compress(b"{}\n" * 99)[:-9], "cannot be read"),
        ("e.jsonl.gz", b"{}\n", "cannot be read"),
    ],
)
def test_events_that_are_none(
    sql: Sql, rules: Path, name: str, content: bytes, message: str
) -> None:
    (rules / name).write_bytes(content)
    (rules / "a.test.yaml").write_text(f"- {{events: {{file: {name}}}, alerts: 1}}")
    done = sql("test", "rules")
    assert done.exit_code == 1
    assert done.stderr.startswith("rules/a.test.yaml:1:12: syntax error: ")
    assert message in done.stderr
    assert "- {events: {file:" in done.stderr, "the line of that file"


@pytest.mark.parametrize(
    ("cases", "place"),
    [
        ("- {events: [], alerts: [{host: a}], alerts: []}", "1:37"),
        ("cases: [{events: []}]\ncases: [{events: []}]", "2:1"),
        ("- {events: {processes: [], processes: []}}", "1:28"),
        ("- {events: [{host: a, host: b}]}", "1:23"),
    ],
)
def test_a_key_that_stands_twice_is_no_silence(
    sql: Sql, rules: Path, cases: str, place: str
) -> None:
    (rules / "a.test.yaml").write_text(cases)
    done = sql("test", "rules")
    assert f"rules/a.test.yaml:{place}: syntax error: " in done.stderr
    assert "is there twice" in done.stderr


def test_errors_without_a_line_name_the_file(sql: Sql, rules: Path) -> None:
    (rules / "a.test.yaml").write_text("")
    assert "rules/a.test.yaml:1:1: syntax error: the file is empty" in sql("test", "rules").stderr
    (rules / "a.sql").write_text("-- @rule\n-- tests: [none.yaml]\n" + RULE)
    assert "rules/a.sql:2:11: syntax error: the file" in sql("test", "rules").stderr


def test_cases_of_no_rule_are_no_silence(sql: Sql, rules: Path) -> None:
    (rules / "b.test.yaml").write_text(FIRES)
    (rules / "more.test.yaml").write_text(FIRES)
    (rules / "a.sql").write_text("-- @rule\n-- tests: [more.test.yaml]\n" + RULE)
    done = sql("test", "rules")
    assert done.exit_code == 1
    assert "'rules/b.test.yaml' has cases of no rule" in done.stderr
    assert "more" not in done.stderr
    assert "1 rule, 2 cases, all passed, 1 text in error" in done.stderr


def test_a_file_of_cases_names_its_rule(sql: Sql, rules: Path) -> None:
    assert "a: fires: passed" in sql("test", "rules/a.test.yaml", "-v").stdout
    done = sql("test", "rules/b.test.yaml")
    assert "there is no 'rules/b.sql' beside 'rules/b.test.yaml'" in done.stderr


def test_cases_of_one_name_have_their_own_words(sql: Sql, rules: Path) -> None:
    (rules / "a.test.yaml").write_text(
        "".join(FIRES.replace("[{host: a}]", f"[{{host: {host}}}]") for host in "bc")
    )
    sql("test", "rules", "--junit", "report.xml")
    (suite,) = ET.parse("report.xml").getroot()
    assert ['"b"' in str(suite[0][0].text), '"c"' in str(suite[1][0].text)] == [True, True]


def test_conditions_over_aggregates_are_named_as_they_were_written(sql: Sql, rules: Path) -> None:
    (rules / "a.sql").write_text(
        "INSERT INTO alerts SELECT 'a', host FROM processes GROUP BY host HAVING COUNT(*) >= 1"
    )
    tables = TABLES.replace("'alerts', 'format' = 'json'", "'alerts', 'format' = 'debezium-json'")
    (rules / "_tables.sql").write_text(tables)
    done = sql("test", "rules", "--coverage", "--mutate")
    assert done.stdout.splitlines() == [
        "a: always true: (COUNT(*) >= 1)",
        "coverage: 0 of 1 condition were true and not true",
        "a: no case needs: (COUNT(*) >= 1)",
        "mutation: 0 of 1 condition are needed by a case",
    ]


MODULE = """from sqlengine import udf


@udf
def loud(text: str) -> str:
    return text.upper()
"""


@pytest.mark.parametrize(
    "place", ["functions", "rules", "rules/functions", "data/functions", ".", "rules/deep"]
)
@pytest.mark.parametrize("what", ["rules", "rules/deep/b.sql"])
def test_functions_are_found_where_a_project_has_them(
    sql: Sql, rules: Path, place: str, what: str
) -> None:
    create = "CREATE FUNCTION loud AS 'words_of_mine.loud' LANGUAGE PYTHON;\n"
    (rules / "deep").mkdir()
    (rules / "deep" / "_tables.sql").write_text(create)
    (rules / "deep" / "b.sql").write_text(RULE.replace(" host ", " loud(host) "))
    (rules / "deep" / "b.test.yaml").write_text(
        FIRES.replace("alerts: [{host: a", "alerts: [{host: A")
    )
    Path(place).mkdir(exist_ok=True, parents=True)
    Path(place, "words_of_mine.py").write_text(MODULE)
    done = sql("test", what)
    assert done.exit_code == 0, done.output


def test_what_a_broken_text_defines_is_no_second_error(sql: Sql, rules: Path) -> None:
    broken = "CREATE FUNCTION loud AS 'words_of_mine.loud' LANGUAGE PYTHON;\n" + TABLES
    (rules / "_tables.sql").write_text(broken)
    (rules / "b.sql").write_text("INSERT INTO alarms SELECT 1")
    for command in ("test", "lint"):
        done = sql(command, "rules")
        assert done.exit_code == 1
        assert "there is no module 'words_of_mine'" in done.stderr
        assert "unknown table 'alerts'" not in done.stderr
        assert "unknown table 'alarms'" in done.stderr
        assert "3 texts in error" in done.stderr
