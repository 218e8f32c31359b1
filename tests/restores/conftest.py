"""Tells at the end what has been covered, where all scripts have been run; with `--update` on the page, too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.restores.covered import COVERED, DONE, PAGE, complete, hear, page


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name, value in report.user_properties:
        if name == COVERED and report.when == "call":
            hear(value)  # type: ignore[arg-type]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not complete():
        return
    terminalreporter.write_line(page(DONE).partition("\n\n")[2])
    if terminalreporter.config.getoption("--update"):
        PAGE.write_text(page(DONE))
