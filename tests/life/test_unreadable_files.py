"""A file that cannot be read costs itself alone, and not the rules beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Sql
from tests.service.harness import TABLES, User, rule

CASES = "cases:\n  - events: {events: [{id: 1}]}\n    alerts: {alerts: [{id: 1}]}\n"


@pytest.mark.parametrize("command", ["test", "lint", "validate", "backtest"])
def test_others_are_looked_at(served: Sql, user: User, tmp_path: Path, command: str) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "_tables.sql").write_text(TABLES)
    (rules / "fine.sql").write_text(rule("fine"))
    (rules / "fine.test.yaml").write_text(CASES)
    (rules / "latin.sql").write_bytes(rule("caf\xe9").encode("latin-1"))
    (rules / "latin.test.yaml").write_text(CASES)
    done = served(command, rules)
    said = done.stdout + done.stderr
    assert done.exit_code == 1, said
    assert f"'{rules / 'latin.sql'}' is not UTF-8" in said, said
    assert done.exception is None or isinstance(done.exception, SystemExit)
    told = {
        "test": "1 case, all passed",
        "lint": "1 rule, 0 doubtful, 1 text in error",
        "validate": "fine: valid",
        "backtest": "fine",
    }
    assert told[command] in said, said
