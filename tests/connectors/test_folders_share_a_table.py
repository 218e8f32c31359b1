"""Servers with data folders of their own write to one table of a database: none takes the epochs of
another for its own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlengine.broker.embedded import EmbeddedBroker, system_clock
from sqlengine.config import Config
from sqlengine.connectors.folder_name import folder_name, name_writers, writers_name
from sqlengine.engine import Engine
from tests.support import eventually

JOB = """
CREATE TABLE events (id INT) WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset');
CREATE TABLE seen (id INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{path}', 'table-name' = 'seen');
INSERT INTO seen SELECT id FROM events;
"""


def rows(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return sorted(n for (n,) in connection.execute("SELECT id FROM seen"))


def write(folder: Path, path: Path, number: int, wanted: list[int]) -> None:
    """One life of a server: it writes a row, which is there beside those of others."""
    engine = Engine(Config(data=folder))
    try:
        engine.broker.create_topic("events", if_not_exists=True)
        if not engine.jobs():
            engine.submit("job", JOB.format(path=path))
        engine.start()
        engine.broker.append("events", 0, [b'{"id": %d}' % number], timestamp_ms=0)
        eventually(lambda: rows(path) == wanted, lambda: rows(path))
    finally:
        engine.close()


def test_each_server_adds_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE seen (id INTEGER)")
    write(tmp_path / "one", path, 1, [1])
    write(tmp_path / "other", path, 2, [1, 2])
    write(tmp_path / "one", path, 3, [1, 2, 3])


def test_a_folder_that_was_used_before_has_no_name(tmp_path: Path) -> None:
    """What it wrote is found again under the names of then."""
    names = []
    for number, used in enumerate((True, False, False)):
        broker = EmbeddedBroker(tmp_path / str(number), fsync="none", clock=system_clock)
        assert writers_name(broker) == ""
        name_writers(broker, used=used)
        name_writers(broker, used=True)
        names.append(writers_name(broker))
        assert names[-1] in ("", folder_name(broker))
        broker.close()
    assert names[0] == ""
    assert names[1] != names[2]
    assert len(names[1]) == 16
