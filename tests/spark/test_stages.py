"""EXPLAIN for Spark: for every script of `stages`, the stages of each statement that it explains.
The expected text is beside it in a `.plan` file; `pytest --update` writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from parser.script import split
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.sql.golden import Collected

FOLDER = Path(__file__).parent / "stages"
HEAD = "== stages on Spark ==\n"


def explained(text: str, folder: Path) -> dict[int, str]:
    """The stages that EXPLAIN shows, by statement."""
    collected = Collected(text)
    with open_runner(folder) as runner:
        assert Session(runner, collected).run(text), collected.messages
    rows = {e["stmt"]: e["row"][0] for e in collected.events if e["kind"] == "row"}
    return {n: plan.partition(HEAD)[2].partition("\n\n==")[0] for n, plan in rows.items()}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sql")), ids=lambda p: p.stem)
def test_stages(path: Path, update: bool, tmp_path: Path) -> None:
    text = path.read_text()
    pieces = [p.sql for p in split(text)]
    stages = explained(text, tmp_path)
    result = "\n".join(f"{pieces[n]}\n\n{found}\n" for n, found in stages.items())
    expected = path.with_suffix(".plan")
    if update:
        expected.write_text(result)
    assert result == expected.read_text()
