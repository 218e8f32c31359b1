"""The SQL in the documents runs: every block is submitted as a job to an engine, after those before
it; a script in batch mode is run."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.sql.golden import Collected

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")])
# Modules of users: their first line says where they are.
MODULE = re.compile(r"^```python\n# (functions/\w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Databases: their first line says where they are.
SQLITE = re.compile(r"^```sqlite\n-- (\w+\.db)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BATCH = "SET 'execution.runtime-mode' = 'batch';"
TOPIC = re.compile(r"'topic'\s*=\s*'([^']+)'\s*,")


def jobs_of(text: str) -> list[str]:
    """The blocks of SQL that are jobs. A query alone is none: it is the example of a function, and
    tested with that; nor is a script in batch mode."""
    return [b for b in BLOCK.findall(text) if not b.startswith(("SELECT", BATCH))]


def scripts_of(text: str) -> list[str]:
    return [b for b in BLOCK.findall(text) if b.startswith(BATCH)]


# Pages whose blocks run with what is around them: in tests/connectors, and in test_tutorial.py.
BESIDE_A_SERVER = {"kafka.md", "tutorial.md"}
WITH_SCRIPTS = [d for d in DOCUMENTS if scripts_of(d.read_text(encoding="utf-8"))]
WITH_SQL = [
    d for d in DOCUMENTS if d.name not in BESIDE_A_SERVER and jobs_of(d.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("document", WITH_SQL, ids=lambda p: p.name)
def test_sql_of_the_document_runs(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = document.read_text(encoding="utf-8")
    for name, source in SQLITE.findall(text):
        with sqlite3.connect(name) as database:
            database.executescript(source)
    for name, source in MODULE.findall(text):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    engine = Engine(Config(data=tmp_path / "data", functions=tmp_path / "functions"))
    try:
        for number, block in enumerate(jobs_of(text)):
            for topic in TOPIC.findall(block):
                engine.broker.create_topic(topic, if_not_exists=True)
            assert engine.submit(f"block{number}", block).status in ("added", "shadowed")
    finally:
        engine.close()


@pytest.mark.parametrize("document", WITH_SCRIPTS, ids=lambda p: p.name)
def test_scripts_of_the_document_run(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, block in enumerate(scripts_of(document.read_text(encoding="utf-8"))):
        collected = Collected(block)
        with open_runner(tmp_path / str(number)) as runner:
            assert Session(runner, collected).run(block), collected.messages


def test_the_readme_has_sql() -> None:
    assert ROOT / "README.md" in WITH_SQL
