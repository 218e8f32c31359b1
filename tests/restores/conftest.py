"""Tells at the end what has been covered."""

from __future__ import annotations

from typing import Any

import pytest

from tests.restores.coverage_page import PAGE


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    PAGE.collect(report)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    PAGE.write_summary(terminalreporter)
