"""The notebook of the examples runs from its first cell to its last, and shows what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import ROOT

NOTEBOOK = ROOT / "examples" / "notebooks" / "streams.ipynb"


def cells() -> list[str]:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    assert all(not c.get("outputs") for c in notebook["cells"]), "clear the outputs"
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


@pytest.mark.slow
def test_each_cell_runs() -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell()
    results: list[Any] = []
    try:
        for number, cell in enumerate(cells()):
            done = shell.run_cell(cell, store_history=True)
            assert done.success, f"cell {number}: {cell}"
            results.append(done.result)
    finally:
        if (connection := shell.user_ns.get("con")) is not None:
            connection.close()
    rows = [row for row in results if isinstance(row, list)]
    assert [sorted(row) for row in rows[0]] == [["best", "item"]] * 3
    assert results[-2] > 20
    shown = [r._repr_html_() for r in results if hasattr(r, "_repr_html_")]
    assert any("lamp" in html and "<table" in html for html in shown)
    assert any("GroupAggregate" in html and "<pre" in html for html in shown)
    assert any("minutes" in html and "running" in html for html in shown)
