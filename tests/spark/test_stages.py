"""EXPLAIN for Spark: for every script of `stages`, the stages of each statement that it explains.
The expected text is beside it in a `.plan` file; `pytest --update` writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from parser.script import split
from sqlengine.cli import cli
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


def test_a_file_says_or_is_told_where_it_would_run(tmp_path: Path) -> None:
    """What Spark refuses is refused here, too."""
    text = (FOLDER / "reading.sql").read_text()
    tables = text.partition("-- Tasks read")[0].partition(";\n")[2]
    plain, told = tmp_path / "plain.sql", tmp_path / "told.sql"
    plain.write_text(f"{tables} INSERT INTO rows_of SELECT host, v FROM made;")
    told.write_text(f"SET 'execution.target' = 'spark'; {plain.read_text()}")

    def shown(path: Path, *arguments: str) -> Result:
        return CliRunner().invoke(cli, ["explain", str(path), *arguments])

    stages = (
        "stage 0: a task for each part of what is read\n  <- made, read by tasks\n  Scan made (datagen)\n"
        "  -> rows_of, written by the driver\n"
    )
    assert HEAD not in shown(plain).stdout
    assert shown(plain, "--on", "spark").stdout.endswith(HEAD + stages)
    assert shown(told).stdout.endswith(HEAD + stages)
    assert HEAD not in shown(told, "--on", "embedded").stdout
    (stage,) = json.loads(shown(told, "--output", "json").stdout)["stages"]
    assert stage["reads"] == [{"table": "made", "where": "tasks"}]
    paced = "SET 'pipeline.auto-watermark-interval' = '1 s';" + tables
    plain.write_text(f"{paced} INSERT INTO rows_of SELECT host, v FROM followed;")
    refused = shown(plain, "--on", "spark")
    assert refused.exit_code == 1
    assert "watermarks at intervals are not supported on Spark yet" in refused.stderr
