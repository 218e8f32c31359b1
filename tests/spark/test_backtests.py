"""A backtest on Spark gives the alerts that it gives in one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Sql, sql
from tests.life.test_backtest import events, lines, not_nice, report, rules

__all__ = ["not_nice", "rules", "sql"]


@pytest.mark.slow
@pytest.mark.spark
def test_alerts_on_spark_are_those_of_one_process(sql: Sql, spark: Any, rules: Path) -> None:
    for day in range(1, 6):
        folder = Path(f"archive/dt=2026-01-{day:02d}")
        folder.mkdir(parents=True)
        (folder / "a.jsonl").write_bytes(lines(list(events([day]))))
    given = ("backtest", "rules", "--table", "logins=archive", "--since", "2026-01-03", "--output")
    found = [
        report(sql(*given, "json", "--out", where, "--on", where))
        for where in ("embedded", "spark")
    ]
    for name in ("failed", "many", "twice", "total"):
        alerts, days = ([body[name][key] for body in found] for key in ("alerts", "days"))
        assert alerts[0] == alerts[1]
        assert days[0] == days[1] or name == "total", "it has no times"
    one, other = (
        sorted(line for line in Path(where).read_text().splitlines() if "total" not in line)
        for where in ("embedded", "spark")
    )
    assert one == other
    assert found[1][""]["on_spark"] == (
        "2 rules by usr; 1 rule in tasks for each part of what is read; 1 rule by usr, host"
    )
    assert json.loads(one[0])["time"].startswith("2026-01-03")
