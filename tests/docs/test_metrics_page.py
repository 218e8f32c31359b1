"""docs/metrics.md names exactly the metrics that there are, each with its unit."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from rules.counters import Counters
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.executors.embedded import PRUNED
from sqlengine.metrics import render
from sqlengine.operators.member_counts import HELD_BACK, LATE_ROWS
from sqlengine.state import checkpoint
from tests.support import ROOT

ROW = re.compile(r"^\| `(sqlengine_\w+)` \|(.*)\|$", re.MULTILINE)
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def counted() -> set[str]:
    """The counters of operators, rules and checkpoints, which appear once they count."""
    sources = [p.read_text(encoding="utf-8") for p in (ROOT / "sqlengine").rglob("*.py")]
    names = {n for text in sources for n in re.findall(r'counters\["(\w+)"\] \+=', text)}
    names |= {v for n, v in vars(checkpoint).items() if n.startswith("CHECKPOINT")}
    names |= {f"rules_{f.name}" for f in fields(Counters)} | {LATE_ROWS, HELD_BACK, PRUNED}
    return {f"sqlengine_{name}_total" for name in names}


def test_the_page_names_the_metrics_that_there_are(tmp_path: Path) -> None:
    engine = Engine(Config(data=tmp_path))
    try:
        printed = set(re.findall(r"^# HELP (\w+)", render(engine).decode(), re.MULTILINE))
    finally:
        engine.close()
    named = [name for name, _ in ROW.findall(PAGE)]
    assert len(named) == len(set(named))
    assert set(named) == printed | counted()


def test_each_has_a_unit() -> None:
    columns = {name: cells.split("|") for name, cells in ROW.findall(PAGE)}
    assert [name for name, cells in columns.items() if not cells[-2].strip()] == []
