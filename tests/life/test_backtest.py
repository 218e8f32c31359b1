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

from tests.cli.conftest import Sql
from tests.service.harness import User

LOGINS = """CREATE TABLE logins (usr STRING, host STRING, ok BOOLEAN, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ({logins});
CREATE TABLE hosts (host STRING, owner STRING) WITH ({hosts});
CREATE TABLE alerts (rule STRING, usr STRING, host STRING, n BIGINT) WITH ({alerts});
"""
TOPICS = {
    name: f"'connector' = 'topic', 'topic' = '{name}', 'format' = 'json'"
    for name in ("logins", "hosts", "alerts")
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
            usr, host = f"u{n * 7 % 4}", f"h{n * 5 % 3}"
            yield {"usr": usr, "host": host, "ok": n % 3 != 0, "ts": f"2026-01-{day:02d} {at}"}


def lines(rows: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    retract = TOPICS["alerts"].replace("'json'", "'debezium-json'")
    (folder / "_tables.sql").write_text(LOGINS.format(**{**TOPICS, "alerts": retract}))
    for name, query in RULES.items():
        (folder / f"{name}.sql").write_text(f"-- @rule\n-- title: {name}\nINSERT INTO alerts {query};")
    return folder


def report(done: Result) -> dict[str, Any]:
    """What a backtest says as JSON, by rule; '' has the whole."""
    assert done.exit_code == 0, done.output
    return {body.get("rule", ""): body for body in map(json.loads, done.stdout.splitlines())}


def test_alerts_are_those_of_a_run_over_the_same_files(sql: Sql, rules: Path) -> None:
    Path("logins.jsonl").write_bytes(lines(list(events(range(1, 8)))))
    file = "'connector' = 'filesystem', 'path' = 'logins.jsonl', 'format' = 'json'"
    memory = "'connector' = 'memory', 'name' = 'alerts', 'changelog-mode' = 'I,UB,UA,D'"
    tables = LOGINS.format(logins=file, hosts=TOPICS["hosts"], alerts=memory)
    own = [q.replace("RULE_NAME()", f"'{name}'") for name, q in RULES.items()]
    inserts = "".join(f"INSERT INTO alerts {query};\n" for query in own)
    Path("all.sql").write_text(f"{tables}{inserts}SELECT * FROM alerts;")
    ran = sql("run", "all.sql", "--output", "json")
    assert ran.exit_code == 0, ran.output
    done = sql(
        "backtest", "rules", "--table", "logins=logins.jsonl", "--out", "o", "--output", "json"
    )
    written = [{**r["alert"], "op": r.get("kind", "+I")} for r in map(json.loads, open("o"))]
    alerts = folded(written)
    assert alerts == folded(list(map(json.loads, ran.stdout.splitlines())))
    numbers = Counter(json.loads(row)["rule"] for row in alerts.elements())
    body = report(done)
    assert {name: body[name]["alerts"] for name in RULES} == numbers
    assert set(numbers) == set(RULES), "each rule fires"
    assert body[""]["rows"] == 7 * 200


def folded(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    """The rows that are there behind all changes."""
    found: Counter[str] = Counter()
    for row in rows:
        sign = -1 if row.pop("op", "+I") in ("-U", "-D") else 1
        found[json.dumps(row)] += sign
    return +found
