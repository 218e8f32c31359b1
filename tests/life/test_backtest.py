"""`sql backtest`: rules over the past of their tables, beside `sql run` over the same."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from planner.graph.merge import Graph, merge
from planner.graph.physical import lower
from planner.graph.rule_sets import RulesPlan
from sqlengine.system.file_access import ANY_FILES
from sqlengine.trial.past.backtest import Backtest
from sqlengine.trial.past.period import Period
from sqlengine.trial.past.tables import Past
from sqlengine.trial.rules import StandIns, plan_rule
from tests.cli.conftest import Sql
from tests.service.harness import User

LOGINS = """CREATE TABLE logins (usr STRING, host STRING, ok BOOLEAN, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ({logins});
CREATE TABLE hosts (host STRING, owner STRING) WITH ({hosts});
CREATE TABLE alarms (rule STRING, usr STRING, host STRING, n BIGINT) WITH ({alarms});
"""
TOPICS = {
    name: f"'connector' = 'topic', 'topic' = '{name}', 'format' = 'json'"
    for name in ("logins", "hosts", "alarms")
}
RULES = {
    "failed": "SELECT RULE_NAME(), usr, host, CAST(1 AS BIGINT) FROM logins WHERE NOT ok",
    "many": """SELECT RULE_NAME(), usr, CAST(NULL AS STRING), COUNT(*)
FROM TABLE(TUMBLE(TABLE logins, DESCRIPTOR(ts), INTERVAL '1' HOUR))
WHERE NOT ok GROUP BY usr, window_start, window_end HAVING COUNT(*) >= 3""",
    "total": "SELECT RULE_NAME(), usr, host, COUNT(*) FROM logins GROUP BY usr, host HAVING COUNT(*) > 40",
    "twice": """SELECT RULE_NAME(), a.usr, a.host, CAST(2 AS BIGINT) FROM logins a JOIN logins b
ON a.usr = b.usr AND a.host <> b.host AND b.ts BETWEEN a.ts - INTERVAL '10' MINUTE AND a.ts WHERE NOT a.ok AND b.ok""",
}


@pytest.fixture(autouse=True)
def not_nice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the tests keeps its priority."""
    monkeypatch.setattr(os, "setpriority", lambda *_: None)


def events(days: Sequence[int], each: int = 200) -> Iterator[dict[str, Any]]:
    """Logins of some days of January, in the order of their times."""
    for day in days:
        for n in range(each):
            seconds = n * 86_000 // each
            at = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.000"
            usr, host = f"u{n // 30 % 4}", f"h{n * 5 % 3}"
            yield {"usr": usr, "host": host, "ok": n % 3 != 0, "ts": f"2026-01-{day:02d} {at}"}


def lines(rows: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    retract = TOPICS["alarms"].replace("'json'", "'debezium-json'")
    (folder / "_tables.sql").write_text(LOGINS.format(**{**TOPICS, "alarms": retract}))
    for name, query in RULES.items():
        (folder / f"{name}.sql").write_text(
            f"-- @rule\n-- title: {name}\nINSERT INTO alarms {query};"
        )
    return folder


def report(done: Result) -> dict[str, Any]:
    """What a backtest says as JSON, by rule; '' has the whole."""
    assert done.exit_code == 0, done.output
    return {body.get("rule", ""): body for body in map(json.loads, done.stdout.splitlines())}


def test_alerts_are_those_of_a_run_over_the_same_files(sql: Sql, rules: Path) -> None:
    Path("logins.jsonl").write_bytes(lines(list(events(range(1, 8)))))
    file = "'connector' = 'filesystem', 'path' = 'logins.jsonl', 'format' = 'json'"
    memory = "'connector' = 'memory', 'name' = 'alerts', 'changelog-mode' = 'I,UB,UA,D'"
    tables = LOGINS.format(logins=file, hosts=TOPICS["hosts"], alarms=memory)
    own = [q.replace("RULE_NAME()", f"'{name}'") for name, q in RULES.items()]
    inserts = "".join(f"INSERT INTO alarms {query};\n" for query in own)
    Path("all.sql").write_text(f"{tables}{inserts}SELECT * FROM alarms;")
    ran = sql("run", "all.sql", "--output", "json")
    assert ran.exit_code == 0, ran.output
    done = sql(
        "backtest", "rules", "--table", "logins=logins.jsonl", "--out", "o", "--output", "json"
    )
    out = map(json.loads, Path("o").read_text().splitlines())
    written = [{**r["alert"], "op": r.get("kind", "+I")} for r in out]
    alerts = folded(written)
    assert alerts == folded(list(map(json.loads, ran.stdout.splitlines())))
    numbers = Counter(json.loads(row)["rule"] for row in alerts.elements())
    body = report(done)
    assert {name: body[name]["alerts"] for name in RULES} == numbers
    assert set(numbers) == set(RULES), "each rule fires"
    assert body[""]["rows"] == 7 * 200


def test_files_and_partitions_outside_the_period_are_not_read(sql: Sql, rules: Path) -> None:
    for day in range(1, 8):
        folder = Path(f"archive/dt=2026-01-{day:02d}")
        folder.mkdir(parents=True)
        (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines(list(events([day])))))
    for month, day in ((1, 3), (1, 4), (2, 1)):
        folder = Path(f"parquet/year=2026/month={month}/day={day}")
        folder.mkdir(parents=True)
        rows = [{**e, "ts": f"2026-{month:02d}-{e['ts'][8:]}"} for e in events([day])]
        table = pa.Table.from_pylist(rows)
        at = pa.compute.strptime(table["ts"].cast(pa.string()), "%Y-%m-%d %H:%M:%S.000", "ms")
        pq.write_table(table.set_column(3, "ts", at), folder / "a.parquet", row_group_size=20)
    period = ("--since", "2026-01-03T12:00", "--until", "2026-01-05", "--output", "json")
    found = [
        report(sql("backtest", "rules/failed.sql", "--table", f"logins={path}", *period))
        for path in ("archive", "parquet")
    ]
    days = {"2026-01-03": 33, "2026-01-04": 67}
    assert [body["failed"]["days"] for body in found] == [days, days]
    # Of the days beside them, since a partition may be of another zone.
    assert found[0][""]["rows"] == 4 * 200
    assert found[1][""]["rows"] == 100 + 200, "groups of rows before the period are left out"
    wide = report(
        sql("backtest", "rules/failed.sql", "--table", "logins=archive", "--output", "json")
    )
    assert wide[""]["rows"] == 7 * 200


def test_the_rate_is_that_of_the_time_of_the_data(sql: Sql, rules: Path) -> None:
    """Without an end the period ends with the last row, whenever it is looked at."""
    Path("logins.jsonl").write_bytes(lines(list(events([3, 4]))))
    asked = ("backtest", "rules/failed.sql", "--table", "logins=logins.jsonl", "--output", "json")
    found = report(sql(*asked, "--since", "2026-01-03"))["failed"]
    assert found["alerts"] == 134
    assert found["per_hour"] == pytest.approx(134 / 48, rel=0.02)
    found = report(sql(*asked, "--since", "2026-01-03", "--until", "2026-01-13"))["failed"]
    assert found["per_hour"] == pytest.approx(134 / 240)


def test_topics_of_a_server_beside_its_live_version(served: Sql, user: User, rules: Path) -> None:
    user.topic("logins")
    user.submit("_tables", (rules / "_tables.sql").read_text())
    for name in ("failed", "many"):
        user.submit(name, (rules / f"{name}.sql").read_text())
    user.write("logins", *events([1, 2]))
    text = (rules / "failed.sql").read_text()
    (rules / "failed.sql").write_text(
        text.replace("NOT ok", "(NOT ok AND usr <> 'u0' OR ok AND usr = 'u1')")
    )
    done = served("backtest", "rules", "--since", "1h", "--against", "live", "--top", "host,n")
    assert done.exit_code == 0, done.output
    body = report(
        served("backtest", "rules", "--since", "1h", "--against", "live", "--output", "json")
    )
    difference = body["failed"]["difference"]
    assert difference["more"] > 0
    assert difference["less"] > 0
    assert body["failed"]["alerts"] == difference["more"] + 134 - difference["less"]
    assert difference["samples_more"][0]["usr"] == "u1"
    assert body["many"]["difference"]["more"] == 0, "equal versions do not run twice"
    assert body["total"]["difference"]["more"] == body["total"]["alerts"], "a new rule"
    assert '+ failed: {"rule": "failed", "usr": "u1"' in done.stdout
    assert "failed: host: h0 " in done.stdout
    live = [
        report(served("backtest", "failed", *period, "--output", "json"))["failed"]["alerts"]
        for period in ((), ("--until", "1h"))
    ]
    assert live == [134, 0]
    written = [r for r in user.read("alarms") if r["after"]["rule"] == "failed"]
    assert len(written) == 134, "the server's own"


def test_two_files_a_lookup_and_time_to_live(sql: Sql, tmp_path: Path) -> None:
    tables = LOGINS.replace("ts TIMESTAMP(3),", "ts TIMESTAMP(3), now AS PROCTIME(),").format(
        **TOPICS
    )
    first = """SET 'table.exec.state.ttl' = '1 d';
INSERT INTO alarms SELECT RULE_NAME(), l.usr, o.owner, CAST(1 AS BIGINT)
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY usr ORDER BY now) AS n FROM logins) l
JOIN hosts FOR SYSTEM_TIME AS OF l.now AS o ON l.host = o.host WHERE l.n = 1;"""
    Path("a.sql").write_text(tables + first)
    Path("b.sql").write_text(tables + first.replace("1 d", "1000 d"))
    Path("hosts.csv").write_text("h0,ops\nh1,ops\nh2,dev\n")
    days = [e for day in range(1, 29, 2) for e in events([day], 4)]
    Path("l.jsonl").write_bytes(lines(days))
    given = ("--table", "logins=l.jsonl", "--table", "hosts=hosts.csv", "--output", "json")
    body = report(sql("backtest", "a.sql", "--against", "b.sql", *given))
    assert body[""]["looked_up_as_now"] == ["hosts"]
    assert body["a"]["alerts"] == body["a"]["difference"]["more"] + 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("logins=nothing", "there is no file or folder 'nothing' for table 'logins'"),
        ("logins", "--table 'logins' is not NAME=VALUE"),
        (None, "or name files that have the past of tables (--table NAME=PATH)"),
    ],
)
def test_what_has_no_past_is_named(sql: Sql, rules: Path, table: str | None, message: str) -> None:
    done = sql("backtest", "rules", *([] if table is None else ["--table", table]))
    assert done.exit_code != 0
    assert message in done.output


@pytest.mark.parametrize("watermark", [",\n  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND", ""])
@pytest.mark.parametrize("connector", ["topic", "filesystem"])
def test_the_time_of_alerts_costs_no_operator(watermark: str, connector: str) -> None:
    """Rows of many rules come at once: each rule's projection is made with its filter."""
    place = "topic" if connector == "topic" else "path"
    source = f"'connector' = '{connector}', '{place}' = 'l', 'format' = 'json'"
    tables = LOGINS.replace(
        LOGINS[LOGINS.index(",\n  WATERMARK") : LOGINS.index(") WITH")], watermark
    )
    tables = tables.format(**{**TOPICS, "logins": source})
    text = (
        "INSERT INTO alarms SELECT RULE_NAME(), usr, host, CAST(1 AS BIGINT) FROM logins WHERE {};"
    )
    as_they_are = StandIns(stand_in=lambda table: table)
    made = {
        name: plan_rule(name, tables + text.format(where), None, as_they_are, None)
        for name, where in {"a": "ok", "b": "NOT ok AND host = 'h0'"}.items()
    }
    test = Backtest(made, {}, Past(Period(), ANY_FILES, {}))
    plan = lower(merge(Graph(), test.jobs))
    assert len(plan.sinks) == 1
    (filters,) = (n for n in plan.nodes.values() if isinstance(n.plan, RulesPlan))
    assert not any(edge.target in plan.nodes for edge in filters.outgoing)


def folded(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    """The rows that are there behind all changes."""
    found: Counter[str] = Counter()
    for row in rows:
        sign = -1 if row.pop("op", "+I") in ("-U", "-D") else 1
        found[json.dumps(row)] += sign
    return +found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--table", "login=logins.jsonl"], "'login' is no table: did you mean 'logins'?"),
        (["--top", "hst"], "'hst' is no column of an alert: did you mean 'host'?"),
        (["--top", "x"], "'x' is no column of an alert: there is host, n, rule, usr"),
    ],
)
def test_misspelt_names_are_no_silence(
    sql: Sql, rules: Path, options: Sequence[str], message: str
) -> None:
    Path("logins.jsonl").write_bytes(lines(list(events([1]))))
    done = sql("backtest", "rules", "--table", "logins=logins.jsonl", *options)
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.stderr.split())


def test_a_file_that_is_not_there_is_the_one_error(sql: Sql, rules: Path) -> None:
    done = sql("backtest", "rules", "--table", "logins=nope.jsonl")
    assert done.stderr == (
        "service error: there is no file or folder 'nope.jsonl' for table 'logins'\n"
    )


def test_a_version_beside_the_folder_has_its_tables(sql: Sql, rules: Path) -> None:
    Path("logins.jsonl").write_bytes(lines(list(events([1]))))
    text = (rules / "many.sql").read_text()
    Path("fewer.sql").write_text(text.replace("NOT ok", "NOT ok AND usr <> 'u0'"))
    options = ("--table", "logins=logins.jsonl", "--output", "json")
    body = report(sql("backtest", "rules/many.sql", "--against", "fewer.sql", *options))
    assert body["many"]["difference"]["less"] == 0
    assert 0 < body["many"]["difference"]["more"] < body["many"]["alerts"]
    Path("old").mkdir()
    Path("old/many.sql").write_text(text)
    body = report(sql("backtest", "rules", "--against", "old", *options))
    assert body["many"]["difference"]["more"] == 0
    assert body[""]["without_other_version"] == ["failed", "total", "twice"]


def test_a_row_in_error_counts_once(sql: Sql, rules: Path) -> None:
    Path("logins.jsonl").write_bytes(b"garbage\n" + lines(list(events([1]))))
    body = report(sql("backtest", "rules", "--table", "logins=logins.jsonl", "--output", "json"))
    assert (body[""]["set_aside"], body[""]["rows"]) == (1, 201)
