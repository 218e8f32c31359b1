"""Tells at the end what has been covered, where all scripts have been run."""

from __future__ import annotations

from typing import Any

from tests.restores.covered import DONE, STREAMING, page


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if DONE.keys() == {s.name for s in STREAMING}:
        terminalreporter.write_line(page(DONE).partition("\n\n")[2])
