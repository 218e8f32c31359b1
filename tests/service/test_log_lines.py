"""Lines that others cause do not fill the log."""

from __future__ import annotations

import logging

import pytest

from sqlengine.system.log_lines import FewLines


def test_lines_are_few_and_tell_of_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    lines = FewLines(logging.getLogger("sqlengine.few"))
    for n in range(50):
        lines.write(logging.WARNING, "refused %d", n)
    now += 10
    lines.write(logging.WARNING, "refused %d", 50)
    assert [r.getMessage() for r in caplog.records] == [
        *(f"refused {n}" for n in range(10)),
        "refused 50 (40 such lines were left out before)",
    ]
