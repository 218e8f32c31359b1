"""A data folder that is older than the tables outside of it: restored from a backup, its jobs write
again what they have written since, and nothing is taken for a repetition."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sqlengine.engine import Engine
from tests.engine.by_hand import EVENTS, append, die, open_engine, step

SEEN = """CREATE TABLE seen (id BIGINT)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'seen');
"""


def feed(engine: Engine, *ids: int) -> None:
    for each in ids:
        append(engine, each)
        step(engine)


@pytest.mark.parametrize("dies", [False, True])
def test_a_backup_goes_on_where_it_was(
    tmp_path: Path, dies: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        database.execute("CREATE TABLE seen (id BIGINT)")
    data, backup = tmp_path / "data", tmp_path / "backup"
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS + SEEN.format(folder=tmp_path))
    engine.submit("copies", "INSERT INTO seen SELECT id FROM events")
    feed(engine, 0, 1, 2)
    (die if dies else Engine.close)(engine)
    shutil.copytree(data, backup)
    later = open_engine(tmp_path)
    feed(later, 3, 4, 5, 6)
    later.close()
    assert "older" not in caplog.text
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    restored = open_engine(tmp_path)
    assert "'seen' has rows of later epochs" in caplog.text
    feed(restored, 7, 8)
    restored.close()
    again = open_engine(tmp_path)
    feed(again, 9)
    again.close()
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        found = [row[0] for row in database.execute("SELECT id FROM seen ORDER BY rowid")]
    assert found == list(range(10))
