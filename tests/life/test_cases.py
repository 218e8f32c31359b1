"""`sql test`: cases beside rules say what they found, at the place where they stand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlengine.trial.matching import difference
from tests.cli.conftest import Sql

TABLES = """
CREATE TABLE processes (host STRING, command STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'kafka', 'topic' = 'processes', 'format' = 'json', 'properties.bootstrap.servers' = 'nowhere:1');
CREATE TABLE owners (host STRING, owner STRING, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://nowhere/x', 'table-name' = 'owners', 'lookup.cache' = 'PARTIAL');
CREATE TABLE alerts (rule STRING, severity STRING, host STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE latest (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'latest', 'format' = 'json', 'upsert' = 'true');
"""
ENCODED = """-- @rule
-- severity: high
INSERT INTO alerts SELECT RULE_NAME(), RULE_SEVERITY(), host, 1 FROM processes
WHERE LOWER(command) LIKE '%powershell% -enc%' AND host <> 'lab'
"""
FIRES = "- {name: fires, events: [{host: a, command: PowerShell -Enc A}], alerts: [{host: a}]}\n"
WINDOW = """INSERT INTO alerts SELECT RULE_NAME(), CAST(NULL AS STRING), host, COUNT(*)
FROM TABLE(TUMBLE(TABLE processes, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY host, window_start, window_end"""
COUNTS = "INSERT INTO latest SELECT host, COUNT(*) FROM processes GROUP BY host"
OWNERS = """CREATE VIEW now AS SELECT *, PROCTIME() AS pt FROM processes;
INSERT INTO alerts SELECT RULE_NAME(), o.owner, p.host, 1 FROM now p
JOIN owners FOR SYSTEM_TIME AS OF p.pt AS o ON p.host = o.host"""
RECENT = """SET 'table.exec.state.ttl' = '1 h';
INSERT INTO alerts SELECT 'first', 'low', host, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY PROCTIME()) AS n FROM processes) WHERE n = 1"""
# Nine levels, of which each has the one before ten times.
BOMB = (
    "- events: [{host: [&a0 [x], "
    + ", ".join(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))
    + "]}]"
)

Add = Callable[..., None]


@pytest.fixture
def add(sql: Sql, tmp_path: Path) -> Add:
    """Writes a rule and its cases below `rules`, where the tables are."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "_tables.sql").write_text(TABLES)

    def write(name: str, text: str, cases: str | None = None) -> None:
        path = tmp_path / "rules" / f"{name}.sql"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        if cases is not None:
            path.with_name(f"{path.stem}.test.yaml").write_text(cases)

    return write


def test_cases_that_pass_say_little(sql: Sql, add: Add) -> None:
    add("windows/encoded", ENCODED, FIRES + "- {name: no, events: [{host: a}], alerts: []}\n")
    add("untested", COUNTS)
    done = sql("test", "rules")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "2 rules, 2 cases, all passed, 1 rule without cases\n"
    named = sql("test", "rules/windows/encoded.sql", "-v").stdout
    assert "windows.encoded: fires: passed" in named
    assert "windows.encoded: no: passed" in named


def test_folders_stand_below_the_tables_above_them(sql: Sql, add: Add, tmp_path: Path) -> None:
    own = "CREATE TABLE %s (x INT) WITH ('connector' = 'topic', 'topic' = 'x', 'format' = 'json')"
    for folder in ("windows", "linux"):
        add(f"{folder}/_tables", own % folder)
        add(f"{folder}/encoded", ENCODED, FIRES)
    done = sql("test", "rules/windows", "rules/linux", "rules/linux/encoded.sql", "-v")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "windows.encoded: fires: passed" in done.stdout
    assert done.stderr == "2 rules, 2 cases, all passed\n"
    assert "2 rules, 1 doubtful" in sql("lint", "rules/windows", "rules/linux").stderr


def test_rules_of_one_name(sql: Sql, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.sql").write_text(ENCODED)
    done = sql("test", "a/x.sql", "b/x.sql")
    assert "'a/x.sql' and 'b/x.sql' would both be the job 'x'" in done.stderr


def test_what_differs_is_shown(sql: Sql, add: Add) -> None:
    add("encoded", ENCODED, FIRES.replace("host: a}]}", "host: b, n: 1}]}"))
    done = sql("test", "rules")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "encoded: fires: failed",
        "  alerts: 1 row expected, 1 came",
        '    - {"host": "b", "n": 1}   did not come',
        '    + {"rule": "encoded", "severity": "high", "host": "a", "n": 1}   was not expected',
    ]
    (shown,) = map(json.loads, sql("test", "rules", "--output", "json").stdout.splitlines())
    assert (shown["rule"], shown["case"], shown["status"]) == ("encoded", "fires", "failed")
    sql("test", "rules", "--junit", "report.xml")
    (suite,) = ET.parse("report.xml").getroot()
    assert (suite.get("name"), suite.get("failures")) == ("encoded", "1")
    assert "did not come" in str(suite[0][0].text)


RECORDED = """
CREATE TABLE logins (who STRING, ok BOOLEAN, id BYTES METADATA FROM 'key', host AS CAST(id AS STRING), seen TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  WATERMARK FOR seen AS seen - INTERVAL '5' SECOND)
WITH ('connector' = 'topic', 'topic' = 'logins', 'format' = 'csv');
CREATE TABLE tries (host STRING, n BIGINT, till TIMESTAMP(3)) WITH ('connector' = 'topic', 'topic' = 'tries', 'format' = 'json');
INSERT INTO tries SELECT host, COUNT(*), CAST(window_end AS TIMESTAMP(3))
FROM TABLE(TUMBLE(TABLE logins, DESCRIPTOR(seen), INTERVAL '1' MINUTE)) WHERE NOT ok GROUP BY host, window_start, window_end"""


def test_a_range_of_a_topic_is_a_case(sql: Sql, tmp_path: Path) -> None:
    """With the format of its table, keys, and times."""
    (tmp_path / "tries.sql").write_text(RECORDED)
    sql("topic", "create", "logins", "--data", "data", "--shards", "2")
    for number, key in enumerate(("web-1", "web-1", "web-2", "web-1")):
        more = ("--data", "data", "--key", key, "--shard", str(number // 2))
        Path("row.csv").write_text(f"ann,{str(number == 1).lower()}\n")
        sql("topic", "write", "logins", "row.csv", *more)
    rows = sql(
        "topic", "read", "logins", "--data", "data", "--output", "json", "--until", "1"
    ).stdout
    assert [(r["shard"], r["offset"]) for r in map(json.loads, rows.splitlines())] == [
        (0, 0),
        (1, 0),
    ]
    rows = sql("topic", "read", "logins", "--data", "data", "--output", "json").stdout
    times = [json.loads(line)["timestamp"] for line in rows.splitlines()]
    for number, time in enumerate(times):
        rows = rows.replace(str(time), str(1_750_000_000_000 + 30_000 * (3 - number)), 1)
    (tmp_path / "logins.jsonl").write_text(rows)
    (tmp_path / "tries.test.yaml").write_text("- {events: {file: logins.jsonl}, alerts: []}")
    sql("test", "tries.sql", "--update")
    found = (tmp_path / "tries.test.yaml").read_text()
    assert found.count('"host"') == 3
    assert '{"host": "web-2", "n": 1, "till": "2025-06-15 15:08:00"}' in found
    assert sql("test", "tries.sql").exit_code == 0
    (tmp_path / "logins.jsonl").write_text(rows.replace("ann,true", "ann,true,perhaps"))
    told = sql("test", "tries.sql").stdout
    assert "1 record can be no row of table 'logins'" in told
    assert "perhaps" in told


def test_records_of_kafka_have_headers_and_keys(sql: Sql, tmp_path: Path) -> None:
    table = """CREATE TABLE k (id INT, n INT, h MAP<STRING, BYTES> METADATA FROM 'headers', p INT METADATA FROM 'partition',
      PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 'k', 'key.format' = 'json',
      'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY', 'properties.bootstrap.servers' = 'nowhere:1');
    CREATE TABLE a (id INT, n INT, trace STRING, p INT, PRIMARY KEY (id) NOT ENFORCED)
    WITH ('connector' = 'topic', 'topic' = 'a', 'format' = 'json', 'upsert' = 'true');
    INSERT INTO a SELECT id, n, CAST(h['trace'] AS STRING), p FROM k"""
    (tmp_path / "k.sql").write_text(table)
    key, more = '{"id": 1}', {"shard": 3, "headers": {"trace": "x"}}
    records = [{"offset": 0, "key": key.replace("1", "2"), "value": '{"n": 5}', **more}]
    records += [
        {"offset": n, "key": key, "value": v, **more} for n, v in enumerate(('{"n": 6}', None))
    ]
    (tmp_path / "k.jsonl").write_text("\n".join(map(json.dumps, records)))
    row = "{id: 2, n: 5, trace: x, p: 3}"
    (tmp_path / "k.test.yaml").write_text(f"- {{events: {{file: k.jsonl}}, alerts: [{row}]}}")
    done = sql("test", "k.sql")
    assert done.exit_code == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("cases", "place", "message"),
    [
        ("- events: [{hots: a}]", ":1:3", "no column 'hots'"),
        ("- events: [{ts: soon}]", ":1:3", "is not a TIMESTAMP(3)"),
        ("- events: []\n  alerts: [{hots: a}]", ":1:3", "table 'alerts' has no column 'hots'"),
        ("- events: {alerts: []}", ":1:3", "does not read table 'alerts'"),
        ("- events: []\n  alert: []", ":2:3", "did you mean 'alerts'?"),
        ("- events: 7", ":1:11", "rows are expected here"),
        ("- {events: {processes: {file: none.jsonl}}}", ":1:24", "cannot be read"),
        ("- alerts: []", ":1:3", "a case has no events"),
        ("cases:", ":1:1", "there is no case"),
        ("- events: [", ":2:1", "the file is no YAML"),
        ("- events: [{_kind: up}]", ":1:3", "'up' is no kind of a row"),
        ("- {events: [], until: noon}", ":1:3", "'noon' is no time"),
        ("- {events: [], until: NaT}", ":1:3", "'NaT' is no time"),
        ("- events: [{_time: now}]", ":1:3", "'now' is no time"),
        ("- events: [{_kind: [up]}]", ":1:3", "is no kind of a row"),
        ("- {events: [], alerts: 1, alerts: 0}", ":1:27", "'alerts' is there twice"),
        ("- events: [{host: a, host: b}]", ":1:22", "'host' is there twice"),
        ("- {events: [], alerts: true}", ":1:24", "rows are expected here"),
        (f"- events: [{{ts: 0x{'f' * 5000}}}]", ":1:11", "a value cannot be read"),
        (BOMB, ":1:309", "aliases make more than 1,000,000 values"),
        ("- events: {file: ../../../../etc/hostname}", ":1:11", "is in neither the folder of"),
        ('- events: {file: "a\\0"}', ":1:11", "names no file"),
    ],
)
def test_what_is_wrong_in_a_case_is_named_at_its_place(
    sql: Sql, add: Add, cases: str, place: str, message: str
) -> None:
    add("encoded", ENCODED, cases)
    add("good", ENCODED, FIRES)
    done = sql("test", "rules", "-v")
    assert done.exit_code == 1
    told = done.stdout + done.stderr
    assert f"encoded.test.yaml{place}: " in told
    assert message in told
    assert "good: fires: passed" in told


def test_time_is_that_of_the_events(sql: Sql, add: Add) -> None:
    events = "[{host: a, ts: 2026-01-31 12:00:10}, {host: a}, {host: a, ts: 2026-01-31 12:01:00}]"
    add("window", WINDOW, f"- {{events: {events}, alerts: [{{n: 2}}, {{n: 1}}]}}")
    first = "{host: a}, {host: a}, {host: b}"
    later = "{host: a, _time: 2026-01-01 02:00:00}"
    hosts = "[{host: a}, {host: b}, {host: a}]"
    add("recent", RECENT, f"- {{events: [{first}, {later}], alerts: {hosts}}}")
    done = sql("test", "rules")
    assert done.exit_code == 0, done.stdout + done.stderr


def test_tables_of_any_connector_are_in_memory(sql: Sql, add: Add) -> None:
    owners = "tables: {owners: [{host: a, owner: ops}]}\n"
    events = "[{host: a}, {host: b}]"  # of processes: in the other table it looks rows up
    add("owned", OWNERS, owners + f"cases: [{{events: {events}, alerts: [{{severity: ops}}]}}]")
    rows = "[{host: a}, {host: b}, {host: a}]"
    add(
        "counts", COUNTS, f"- {{events: {rows}, alerts: {{latest: [{{host: a, n: 2}}, {{n: 1}}]}}}}"
    )
    done = sql("test", "rules")
    assert done.exit_code == 0, done.stdout + done.stderr


def test_a_compacted_topic_is_looked_up(sql: Sql, add: Add) -> None:
    rule = """CREATE VIEW now AS SELECT *, PROCTIME() AS pt FROM processes;
INSERT INTO alerts SELECT 'known', 'low', p.host, l.n FROM now p
JOIN latest FOR SYSTEM_TIME AS OF p.pt AS l ON p.host = l.host"""
    add(
        "known",
        rule,
        """- events:
    - {_table: processes, host: a}
    - {_table: latest, host: a, n: 1}
    - {_table: processes, host: a}
    - {_table: latest, host: a, n: 2, _kind: +U}
    - {_table: processes, host: a}
    - {_table: latest, host: a, n: 2, _kind: -D}
    - {_table: processes, host: a}
  alerts: [{n: 1}, {n: 2}]
""",
    )
    done = sql("test", "rules")
    assert done.exit_code == 0, done.stdout + done.stderr


def test_events_may_be_in_files(sql: Sql, add: Add, tmp_path: Path) -> None:
    add("encoded", ENCODED, "- {events: {file: events.jsonl}, alerts: 1}")
    row = {"host": "a", "command": "powershell -enc"}
    lines = [json.dumps(row), "", json.dumps({"offset": 7, "value": json.dumps({"host": "b"})})]
    (tmp_path / "rules" / "events.jsonl").write_text("\n".join(lines))
    done = sql("test", "rules")
    assert done.exit_code == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("deep.jsonl", b'{"host": ' + b"[" * 100_000),
        ("half.jsonl", b'{"host": "\\ud800"}'),
        ("cut.jsonl.gz", gzip.compress(b'{"host": "a"}' * 100)[:-12]),
        ("no.jsonl.gz", b"\x1f\x8bnope"),
    ],
)
def test_files_that_are_damaged_fail_one_rule(
    sql: Sql, add: Add, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / "rules" / name).write_bytes(content)
    add("encoded", ENCODED, f"- {{events: {{file: {name}}}}}")
    add("good", ENCODED, FIRES)
    done = sql("test", "rules", "-v")
    assert name in done.stderr
    assert "good: fires: passed" in done.stdout


def test_links_show_nothing_of_other_folders(sql: Sql, add: Add, tmp_path: Path) -> None:
    (tmp_path / "rules" / "here.jsonl").symlink_to("/etc/hostname")
    add("encoded", ENCODED.replace("-- severity", "-- tests: [../../../more.yaml]\n-- severity"))
    add("good", ENCODED, "- {events: {file: here.jsonl}}")
    done = sql("test", "rules")
    assert done.stderr.count("is in neither the folder of the cases nor the current one") == 2


def test_names_are_no_commands_to_a_ci_server(sql: Sql, add: Add, tmp_path: Path) -> None:
    add("encoded", ENCODED, '- {name: "a\\e[2J\\0", events: []}')
    assert sql("test", "rules", "--junit", "report.xml").exit_code == 0
    root = ET.parse(tmp_path / "report.xml").getroot()
    assert [c.get("name") for c in root.iter("testcase")] == ["a?[2J?"]


def test_rows_in_error_are_expected_or_not(sql: Sql, add: Add) -> None:
    rule = (
        "INSERT INTO alerts SELECT host, command, host, 100 / CAST(command AS INT) FROM processes"
    )
    case = "- {name: divides, events: [{command: '0'}, {command: '5'}], alerts: [{n: 20}]%s}\n"
    add("divides", rule, case % "" + case % ", errors: 1")
    done = sql("test", "rules", "-v")
    assert "1 row in error, where 0 should be" in done.stdout
    assert "detail: division by zero" in done.stdout
    assert "divides: divides: passed" in done.stdout


def test_conditions_of_patterns_and_joins_are_needed_or_not(sql: Sql, add: Add) -> None:
    pattern = """INSERT INTO alerts SELECT 'seq', 'low', host, 1 FROM processes MATCH_RECOGNIZE (
  PARTITION BY host ORDER BY ts MEASURES B.ts AS known PATTERN (A B C)
  DEFINE A AS A.command = 'a', B AS B.command = 'b', C AS TRUE)"""
    rows = "[{host: a, command: a}, {host: a, command: b}, {host: a}]"
    cases = (
        f"- {{events: {rows}, alerts: 1}}\n- {{events: [{{host: b, command: b}}], alerts: []}}\n"
    )
    add("seq", pattern, cases)
    twin = OWNERS.replace("p.host = o.host", "p.host = o.host AND o.owner <> p.command")
    owners = "tables: {owners: [{host: a, owner: ops}]}\ncases:\n"
    event = "- {events: {processes: [{host: a, command: x}, {host: b, command: y}]}, alerts: 1}\n"
    add("owned", twin, owners + event)
    done = sql("test", "rules", "--mutate")
    assert done.stdout.splitlines() == [
        "owned: no case needs: (owner <> command)",
        "seq: no case needs: A AS (command = 'a')",
        "seq: no case needs: B AS (command = 'b')",
        "mutation: 1 of 4 conditions are needed by a case",
    ]


def test_what_came_is_recorded(sql: Sql, add: Add, tmp_path: Path) -> None:
    event = "{host: ä, command: powershell -enc}"
    before = f"""# kept
cases:
  - name: named   # kept, too
    events: [{event}]
    alerts:
      - host: b

  - name: new
    events:
      - {event}

  # behind
  - {{events: [{event}]}}
  - {{alerts: 7, events: []}}
"""
    after = f"""# kept
cases:
  - name: named   # kept, too
    events: [{event}]
    alerts:
      - {{"host": "ä"}}

  - name: new
    events:
      - {event}
    alerts:
      - {{"rule": "encoded", "severity": "high", "host": "ä", "n": 1}}

  # behind
  - {{events: [{event}], alerts: [{{"rule": "encoded", "severity": "high", "host": "ä", "n": 1}}]}}
  - {{alerts: 0, events: []}}
"""
    add("encoded", ENCODED, before)
    done = sql("test", "rules", "--update")
    file = tmp_path / "rules" / "encoded.test.yaml"
    assert (done.exit_code, file.read_text()) == (0, after)
    assert "written" in done.stderr
    assert "written" not in sql("test", "rules", "--update").stderr


def test_conditions_that_cases_do_not_see_or_need(sql: Sql, add: Add) -> None:
    add("encoded", ENCODED, FIRES + "- {events: [{host: a, command: x}], alerts: []}")
    done = sql("test", "rules", "--coverage", "--mutate")
    assert done.stdout.splitlines() == [
        "encoded: always true: (host <> 'lab')",
        "coverage: 1 of 2 conditions were true and not true",
        "encoded: no case needs: (host <> 'lab')",
        "mutation: 1 of 2 conditions are needed by a case",
    ]
    more = "\n- {events: [{host: lab, command: PowerShell -enc}], alerts: []}"
    add("encoded", ENCODED, FIRES + "- {events: [{host: a, command: x}], alerts: []}" + more)
    done = sql("test", "rules", "--coverage", "--mutate")
    assert done.stdout.splitlines() == [
        "coverage: 2 of 2 conditions were true and not true",
        "mutation: 2 of 2 conditions are needed by a case",
    ]


def test_a_rule_that_cannot_be_planned_fails_alone(sql: Sql, add: Add) -> None:
    add("broken", "INSERT INTO alerts SELECT nothing FROM processes", FIRES)
    add("good", ENCODED, FIRES)
    add("named", "-- @rule\n-- tests: [none.yaml]\n" + COUNTS)
    done = sql("test", "rules", "-v")
    assert done.exit_code == 1
    assert "good: fires: passed" in done.stdout
    assert "broken.sql:1:27: invalid statement: unknown column 'nothing'" in done.stderr
    assert "none.yaml' does not exist" in done.stderr
    assert "2 texts in error" in done.stderr


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text("ab", max_size=2))
ROWS = st.lists(st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3), max_size=5)


@given(ROWS, st.data())
def test_rows_match_however_they_are_ordered(
    came: list[dict[str, object]], data: st.DataObject
) -> None:
    """Some columns of all rows that came are what was expected, in any order; one row more or less
    is not."""
    part = [{n: v for n, v in row.items() if data.draw(st.booleans())} for row in came]
    assert difference("t", data.draw(st.permutations(came)), came) is None
    found = difference("t", part, came)
    # A row of which nothing is named may take the place of another.
    assert found is None or len(found.missing) == len(found.unexpected)
    assert difference("t", [*came, {"x": "no such"}], came) is not None
    assert difference("t", len(came), came) is None
    assert difference("t", len(came) + 1, came) is not None
