"""Sets of rules are rebuilt beside the stream, and take the place of those with deltas."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine.graphs import rebuild
from sqlengine.operators.rules import RulesOperator
from tests.engine.by_hand import EVENTS, open_engine
from tests.support import eventually


def test_a_rebuilt_set_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "QUIET_S", 0.05)
    monkeypatch.setattr(rebuild, "QUIET_FACTOR", 0.0)
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    for n in range(5):
        engine.submit(
            f"job-{n}", f"INSERT INTO outs SELECT host, 1 FROM events WHERE host LIKE '%{n}'"
        )

    def fresh() -> bool:
        running = [node.operator for node in engine.graph.executor.running.values()]
        (rules,) = (operator for operator in running if isinstance(operator, RulesOperator))
        return rules.compiled.ruleset.is_freshly_compiled

    assert not fresh()
    eventually(fresh, "its deltas stay")
    engine.close()
