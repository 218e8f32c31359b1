"""docs/context.md: its rules pass the cases that stand below them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import Sql, sql
from tests.support import ROOT

PAGE = (ROOT / "docs" / "context.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(sql|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)

__all__ = ["sql"]


def test_every_rule_passes_its_cases(sql: Sql, tmp_path: Path) -> None:
    (_, tables), *blocks = BLOCK.findall(PAGE)
    (tmp_path / "_tables.sql").write_text(tables)
    rules = list(zip(blocks[::2], blocks[1::2], strict=True))
    for number, ((_, text), (kind, cases)) in enumerate(rules):
        assert kind == "yaml"
        (tmp_path / f"r{number}.sql").write_text(text)
        (tmp_path / f"r{number}.test.yaml").write_text(cases)
    result = sql("test", tmp_path)
    assert result.exit_code == 0, result.output
    assert f"{len(rules)} rules, {len(rules)} cases, all passed" in result.output
