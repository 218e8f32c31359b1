"""suppress, threshold, limit and maintenance of a rule's head: which alerts come, that the plain SQL
which EXPLAIN shows gives the same, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from parser import parse
from parser.errors import SqlError
from parser.statements import Insert
from planner import bind
from planner.analysis.plain_alerts import plain_alerts
from sqlengine.trial.bench import open_bench
from sqlengine.trial.events import BEGIN_MS, Event, event_of
from sqlengine.trial.rules import StandIns, TrialRule, plan_rule
from tests.cli.conftest import Sql

TABLES = """
CREATE TABLE events (id BIGINT, host STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE alerts (id BIGINT, host STRING, ts TIMESTAMP(3), n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE plain (id BIGINT, host STRING, n BIGINT, m BIGINT NOT NULL)
WITH ('connector' = 'topic', 'topic' = 'plain', 'format' = 'json');
CREATE TABLE `odd one` (`the host` STRING, `ts` TIMESTAMP_LTZ(3), `n` DECIMAL(20, 0))
WITH ('connector' = 'topic', 'topic' = 'odd', 'format' = 'json');
CREATE TABLE latest (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'latest', 'format' = 'json', 'upsert' = 'true');
"""
TIMED = "INSERT INTO alerts (id, host, ts) SELECT id, host, ts FROM events WHERE id >= 0"
CLOCK = "INSERT INTO plain SELECT id, host, -1, 0 FROM events"
CAST = "INSERT INTO `odd one` (`the host`, ts) SELECT host, ts FROM events"


@dataclass(frozen=True)
class Case:
    """Alerts that `events` give, each 'host 12:00', with the number behind them where one stands."""

    head: str
    events: str
    alerts: str
    sql: str = TIMED
    settings: str = ""


CASES = {
    "the first passes, the next tells how many were held back": Case(
        "suppress: 1h by host into n",
        "a 12:00, a 12:20, b 12:30, a 12:59, a 13:00, a 13:01, b 14:00",
        "a 12:00 0, b 12:30 0, a 13:00 2, b 14:00 0",
    ),
    "without a column all count": Case(
        "suppress: 1h", "a 12:00, b 12:30, c 13:00, a 13:10", "a 12:00, c 13:00"
    ),
    "a key may have several columns": Case(
        "suppress: 1d by host, id", "a 12:00, a 12:00, b 12:00", "a 12:00, a 12:00, b 12:00"
    ),
    "a period begins with an alert that passes": Case(
        "suppress: 10m into n", "a 12:00, a 12:09, a 12:11, a 12:20, a 12:22", "a 12:00 0, a 12:11 1, a 12:22 1"
    ),
    "rows that come late are of their own time": Case(
        "suppress: 10m into n",
        "a 12:00, a 11:55, a 11:50, a 12:01",
        "a 12:00 0, a 11:50 1, a 12:01 0",
    ),
    "one row of a far future does not silence a rule": Case(
        "suppress: 1h by host", "a 12:00, a 23:00, a 13:05, a 13:20", "a 12:00, a 23:00, a 13:05"
    ),
    "a limit lets so many pass": Case(
        "limit: 2/h into n",
        "a 12:00, a 12:01, a 12:02, b 12:03, a 12:59, a 13:00, a 13:01, a 13:02, a 15:00",
        "a 12:00 0, a 12:01 0, a 13:00 3, a 13:01 0, a 15:00 1",
    ),
    "a limit by a column": Case(
        "limit: 1/10m by host", "a 12:00, b 12:00, a 12:05, a 12:10", "a 12:00, b 12:00, a 12:10"
    ),
    "a threshold wants so many in a time": Case(
        "threshold: 3 in 10m by host",
        "a 12:00, b 12:01, a 12:09, a 12:10, a 12:11, a 12:12, a 12:20, b 12:30",
        "a 12:11",
    ),
    "behind a threshold counting begins anew": Case(
        "threshold: 2 in 1h", "a 12:00, a 12:10, a 12:20, a 12:30, a 12:40", "a 12:10, a 12:30"
    ),
    "a threshold counts rows near one that comes late": Case(
        "threshold: 3 in 10m", "a 12:00, a 12:08, a 11:59, a 12:09", "a 11:59"
    ),
    "all together": Case(
        "threshold: 2 in 10m by host\nsuppress: 30m by host into n\nlimit: 2/d",
        "a 12:00, a 12:01, a 12:02, a 12:03, b 12:04, b 12:05, a 12:40, a 12:41, c 13:00, c 13:01,"
        " d 13:00, d 13:01, a 23:58, a 23:59",
        "a 12:01 0, b 12:05 0",
    ),
    "what a limit holds back is told with what was held back before it": Case(
        "suppress: 10m by host\nlimit: 1/h into n",
        "a 12:00, a 12:05, b 12:06, b 12:07, b 12:20, a 13:00, b 13:01",
        "a 12:00 0, a 13:00 4",
    ),
    "a row at the end of a period tells how many were held back": Case(
        "suppress: 1h by host, then count into n",
        "a 12:00, a 12:20, b 12:30, a 12:59, a 13:00, a 13:01, b 14:00, b 15:00",
        "a 12:00 0, b 12:30 0, a 12:59 2, a 13:00 0, b 14:00 0, b 15:00 0, a 13:01 1",
    ),
    "the end of all rows ends periods": Case(
        "suppress: 1h then count into n", "a 12:00, a 12:20, b 12:30", "a 12:00 0, b 12:30 2"
    ),
    "a limit ends its periods, too": Case(
        "threshold: 2 in 1h by host\nlimit: 2/1h, then count into n\nmaintenance: 11:00-12:00",
        "a 11:59, a 12:00, a 12:01, a 12:02, a 12:03, b 12:04, b 12:05, b 12:06, b 12:07, a 18:00",
        "a 12:01 0, a 12:03 0, b 12:07 2",
    ),
    "periods end by the clock": Case(
        "suppress: 30m by host, then count into m",
        "a 12:00, a 12:10, a 12:29, b 12:29, a 12:31, b 13:10",
        "a 12:00 0, b 12:29 0, a 12:29 2, a 12:31 0, b 13:10 0",
        CLOCK,
    ),
    "rows behind the watermark are told a period later": Case(
        "suppress: 10m, then count into n",
        "a 12:00, a 12:30, a 12:29, a 12:31, a 12:21, a 12:39, a 12:51",
        "a 12:00 0, a 12:30 0, a 12:39 4, a 12:51 0",
    ),
    "maintenance once": Case(
        "maintenance: [2026-01-01 12:00 to 2026-01-01 13:00]",
        "a 11:59, a 12:00, a 12:59, a 13:00",
        "a 11:59, a 13:00",
    ),
    "maintenance each week, over midnight": Case(
        "maintenance: [Wed 23:00-00:01, Thu-Fri 12:00-13:00]",  # 1 January is a Thursday
        "a 00:00, a 00:01, a 12:30, a 13:00, a 23:30",
        "a 00:01, a 13:00, a 23:30",
    ),
    "maintenance each day": Case(
        "maintenance: 12:00-24:00", "a 11:59, a 12:00, a 23:59", "a 11:59"
    ),
    "alerts of a maintenance begin no period": Case(
        "maintenance: 12:00-12:05\nsuppress: 1h", "a 12:04, a 12:06, a 12:30", "a 12:06"
    ),
    "by the clock, with numbers where there were others": Case(
        "suppress: 30m by host into m", "a 12:00, a 12:29, b 12:29, a 12:30", "a 12:00 0, b 12:29 0, a 12:30 1", CLOCK
    ),
    "maintenance by the clock in the session's zone": Case(
        "maintenance: 13:00-14:00",
        "a 11:59, a 12:00, a 12:59, a 13:00",
        "a 11:59, a 13:00",
        CLOCK,
        "SET 'table.local-time-zone' = 'Europe/Berlin';\n",
    ),
    "a row time that is cast, and odd names": Case(
        "suppress: 1h by `the host` into n\nmaintenance: 2026-01-01 15:00 to 2026-01-01 16:00",
        "a 12:00, a 12:30, a 13:30, a 15:30, a 16:00",
        "a 11:00 0, a 12:30 1, a 15:00 0",
        CAST,
        "SET 'table.local-time-zone' = 'Europe/Berlin';\n",
    ),
    "several aggregates below": Case(
        "suppress: 1h into n",
        "a 12:00, a 12:00, a 12:01, b 12:30, b 14:00",
        "a 12:00 0, b 14:00 2",
        "INSERT INTO alerts (id, host, ts) SELECT COUNT(*), host, window_time FROM TABLE(TUMBLE(TABLE events,"
        " DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY host, window_start, window_end, window_time",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_alerts_are_held_back(name: str) -> None:
    case = CASES[name]
    rule = _rule(case.head, case.settings + case.sql)
    numbered = any(len(alert.split()) > 2 for alert in case.alerts.split(", "))
    came = _alerts(rule, case, numbered)
    assert came == case.alerts.split(", ")
    (insert,) = [s for s in parse(case.sql) if isinstance(s, Insert)]
    (bound,) = bind(insert, rule.catalog.catalog, rule.settings)
    plain = plain_alerts(insert, bound, rule.settings)
    assert _alerts(_rule("title: plain", case.settings + plain), case, numbered) == came


def _rule(head: str, sql: str) -> TrialRule:
    lines = "".join(f"-- {line}\n" for line in ("@rule", *head.split("\n")))
    return plan_rule("r", f"{lines}{TABLES}{sql}", None, StandIns(), None)


def _alerts(rule: TrialRule, case: Case, numbered: bool) -> list[str]:
    """Returns the alerts in the form of a case."""
    events = _events(rule, [text.split() for text in case.events.split(", ")])
    with open_bench() as bench:
        result = bench.run(rule.sinks, rule.settings, events)
    assert not result.errors, result.first_error
    (changes,) = result.changes.values()
    number = "m" if case.sql == CLOCK else "n"
    times = {str(e.values["id"]): str(e.values["ts"])[11:16] for e in events}
    found = []
    for _, row in changes:
        time = str(row["ts"])[11:16] if "ts" in row else times[str(row["id"])]
        host = row.get("host", row.get("the host"))
        found.append(f"{host} {time}" + (f" {row[number]}" if numbered else ""))
    return found


def _events(rule: TrialRule, rows: Sequence[Sequence[str]]) -> list[Event]:
    (table,) = rule.reads
    events: list[Event] = []
    for number, (host, time) in enumerate(rows):
        row = {"id": number, "host": host, "ts": f"2026-01-01 {time}:00"}
        events.append(event_of(table, row, events[-1].time if events else BEGIN_MS))
    return events


@pytest.mark.parametrize(
    ("head", "place", "message", "sql"),
    [
        ("suppress: often", "2:14", "'often' is no suppress", TIMED),
        ("suppress: 1h for host", "2:14", "write it as 'suppress: 1h by host, rule'", TIMED),
        ("suppress: 1h by host, host", "2:14", "names a column twice", TIMED),
        ("suppress: 0h", "2:14", "is no suppress", TIMED),
        ("suppress: 999d", "2:14", "in 366 days at most", TIMED),
        ("threshold: 5 by host", "2:15", "write it as 'threshold: 5 in 10m by host'", TIMED),
        ("threshold: 5 in 10m into n", "2:15", "is no threshold", TIMED),
        ("threshold: 20000 in 10m", "2:15", "from 1 to 10,000 rows", TIMED),
        ("limit: 100", "2:11", "write it as 'limit: 100/h by host'", TIMED),
        ("maintenance: [Sun 02:00-04:00, noon]", "2:17", "'noon' is no time of maintenance", TIMED),
        ("maintenance: Son 02:00-04:00", "2:17", "names no day of the week", TIMED),
        ("maintenance: 02:00-25:00", "2:17", "hours from 00 to 24", TIMED),
        ("maintenance: 2026-01-02 12:00 to 2026-01-01 12:00", "2:17", "ends before it begins", TIMED),
        ("suppress: 1h by hosts", "2:14", "names column 'hosts', which alerts of 'alerts' do not have", TIMED),
        ("limit: 9/h into number", "2:11", "names column 'number'", TIMED),
        ("limit: 9/h into host", "2:11", "is STRING, but 'limit' writes a BIGINT into it", TIMED),
        ("limit: 9/h by n into n", "2:11", "the alerts are counted by it", TIMED),
        ("suppress: 1h into n\nlimit: 9/h into id", "3:11", "there is one number for all", TIMED),
        ("suppress: 1h, then count", "2:14", "is no suppress", TIMED),
        ("suppress: 1h, then count into n\nlimit: 9/h", "2:14", "'suppress' and 'limit' hold back together", TIMED),
        ("suppress: 1h, then count into n", "2:14", "is TIMESTAMP_LTZ(3), and the watermark is not", CAST),
        ("suppress: 1h by host, then count into n", "2:14", "alerts that are updated",
         "INSERT INTO latest SELECT host, COUNT(*) FROM events GROUP BY host"),
        ("suppress: 1h by host", "2:14", "alerts that are updated or deleted cannot be held back",
         "INSERT INTO latest SELECT host, COUNT(*) FROM events GROUP BY host"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named_at_its_place(
    head: str, place: str, message: str, sql: str
) -> None:
    with pytest.raises(SqlError) as raised:
        _rule(head, sql)
    assert message in raised.value.with_hint
    assert str(raised.value.position).startswith(place)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SUPPRESSED(ts, INTERVAL '1' HOUR) OVER (ORDER BY ts)",
            "a constant interval and a number",
        ),
        ("SUPPRESSED(id, INTERVAL '1' HOUR, 1) OVER (ORDER BY ts)", "takes a time"),
        (
            "SUPPRESSED(ts, INTERVAL '1' HOUR, 1) OVER (ORDER BY id)",
            "needs an order by a time attribute",
        ),
        ("REACHED(ts, INTERVAL '1' HOUR, 1) OVER (ORDER BY ts ROWS 3 PRECEDING)", "has no frame"),
        ("SUPPRESSED(ts, INTERVAL '1' HOUR, 1)", "OVER"),
    ],
)
def test_the_functions_stand_with_over_in_the_order_of_time(sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        _rule("title: x", f"INSERT INTO plain SELECT id, host, {sql}, 0 FROM events")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR", "takes a table, a time, a period"),
        ("TABLE events, DESCRIPTOR(id), INTERVAL '1' HOUR, 1", "needs a time attribute"),
        ("TABLE events, ts, INTERVAL '1' HOUR, 1", "with DESCRIPTOR"),
        ("TABLE events, DESCRIPTOR(ts), INTERVAL '0' HOUR, 1", "period of a window must be positive"),
        ("TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR, 0", "a number of rows pass, from 1 on"),
        ("TABLE (SELECT host, MAX(ts) AS ts FROM events GROUP BY host), DESCRIPTOR(ts), INTERVAL '1' HOUR, 1",
         "over rows that are updated"),
    ],
)  # fmt: skip
def test_the_table_function_takes_what_it_says(arguments: str, message: str) -> None:
    text = f"INSERT INTO plain SELECT id, host, 0, 0 FROM TABLE(SUPPRESSION({arguments}))"
    with pytest.raises(SqlError, match=message):
        _rule("title: x", text)


def test_why_says_what_holds_an_alert_back(sql: Sql, tmp_path: Path) -> None:
    head = "-- @rule\n-- threshold: 3 in 10m by host\n-- maintenance: 12:00-13:00\n"
    (tmp_path / "r.sql").write_text(f"{head}{TABLES}{TIMED}")
    done = sql("why", "r.sql", '{"id": 1, "host": "a", "ts": "2026-01-01 14:00:00"}')
    assert done.exit_code == 1
    assert done.stdout.splitlines()[:3] == [
        "r would fire, but its alert is held back",
        "held back by threshold: 3 in 10m by host",
        "filter 1",
    ]
    assert "it would need" not in done.stdout
    done = sql("why", "r.sql", '{"id": 1, "ts": "2026-01-01 12:00:00"}', "--output", "json")
    shown = json.loads(done.stdout)
    assert (shown["fires"], shown["held_back"]) == (False, ["maintenance: 12:00-13:00"])


def test_why_knows_rows_that_are_told_at_the_end(sql: Sql, tmp_path: Path) -> None:
    head = "-- @rule\n-- threshold: 2 in 10m\n-- suppress: 1h, then count into n\n"
    (tmp_path / "r.sql").write_text(f"{head}{TABLES}{TIMED}")
    event = '{"id": 1, "host": "a", "ts": "2026-01-01 14:00:00"}'
    assert "held back by threshold: 2 in 10m" in sql("why", "r.sql", event).stdout
    (tmp_path / "r.sql").write_text(
        f"-- @rule\n-- suppress: 1h, then count into n\n{TABLES}{TIMED}"
    )
    done = sql("why", "r.sql", event)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "r fires")


def test_cases_and_explain_know_the_head(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "r.sql").write_text(f"-- @rule\n-- suppress: 1h by host into n\n{TABLES}{TIMED}")
    (tmp_path / "r.test.yaml").write_text(
        "- name: once an hour\n"
        "  events: [{id: 0, host: a, ts: '2026-01-01 12:00:00'}, {id: 1, host: a},\n"
        "    {id: 2, host: a, ts: '2026-01-01 13:00:00'}]\n"
        "  alerts: [{id: 0, n: 0}, {id: 2, n: 1}]\n"
    )
    done = sql("test", "r.sql", "--coverage", "--mutate")
    assert (done.exit_code, done.stderr) == (0, "1 rule, 1 case, all passed\n"), done.stdout
    counted = f"-- @rule\n-- suppress: 1h by host, then count into n\n{TABLES}{TIMED}"
    (tmp_path / "closed.sql").write_text(counted)
    (tmp_path / "closed.test.yaml").write_text(
        "- name: a row at the end of the hour\n"
        "  events: [{id: 0, host: a, ts: '2026-01-01 12:00:00'}, {id: 1, host: a}]\n"
        "  until: 2026-01-01 13:30:00\n"
        "  alerts: [{id: 0, n: 0}, {id: 1, n: 1}]\n"
        "- name: within the hour nothing more\n"
        "  events: [{id: 0, host: a, ts: '2026-01-01 12:00:00'}]\n"
        "  alerts: [{id: 0, n: 0}]\n"
    )
    done = sql("test", "closed.sql", "--coverage", "--mutate")
    assert (done.exit_code, done.stderr) == (0, "1 rule, 2 cases, all passed\n"), done.stdout
    shown = sql("explain", "closed.sql").stdout
    assert "TABLE(SUPPRESSION(TABLE (" in shown
    assert sql("lint", "closed.sql").exit_code == 0
    shown = sql("explain", "r.sql").stdout
    assert "== the rule in plain SQL ==\n-- state that nobody touches is forgotten" in shown
    assert "SUPPRESSED(ts, INTERVAL '1' HOUR, 1) OVER (PARTITION BY host" in shown
    assert sql("lint", "r.sql").exit_code == 0
