"""The page of limits and the limits themselves, and the one of memory that holds by default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from parser.errors import OptionError
from parser.limits import Limits, changed, from_environment, names, written
from sqlengine.executors.memory_limits import MemoryLimits, standard_limit
from sqlengine.system.memory import usable_bytes
from tests.support import ROOT

PAGE = (Path(ROOT) / "docs" / "limits.md").read_text()


def test_the_page_has_every_limit_with_its_default() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", PAGE, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(names())
    assert changed(Limits(*[1] * len(names())), map("=".join, rows)) == Limits()


def test_limits_are_changed_by_texts() -> None:
    limits = changed(Limits(), ["record-size=20MB", "planning-time=2min", "plan-nodes = 7"])
    assert (limits.record_size, limits.planning_time, limits.plan_nodes) == (20 << 20, 120, 7)
    assert from_environment({"SQLENGINE_LIMITS": written(limits)}) == limits
    assert from_environment({}) == Limits()
    for text in ("record-size", "size=1", "record-size=0", "plan-nodes=1MB", "planning-time=1h"):
        with pytest.raises(OptionError):
            changed(Limits(), [text])


def test_all_state_may_take_four_fifths_of_the_memory() -> None:
    assert standard_limit() == usable_bytes() * 4 // 5
    used = [99]
    limits = MemoryLimits(None, 10, 100, lambda: used[0])
    assert limits.total == 100
    measured = []
    for used[0] in (99, 101):
        measured.append(limits.must_measure)
    assert measured == [False, True]
    assert MemoryLimits(500, 10, 100, lambda: 0).total == 500
